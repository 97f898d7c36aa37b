from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import (
    BeforeOrAfter,
    add_site_capacity,
    build_occupied_sites,
)
from nexusform.plans.plan import Mode
from nexusform.plans.saved import plan_file
from nexusform.plans.site_capacity.occupancy import SiteSkuCapacity, SiteVms
from nexusform.plans.site_capacity.site_resource_capacity import (
    NetworkAddresses,
    SiteResources,
    build_site_resources_note,
)
from nexusform.resources.address import parse_address
from nexusform.state.objects import EMPTY, InstanceState
from tests.planning.harness import build_all_types, build_state_after, plan

SITE = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 3
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = MACHINES
}
"""
CLUSTER = """
resource "nexus_kubernetes_cluster" "NAME" {
  site_id = nexus_site.s.id
  name    = "NAME"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "np" {
    count       = COUNT
    vm_sku_name = "NC_P46_224_v1"
    upgrade_settings {
      max_surge = "SURGE"
    }
  }
}
"""


def build_site(machines: int = 2) -> str:
    return SITE.replace("MACHINES", str(machines))


def build_cluster(name: str, count: int, surge: str = "1") -> str:
    return CLUSTER.replace("NAME", name).replace("COUNT", str(count)).replace("SURGE", surge)


def list_capacity(result: PlanResult) -> tuple[SiteSkuCapacity, ...]:
    return add_site_capacity(result, build_all_types()).plan.site_records.capacity


def test_free_cells_and_free_cells_after_rack_loss() -> None:
    # Six machines with two cells: the control plane splits one cell, workers occupy three.
    result = plan(build_site() + build_cluster("a", 3))
    workers, masters = list_capacity(result)
    assert (workers.site_id, workers.site, workers.sku, workers.cells) == (
        "s",
        "s",
        "NC_P46_224_v1",
        1,
    )
    assert workers.before is None
    assert workers.after is not None
    assert workers.after.free == 12 - 1 - 3
    # Every rack runs a worker and one of them the control plane, so the other two have
    # 3 free cells.
    assert workers.after.free_after_rack_loss == 8 - 3
    assert (workers.after.no_surge_clusters, workers.after.clusters) == ((), ("a",))
    # The largest SKU comes first. Four VMs of the small one fit into a free cell, three beside
    # a control plane.
    assert masters.sku == "NC_G12_56_v1"
    assert masters.after is not None
    assert masters.after.free == 4 * 8 + 3


def test_capacity_before_and_after() -> None:
    first = plan(build_site() + build_cluster("a", 3))
    second = plan(
        build_site() + build_cluster("a", 3) + build_cluster("b", 4), build_state_after(first)
    )
    workers = list_capacity(second)[0]
    assert workers.before is not None
    assert workers.after is not None
    assert (workers.before.free, workers.before.clusters) == (8, ("a",))
    # b takes four cells. Its control plane uses none of them, or the cell already split by the
    # one of a.
    assert workers.after.free in (3, 4)
    assert workers.after.clusters == ("a", "b")


def test_free_count_fits_and_one_more_does_not() -> None:
    text = build_site() + build_cluster("a", 3)
    stands = build_state_after(plan(text))
    room = list_capacity(plan(text, stands))[0].after
    assert room is not None
    grown = plan(build_site() + build_cluster("a", 3 + room.free), stands)
    assert not grown.plan.errored
    assert plan(build_site() + build_cluster("a", 4 + room.free), stands).plan.errored


def test_clusters_without_surge_capacity_are_named() -> None:
    result = plan(build_site() + build_cluster("a", 4, "50%") + build_cluster("b", 5, "1"))
    room = list_capacity(result)[0].after
    assert room is not None
    assert room.free == 1
    assert room.no_surge_clusters == ("a",)


def test_no_capacity_for_deleted_or_failed_plans() -> None:
    first = plan(build_site() + build_cluster("a", 3))
    gone = plan("", build_state_after(first))
    workers = list_capacity(gone)[0]
    assert workers.before is not None
    assert workers.after is None
    errored = plan(build_site() + build_cluster("a", 99))
    assert errored.plan.errored
    assert list_capacity(errored) == ()
    assert list_capacity(plan(build_site(), EMPTY)) == ()


# --- sites before and after ----------------------------------------------------------------------


PLAIN = """
resource "nexus_bare_metal_machine" "m" {
  rack_id     = nexus_rack.r[0].id
  name        = "extra"
  slot        = 9
  machine_sku = "bom-1.7.3"
  occupied {
    name       = "legacy"
    cpu_cores  = 8
    memory_gib = 32
  }
}
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  name       = "jump"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 10
}
"""


def get_site(result: PlanResult) -> SiteVms:
    (only,) = add_site_capacity(result, build_all_types()).plan.site_records.sites
    return only


def list_vms_before(result: PlanResult) -> set[str]:
    return {vm.name for pool in get_site(result).pools for vm in pool.before}


def list_vms_after(result: PlanResult) -> set[str]:
    return {vm.name for pool in get_site(result).pools for vm in pool.after}


def test_rebuilt_sites_equal_planned_sites() -> None:
    result = plan(build_site() + PLAIN + build_cluster("a", 3) + build_cluster("b", 2))
    rebuilt = build_occupied_sites(
        result.plan, result.objects, build_all_types(), BeforeOrAfter.AFTER
    )["s"]
    left = result.sites["s"].scheduler
    assert Counter(
        (vm.vm, vm.sku, vm.placement) for vm in rebuilt.site.scheduler.list_vms()
    ) == Counter((vm.vm, vm.sku, vm.placement) for vm in left.list_vms())
    assert rebuilt.site.machines == result.sites["s"].machines
    assert [vm.name for vm in get_site(result).unmanaged_vms] == ["legacy"]
    assert list_vms_after(result) >= {"jump", "a-control-plane-0", "b-np-1"}
    assert [(pool.cluster, pool.pool) for pool in get_site(result).pools] == [
        ("nexus_virtual_machine.v", "vm"),
        ("a", "control-plane"),
        ("a", "np"),
        ("b", "control-plane"),
        ("b", "np"),
    ]
    assert list_vms_before(result) == set()


def test_before_lists_existing_vms() -> None:
    first = plan(build_site() + PLAIN + build_cluster("a", 3))
    second = plan(
        build_site() + PLAIN + build_cluster("a", 1) + build_cluster("b", 2),
        build_state_after(first),
    )
    assert list_vms_before(second) - list_vms_after(second) == {"a-np-1", "a-np-2"}
    assert list_vms_after(second) - list_vms_before(second) == {
        "b-control-plane-0",
        "b-np-0",
        "b-np-1",
    }


def test_unchanged_vm_is_the_record_read_from_state() -> None:
    first = plan(build_site() + build_cluster("a", 3))
    second = plan(build_site() + build_cluster("a", 4), build_state_after(first))
    read = {id(vm) for vms in second.objects.values() for vm in vms.prior.existing.values()}
    kept = [vm for pool in get_site(second).pools for vm in pool.unchanged]
    assert len(kept) == 4
    assert all(id(vm) in read for vm in kept)


def test_moved_vms_are_on_both_sides() -> None:
    first = plan(build_site() + build_cluster("a", 3))
    second = plan(
        build_site().replace("= 2", "= 1") + build_cluster("a", 3), build_state_after(first)
    )
    moved = {row.object for row in second.plan.placements}
    pools = get_site(second).pools
    assert moved
    assert {vm.name for pool in pools for vm in pool.removed} == moved
    assert {vm.name for pool in pools for vm in pool.added} == moved
    gone = [machine for machine in get_site(second).machines if not machine.exists_after]
    assert len(gone) == 3
    assert all(machine.exists_before for machine in gone)


def test_failed_plan_shows_existing_and_attempted_vms() -> None:
    first = plan(build_site() + build_cluster("a", 3))
    errored = plan(build_site() + build_cluster("a", 99), build_state_after(first))
    assert errored.plan.errored
    assert list_vms_before(errored) == list_vms_after(first)
    assert len(list_vms_before(errored)) == 4
    assert list_vms_before(errored) < list_vms_after(errored)
    assert errored.plan.site_records.capacity == ()


def test_destroy_leaves_no_vms() -> None:
    first = plan(build_site() + build_cluster("a", 3) + build_cluster("b", 1))
    gone = plan(
        build_site() + build_cluster("a", 3) + build_cluster("b", 1),
        build_state_after(first),
        mode=Mode.DESTROY,
    )
    assert len(list_vms_before(gone)) == 6
    assert list_vms_after(gone) == set()
    part = plan(
        build_site() + build_cluster("a", 3) + build_cluster("b", 1),
        build_state_after(first),
        mode=Mode.DESTROY,
        targets=("nexus_kubernetes_cluster.b",),
    )
    assert list_vms_after(part) == {"a-control-plane-0", "a-np-0", "a-np-1", "a-np-2"}


def test_pool_vms_are_listed_by_number() -> None:
    result = plan(build_site(6) + build_cluster("a", 12))
    names = [vm.name for pool in get_site(result).pools for vm in pool.after]
    assert names == ["a-control-plane-0", *(f"a-np-{n}" for n in range(12))]


def test_saved_plan_contains_sites_and_capacity() -> None:
    first = plan(build_site() + PLAIN + build_cluster("a", 3))
    second = plan(
        build_site() + PLAIN + build_cluster("a", 1) + build_cluster("b", 2),
        build_state_after(first),
    )
    whole = add_site_capacity(second, build_all_types()).plan
    saved, problems = plan_file.read_plan_file(plan_file.write_plan_file(whole, {}))
    assert saved is not None, problems
    assert whole.site_records.capacity
    assert (saved.plan.site_records.sites, saved.plan.site_records.capacity) == (
        whole.site_records.sites,
        whole.site_records.capacity,
    )


def test_nodes_of_new_cluster_use_addresses_of_its_network() -> None:
    network = 'networkConfiguration = { cniNetworkId = "/x/cniNetworks/net-b" }'
    azure = f"azure {{ body = {{ properties = {{ {network} }} }} }}"
    site = SITE.replace("MACHINES", "4")
    state = build_state_after(plan(site))
    where = parse_address("nexus_site.s")
    supplies = SiteResources(
        networks=(NetworkAddresses("net-a", 30, 2), NetworkAddresses("net-b", 254, 4))
    )
    current = state.instances[where].current
    assert current is not None
    noted = replace(current, private=build_site_resources_note(supplies))
    cluster = CLUSTER.replace("NAME", "a").replace("COUNT", "3").replace("SURGE", "1")
    result = plan(
        site + cluster.replace("control_plane {", f"{azure}\n  control_plane {{", 1),
        state.replace_instance(where, InstanceState(noted)),
    )
    made = add_site_capacity(result, build_all_types()).plan
    free = {
        row.name: (row.free_before, row.free)
        for row in made.site_records.other_capacity
        if "net" in row.name
    }
    assert free == {"net-a": (28, 28), "net-b": (250, 246)}
