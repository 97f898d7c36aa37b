from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import BeforeOrAfter, add_site_capacity, build_occupied_sites
from nexusform.plans.plan import Mode
from nexusform.plans.saved import plan_file
from nexusform.plans.site_capacity.occupancy import SiteCapacity, SiteVms
from nexusform.plans.site_capacity.other_capacity import NetworkSupply, SiteSupplies, build_supplies_note
from nexusform.resources.address import parse_address
from nexusform.state.objects import EMPTY, InstanceState
from tests.planning.harness import all_types, applied, plan

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


def site(machines: int = 2) -> str:
    return SITE.replace("MACHINES", str(machines))


def cluster(name: str, count: int, surge: str = "1") -> str:
    return CLUSTER.replace("NAME", name).replace("COUNT", str(count)).replace("SURGE", surge)


def rooms(result: PlanResult) -> tuple[SiteCapacity, ...]:
    return add_site_capacity(result, all_types()).plan.capacity


def test_free_cells_and_a_rack_lost() -> None:
    # Six machines of two cells: one cell is broken by the control plane, three are taken.
    result = plan(site() + cluster("a", 3))
    workers, masters = rooms(result)
    assert (workers.site_id, workers.site, workers.sku, workers.cells) == ("s", "s", "NC_P46_224_v1", 1)
    assert workers.before is None
    assert workers.after is not None
    assert workers.after.free == 12 - 1 - 3
    # Every rack holds a worker; the control plane stands on one of them, so the others have 3 free.
    assert workers.after.free_after_rack_loss == 8 - 3
    assert (workers.after.no_surge_clusters, workers.after.clusters) == ((), ("a",))
    # The largest SKU comes first; four of the small one fit into a whole cell, three beside a control plane.
    assert masters.sku == "NC_G12_56_v1"
    assert masters.after is not None
    assert masters.after.free == 4 * 8 + 3


def test_before_and_after() -> None:
    first = plan(site() + cluster("a", 3))
    second = plan(site() + cluster("a", 3) + cluster("b", 4), applied(first))
    workers = rooms(second)[0]
    assert workers.before is not None
    assert workers.after is not None
    assert (workers.before.free, workers.before.clusters) == (8, ("a",))
    # b takes four cells; its control plane shares none of them, or the one that a's broke.
    assert workers.after.free in (3, 4)
    assert workers.after.clusters == ("a", "b")


def test_figures_agree_with_placing_that_many_and_one_more() -> None:
    text = site() + cluster("a", 3)
    stands = applied(plan(text))
    room = rooms(plan(text, stands))[0].after
    assert room is not None
    grown = plan(site() + cluster("a", 3 + room.free), stands)
    assert not grown.plan.errored
    assert plan(site() + cluster("a", 4 + room.free), stands).plan.errored


def test_clusters_without_room_for_their_surge_are_named() -> None:
    result = plan(site() + cluster("a", 4, "50%") + cluster("b", 5, "1"))
    room = rooms(result)[0].after
    assert room is not None
    assert room.free == 1
    assert room.no_surge_clusters == ("a",)


def test_what_is_gone_and_what_is_in_error_has_no_room() -> None:
    first = plan(site() + cluster("a", 3))
    gone = plan("", applied(first))
    workers = rooms(gone)[0]
    assert workers.before is not None
    assert workers.after is None
    errored = plan(site() + cluster("a", 99))
    assert errored.plan.errored
    assert rooms(errored) == ()
    assert rooms(plan(site(), EMPTY)) == ()


# --- the sites on each side --------------------------------------------------------------------


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


def the_site(result: PlanResult) -> SiteVms:
    (only,) = add_site_capacity(result, all_types()).plan.sites
    return only


def before(result: PlanResult) -> set[str]:
    return {vm.name for pool in the_site(result).pools for vm in pool.before}


def after(result: PlanResult) -> set[str]:
    return {vm.name for pool in the_site(result).pools for vm in pool.after}


def test_the_sites_are_those_that_planning_left() -> None:
    result = plan(site() + PLAIN + cluster("a", 3) + cluster("b", 2))
    rebuilt = build_occupied_sites(result.plan, result.objects, all_types(), BeforeOrAfter.AFTER)["s"]
    left = result.sites["s"].scheduler
    assert Counter((vm.vm, vm.sku, vm.placement) for vm in rebuilt.site.scheduler.list_vms()) == Counter(
        (vm.vm, vm.sku, vm.placement) for vm in left.list_vms()
    )
    assert rebuilt.site.machines == result.sites["s"].machines
    assert [vm.name for vm in the_site(result).unmanaged_vms] == ["legacy"]
    assert after(result) >= {"jump", "a-control-plane-0", "b-np-1"}
    assert [(pool.cluster, pool.pool) for pool in the_site(result).pools] == [
        ("nexus_virtual_machine.v", "vm"),
        ("a", "control-plane"),
        ("a", "np"),
        ("b", "control-plane"),
        ("b", "np"),
    ]
    assert before(result) == set()


