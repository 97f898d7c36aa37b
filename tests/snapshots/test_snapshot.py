from nexusform.plans.site_capacity.occupancy import VmOwnerKind
from nexusform.snapshots.snapshot import list_planned_objects, list_state_objects
from nexusform.state.objects import EMPTY
from tests.planning.harness import agent_pool, build_state_after, cluster, list_places, plan, pool
from tests.worlds.small_worlds import (
    build_applied_state,
    build_racks,
    build_snapshot_after_plan,
    get_site,
    where,
)

A = cluster("a", pools=pool("p", 3, more="upgrade_settings { drain_timeout = 600 }"), count=3)
VM = """
resource "nexus_virtual_machine" "v" {
  count      = 2
  site_id    = nexus_site.s.id
  name       = "v${count.index}"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 40
}
"""


def test_every_vm_is_at_its_place_in_state() -> None:
    state = build_applied_state(
        build_racks(3, 3) + A + VM + agent_pool("x", "nexus_kubernetes_cluster.a.id", 2)
    )
    assert where(get_site(state)) == list_places(state)


def test_snapshot_of_plan_equals_snapshot_after_apply() -> None:
    before = build_applied_state(build_racks(3, 3) + A)
    result = plan(build_racks(3, 4) + cluster("b", pools=pool("q", 2)) + VM, before)
    after = build_state_after(result, before)
    seen = build_snapshot_after_plan(result, before)
    assert where(seen.sites["s"]) == list_places(after) == where(get_site(after))
    assert [c.id for c in seen.sites["s"].clusters] == [c.id for c in get_site(after).clusters]


def test_separate_pool_belongs_to_its_cluster() -> None:
    site = get_site(
        build_applied_state(
            build_racks(4) + A + agent_pool("x", "nexus_kubernetes_cluster.a.id", 2) + VM
        )
    )
    [a, v0, v1] = site.clusters
    assert (a.id, a.kind, [p.name for p in a.pools]) == (
        "s/a",
        VmOwnerKind.NKS,
        ["control-plane", "p", "x"],
    )
    assert [p.is_control_plane for p in a.pools] == [True, False, False]
    assert [p.drain_timeout for p in a.pools] == [1800, 600, 1800]
    assert [(v.id, v.name, v.kind) for v in (v0, v1)] == [
        ("s/v0", "v0", VmOwnerKind.VM),
        ("s/v1", "v1", VmOwnerKind.VM),
    ]


def test_planned_rack_has_no_machines_yet() -> None:
    planned = build_racks(2).replace(
        "machine_count     = 2", 'machine_count = 2\n  status = "planned"'
    )
    site = get_site(build_applied_state(planned))
    assert site.active_racks == ()
    assert [rack.name for rack in site.racks] == ["r1"]


def test_planned_objects_equal_the_state_after_apply() -> None:
    first = plan(build_racks(3, 3) + A)
    state = build_state_after(first)
    assert {t.address for t in list_planned_objects(first.plan, EMPTY)} == {
        t.address for t in list_state_objects(state)
    }
    second = plan(build_racks(3, 3) + cluster("b", pools=pool("q", 2)), state)
    left = {str(thing.address) for thing in list_planned_objects(second.plan, state)}
    assert "nexus_kubernetes_cluster.a" not in left
    assert "nexus_kubernetes_cluster.b" in left
