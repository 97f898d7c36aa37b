"""Members and hub manifests that are made anew, or go: what stands on them is told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.impact.guard_rails import apply_limits, list_broken_limits, parse_guard_rail_limits
from nexusform.plans.plan import PlacementTotal
from nexusform.state.objects import InstanceState, State
from tests.domains.fleet.planning.fleet_harness import build_pick_n, build_placement
from tests.domains.pods.planning.test_placement_pods import CLUSTERS, MEMBERS, POOLS, hub, web, where
from tests.domains.pods.planning.test_pods import deployment
from tests.planning.harness import RACKS, at, build_state, build_state_after, cluster, is_empty, plan, require_success

BASE = RACKS + CLUSTERS + MEMBERS + hub(web(2))
ALL = BASE + build_placement()
A = "fleet_member_cluster.a"
STUCK = 'strategy {\n    rolling_update {\n      max_unavailable = "0"\n      max_surge = "0"\n    }\n  }\n'


@pytest.fixture(scope="module", name="state")
def _state() -> State:
    return build_state(ALL)


def told(result: PlanResult) -> Counter[tuple[str, str, str]]:
    rows = [row for row in result.plan.placements if row.kind != "vm" and row.action != "keep"]
    return Counter((row.kind, str(row.action), row.trigger) for row in rows)


def total(result: PlanResult, kind: str) -> PlacementTotal:
    (figures,) = [each for each in result.plan.placement_totals if each.kind == kind]
    return figures


def tainted(state: State, text: str) -> State:
    address = at(text)
    current = state.instances[address].current
    assert current is not None
    return state.replace_instance(address, InstanceState(replace(current, tainted=True)))


LEAVES_AND_JOINS = {
    ("binding", "remove", "cluster_left"): 1,
    ("binding", "place", "cluster_joined"): 1,
    ("pod", "remove", "binding_removed"): 2,
    ("pod", "place", "new"): 2,
}


@pytest.mark.parametrize("how", ["replaced", "tainted", "renamed"])
def test_a_member_that_is_made_anew_leaves_and_joins(state: State, how: str) -> None:
    if how == "replaced":
        result = require_success(plan(ALL, state, replaces=(A,)))
    elif how == "tainted":
        result = require_success(plan(ALL, tainted(state, A)))
    else:
        text = ALL.replace('"fleet_member_cluster" "a" {', '"fleet_member_cluster" "other" {\n  name = "a"')
        result = require_success(plan(text, state))
    assert told(result) == LEAVES_AND_JOINS
    assert (total(result, "binding").leaves, total(result, "pod").leaves) == (1, 2)
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("removed:0"))) == ("removed:0",)
    if how != "renamed":
        assert is_empty(require_success(plan(ALL, build_state_after(result, state))))


def test_another_member_is_picked_while_it_is_away() -> None:
    text = BASE + build_placement(build_pick_n(1))
    state = build_state(text)
    (held,) = where(state)
    (other,) = {"a", "b"} - {held}
    result = require_success(plan(text, state, replaces=(f"fleet_member_cluster.{held}",)))
    assert set(where(build_state_after(result, state))) == {other}
    assert told(result)["binding", "place", "cluster_left"] == 1


def test_a_placement_that_was_left_out_learns_of_it_with_the_next_plan(state: State) -> None:
    alone = require_success(plan(ALL, state, replaces=(A,), targets=(A,)))
    lost = {("binding", "lose_machine", "cluster_left"): 1, ("pod", "lose_machine", "binding_removed"): 2}
    assert told(alone) == lost
    assert (total(alone, "binding").loses_machine, total(alone, "pod").loses_machine) == (1, 2)
    assert list_broken_limits(apply_limits(alone.plan, parse_guard_rail_limits("moved:0"))) == ("moved:0",)
    next_plan = require_success(plan(ALL, build_state_after(alone, state)))
    assert told(next_plan) == LEAVES_AND_JOINS
    assert is_empty(require_success(plan(ALL, build_state_after(next_plan, build_state_after(alone, state)))))


def test_pods_of_a_binding_that_nothing_removes_go_with_their_member() -> None:
    """No other cluster makes room, so the binding stalls in Unscheduled; nothing runs there any more."""
    text = BASE + build_placement(more=STUCK)
    state = build_state(text)
    without_a = text.replace(MEMBERS.split("\nresource")[0] + "\n", "")
    assert without_a != text
    result = require_success(plan(without_a, state))
    assert told(result)["pod", "remove", "binding_removed"] == 2
    figures = total(result, "pod")
    assert (figures.before, figures.leaves, figures.after) == (4, 2, 2)


def test_a_manifest_on_the_hub_takes_its_pods_along(state: State) -> None:
    result = require_success(plan(ALL, state, replaces=("fleet_hub_manifest.hub",)))
    assert told(result) == {("pod", "remove", "object_replaced"): 4, ("pod", "place", "new"): 4}
    assert where(build_state_after(result, state)) == where(state)
    assert is_empty(require_success(plan(ALL, build_state_after(result, state))))


def test_a_manifest_of_one_cluster_does_so_whatever_replaces_it() -> None:
    sku = 'resource "nexus_vm_sku" "x" {\n vcpus = %s\n memory_gib = 8\n disk_gib = 10\n}\n'
    direct = (
        'resource "fleet_hub_manifest" "z" {\n  cluster_id = nexus_kubernetes_cluster.a.id\n'
        "  lifecycle {\n    replace_triggered_by = [nexus_vm_sku.x]\n  }\n"
        f"  yaml_body = <<-EOT\n{deployment('first', 1, cpu='3')}\nEOT\n}}\n"
    )
    text = RACKS + CLUSTERS + direct
    state = build_state(sku % 2 + text)
    expected: dict[Any, int] = {("pod", "remove", "object_replaced"): 1, ("pod", "place", "new"): 1}
    assert told(require_success(plan(sku % 4 + text, state))) == expected
    assert told(require_success(plan(sku % 2 + text, state, replaces=("fleet_hub_manifest.z",)))) == expected


FORGET = "\nremoved {{\n from = {}\n lifecycle {{\n destroy = false\n }}\n}}\n"


def test_what_is_forgotten_does_not_run_on_where_its_ground_goes(state: State) -> None:
    forgotten = BASE + FORGET.format("fleet_cluster_resource_placement.p")
    alone = require_success(plan(forgotten, state))
    assert told(alone) == {("binding", "forget", "placement_removed"): 2, ("pod", "forget", "binding_removed"): 4}
    without_a = forgotten.replace(MEMBERS.split("\nresource")[0] + "\n", "")
    assert without_a != forgotten
    result = require_success(plan(without_a, state))
    assert told(result) == {
        ("binding", "forget", "placement_removed"): 1,
        ("binding", "lose_machine", "cluster_left"): 1,
        ("pod", "forget", "binding_removed"): 2,
        ("pod", "lose_machine", "binding_removed"): 2,
    }
    figures = total(result, "pod")
    assert (figures.before, figures.loses_machine, figures.forgotten, figures.after) == (4, 2, 2, 0)
    remade = require_success(plan(forgotten, state, replaces=("nexus_kubernetes_cluster.a",)))
    assert told(remade)["pod", "lose_machine", "node_removed"] == 2
    assert told(remade)["binding", "forget", "placement_removed"] == 2


def test_on_a_member_that_is_only_forgotten_all_runs_on(state: State) -> None:
    """It stays a member on the hub; where its cluster goes, too, nothing does."""
    member_a = MEMBERS.split("\nresource")[0] + "\n"
    forgotten = ALL.replace(member_a, "") + FORGET.format(A)
    assert forgotten != ALL + FORGET.format(A)
    result = require_success(plan(forgotten, state))
    assert told(result) == {("binding", "forget", "cluster_left"): 1, ("pod", "forget", "binding_removed"): 2}
    assert (total(result, "pod").forgotten, total(result, "pod").leaves) == (2, 0)
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("removed:0"))) == ("removed:0",)
    assert is_empty(require_success(plan(forgotten, build_state_after(result, state))))
    cluster_a = cluster("a", pools=POOLS["a"])
    assert cluster_a in forgotten
    gone = require_success(plan(forgotten.replace(cluster_a, ""), state))
    assert told(gone)["pod", "forget", "binding_removed"] == 0
