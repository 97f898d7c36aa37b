from nexusform.scheduling.racks.vms import PlacementConstraints, build_standalone_demand
from nexusform.snapshots.snapshot import VmOwnerKind, list_planned_objects, list_state_objects
from nexusform.state.objects import EMPTY
from tests.planning.harness import agent_pool, applied, cluster, places, plan, pool
from tests.worlds.small_worlds import racks, site_of, standing, where, world_after, world_of

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


def test_every_vm_of_the_state_stands_where_the_state_says() -> None:
    state = standing(racks(3, 3) + A + VM + agent_pool("x", "nexus_kubernetes_cluster.a.id", 2))
    assert where(site_of(state)) == places(state)


def test_a_plan_shows_the_world_that_its_apply_leaves() -> None:
    before = standing(racks(3, 3) + A)
    result = plan(racks(3, 4) + cluster("b", pools=pool("q", 2)) + VM, before)
    after = applied(result, before)
    seen = world_after(result, before)
    assert where(seen.sites["s"]) == places(after) == where(site_of(after))
    assert [c.id for c in seen.list_clusters()] == [c.id for c in world_of(after).list_clusters()]


def test_a_separate_pool_belongs_to_its_cluster() -> None:
    site = site_of(standing(racks(4) + A + agent_pool("x", "nexus_kubernetes_cluster.a.id", 2) + VM))
    [a, v0, v1] = site.clusters
    assert (a.id, a.kind, [p.name for p in a.pools]) == ("s/a", VmOwnerKind.NKS, ["control-plane", "p", "x"])
    assert [p.is_control_plane for p in a.pools] == [True, False, False]
    assert [p.drain_timeout for p in a.pools] == [1800, 600, 1800]
    assert [(v.id, v.name, v.kind) for v in (v0, v1)] == [
        ("s/v0", "v0", VmOwnerKind.VM),
        ("s/v1", "v1", VmOwnerKind.VM),
    ]


def test_machines_that_are_taken_away_hold_no_vm_and_take_none() -> None:
    site = site_of(standing(racks(2, 2) + A))
    lost = frozenset({"r1-bm01", "r1-bm02"})
    scheduler, handles = site.build_scheduler_without(lost, "lost")
    assert {vm.placement.rack for vm in scheduler.list_vms()} == {"r2"}
    assert len(handles) == len([m for m, _ in where(site).values() if m not in lost])
    assert (
        scheduler.count_free_slots(
            build_standalone_demand(site.skus["NC_P46_224_v1"], PlacementConstraints(frozenset({"1"})))
        ).maximum
        == 0
    )
    assert len(list(site.scheduler.list_vms())) == 6  # asking changes nothing


def test_a_planned_rack_has_no_machines_yet() -> None:
    planned = racks(2).replace("machine_count     = 2", 'machine_count = 2\n  status = "planned"')
    site = site_of(standing(planned))
    assert site.active_racks == ()
    assert [rack.name for rack in site.racks] == ["r1"]


def test_the_things_after_a_plan_are_those_of_the_state_that_it_leads_to() -> None:
    first = plan(racks(3, 3) + A)
    state = applied(first)
    assert {t.address for t in list_planned_objects(first.plan, EMPTY)} == {
        t.address for t in list_state_objects(state)
    }
    second = plan(racks(3, 3) + cluster("b", pools=pool("q", 2)), state)
    left = {str(thing.address) for thing in list_planned_objects(second.plan, state)}
    assert "nexus_kubernetes_cluster.a" not in left
    assert "nexus_kubernetes_cluster.b" in left
