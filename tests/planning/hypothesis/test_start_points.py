"""Tests of start points without a configuration: what the platform does after a loss."""

from __future__ import annotations

from nexusform.planning.edits import LostMachines
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.hypothesis.recreations import list_recreated_pools
from nexusform.planning.hypothesis.start_points import build_snapshot_request
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.plans.plan import PlacementAction
from nexusform.snapshots.snapshot import list_planned_objects, list_state_objects
from nexusform.state.objects import State
from tests.planning.harness import (
    NOW,
    agent_pool,
    build_all_types,
    build_request,
    cluster,
    list_rows,
    plan,
    pool,
)
from tests.worlds.small_worlds import build_applied_state, build_racks

VM = """
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  name       = "v"
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 40
}
"""
FILES = (
    build_racks(3, 3, 3)
    + cluster("a", count=3, pools=pool("p", 4))
    + agent_pool("x", "nexus_kubernetes_cluster.a.id", 3)
    + VM
)


def build_start(state: State) -> PlanRequest:
    return build_snapshot_request(list_state_objects(state), build_all_types(), state, NOW)


def test_plan_of_a_state_without_edits_changes_nothing() -> None:
    request = build_start(build_applied_state(FILES))
    result = make_plan(request)
    assert not result.plan.has_changes
    assert not result.plan.diagnostics
    assert not list_rows(result)


def test_platform_recreates_nodes_and_leaves_other_vms_down() -> None:
    state = build_applied_state(FILES)
    request = build_start(state)
    site = make_plan(request).sites["s"]
    down: set[str] = set()
    for rack in ("r1", "r2", "r3"):
        machines = tuple(name for name, machine in site.machines.items() if machine.rack == rack)
        after = plan_hypothesis(request, [LostMachines("s", machines)]).after
        rows = list_rows(after)
        assert rows
        recreated = {vm.vm.name for pools in list_recreated_pools(after) for vm in pools.vms}
        assert recreated == {
            name for name, row in rows.items() if row.action is not PlacementAction.LOSE
        }
        down |= rows.keys() - recreated
        for pools in list_recreated_pools(after):
            assert not pools.missing
            assert {vm.placement.rack for vm in pools.vms if vm.placement} <= {"r1", "r2", "r3"} - {
                rack
            }
        # All sums of the plan hold.
        assert not after.plan.errored
    assert down == {"v"}


def test_pool_without_capacity_has_a_reason() -> None:
    files = build_racks(1, 1) + cluster("a", pools=pool("p", 3, "NC_P46_224_v1"))
    request = build_start(build_applied_state(files))
    after = plan_hypothesis(request, [LostMachines("s", ("r1-bm01",))]).after
    pools = {pools.pool: pools for pools in list_recreated_pools(after)}
    assert pools["p"].missing
    assert "is free" in pools["p"].reason
    missing = {shortage.pool.pool: shortage.missing_count for shortage in after.unplaced}
    assert missing == {name: pool.missing for name, pool in pools.items() if pool.missing}


def test_lost_vms_outside_a_target_are_no_error_of_their_rack() -> None:
    files = build_racks(3, 3, 3) + cluster("a", count=3)
    request = build_request(files, build_applied_state(files), targets=("nexus_rack.r1",))
    machines = ("r1-bm01", "r1-bm02", "r1-bm03")
    after = plan_hypothesis(request, [LostMachines("s", machines)]).after
    assert not after.plan.errored
    assert {row.action for row in list_rows(after).values()} == {PlacementAction.LOSE}


def test_platform_recreates_all_nodes_of_a_cluster_with_another_version() -> None:
    """Those of a separate pool, too, but of no other cluster."""
    state = build_applied_state(FILES + cluster("b", pools=pool("p", 2)))
    request = build_start(state)
    [address] = [
        address
        for address in state.instances
        if address.name == "a" and address.type == "nexus_kubernetes_cluster"
    ]
    edit = ArgumentAdjustment(address, ("kubernetes_version",), "1.31")
    after = plan_hypothesis(request, [edit]).after
    triggers = {row.object: row.trigger for row in after.plan.placements if row.trigger}
    assert set(triggers.values()) == {"kubernetes_version_changed"}
    assert {name.rpartition("-")[0] for name in triggers} == {"a-control-plane", "a-p", "a-x"}
    assert len(triggers) == 10
    [upgrade] = after.plan.impact.upgrades
    assert (upgrade.cluster, upgrade.is_feasible) == ("a", True)


def test_start_after_a_plan_has_its_vms() -> None:
    result = plan(FILES)
    request = build_snapshot_request(
        list_planned_objects(result.plan, State()),
        build_all_types(),
        State(catalogue=result.plan.start.catalogue),
        NOW,
    )
    before = make_plan(request)
    assert not before.plan.has_changes
    vms = [
        vm.placement.machine
        for vm_object in before.objects.values()
        for vm in vm_object.prior.existing.values()
    ]
    assert len(vms) == 11


def test_edit_of_an_argument_counts_without_a_configuration() -> None:
    state = build_applied_state(build_racks(2, more='status = "planned"'))
    request = build_start(state)
    assert not make_plan(request).sites["s"].machines
    [rack] = [address for address in state.instances if address.type == "nexus_rack"]
    after = plan_hypothesis(request, [ArgumentAdjustment(rack, ("status",), "active")]).after
    assert set(after.sites["s"].machines) == {"r1-bm01", "r1-bm02"}
    assert [change.address for change in after.plan.changes if change.after != change.before] == [
        rack
    ]