def test_before_is_what_stood() -> None:
    first = plan(site() + PLAIN + cluster("a", 3))
    second = plan(site() + PLAIN + cluster("a", 1) + cluster("b", 2), applied(first))
    assert before(second) - after(second) == {"a-np-1", "a-np-2"}
    assert after(second) - before(second) == {"b-control-plane-0", "b-np-0", "b-np-1"}


def test_a_vm_that_stays_is_the_very_record_that_was_read_from_state() -> None:
    first = plan(site() + cluster("a", 3))
    second = plan(site() + cluster("a", 4), applied(first))
    read = {id(vm) for vms in second.objects.values() for vm in vms.prior.existing.values()}
    kept = [vm for pool in the_site(second).pools for vm in pool.unchanged]
    assert len(kept) == 4
    assert all(id(vm) in read for vm in kept)


def test_what_moves_is_there_on_both_sides() -> None:
    first = plan(site() + cluster("a", 3))
    second = plan(site().replace("= 2", "= 1") + cluster("a", 3), applied(first))
    moved = {row.object for row in second.plan.placements}
    pools = the_site(second).pools
    assert moved
    assert {vm.name for pool in pools for vm in pool.removed} == moved
    assert {vm.name for pool in pools for vm in pool.added} == moved
    gone = [machine for machine in the_site(second).machines if not machine.exists_after]
    assert len(gone) == 3
    assert all(machine.exists_before for machine in gone)


def test_a_plan_in_error_shows_what_stands_and_what_it_would_have_placed() -> None:
    first = plan(site() + cluster("a", 3))
    errored = plan(site() + cluster("a", 99), applied(first))
    assert errored.plan.errored
    assert before(errored) == after(first)
    assert len(before(errored)) == 4
    assert before(errored) < after(errored)
    assert errored.plan.capacity == ()


def test_a_destroy_leaves_nobody() -> None:
    first = plan(site() + cluster("a", 3) + cluster("b", 1))
    gone = plan(site() + cluster("a", 3) + cluster("b", 1), applied(first), mode=Mode.DESTROY)
    assert len(before(gone)) == 6
    assert after(gone) == set()
    part = plan(
        site() + cluster("a", 3) + cluster("b", 1),
        applied(first),
        mode=Mode.DESTROY,
        targets=("nexus_kubernetes_cluster.b",),
    )
    assert after(part) == {"a-control-plane-0", "a-np-0", "a-np-1", "a-np-2"}


def test_pools_are_listed_by_number_whatever_the_order_of_names() -> None:
    result = plan(site(6) + cluster("a", 12))
    names = [vm.name for pool in the_site(result).pools for vm in pool.after]
    assert names == ["a-control-plane-0", *(f"a-np-{n}" for n in range(12))]


def test_a_saved_plan_brings_its_sites_and_its_room_back() -> None:
    first = plan(site() + PLAIN + cluster("a", 3))
    second = plan(site() + PLAIN + cluster("a", 1) + cluster("b", 2), applied(first))
    whole = add_site_capacity(second, all_types()).plan
    saved, problems = plan_file.read_plan_file(plan_file.write_plan_file(whole, {}))
    assert saved is not None, problems
    assert whole.capacity
    assert (saved.plan.sites, saved.plan.capacity) == (whole.sites, whole.capacity)


def test_nodes_of_a_new_cluster_take_addresses_of_the_network_that_it_names() -> None:
    network = 'networkConfiguration = { cniNetworkId = "/x/cniNetworks/net-b" }'
    azure = f"azure {{ body = {{ properties = {{ {network} }} }} }}"
    site = SITE.replace("MACHINES", "4")
    state = applied(plan(site))
    where = parse_address("nexus_site.s")
    supplies = SiteSupplies(networks=(NetworkSupply("net-a", 30, 2), NetworkSupply("net-b", 254, 4)))
    current = state.instances[where].current
    assert current is not None
    noted = replace(current, private=build_supplies_note(supplies))
    cluster = CLUSTER.replace("NAME", "a").replace("COUNT", "3").replace("SURGE", "1")
    result = plan(
        site + cluster.replace("control_plane {", f"{azure}\n  control_plane {{", 1),
        state.replace_instance(where, InstanceState(noted)),
    )
    made = add_site_capacity(result, all_types()).plan
    free = {row.name: (row.free_before, row.free) for row in made.other_capacity if "net" in row.name}
    assert free == {"net-a": (28, 28), "net-b": (250, 246)}
