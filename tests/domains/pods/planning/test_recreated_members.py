"""Tests of members and hub manifests re-created or deleted.

Their pods and bindings are reported.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.impact.guard_rails import (
    apply_limits,
    list_broken_limits,
    parse_guard_rail_limits,
)
from nexusform.plans.plan import PlacementTotal
from nexusform.state.objects import InstanceState, State
from tests.domains.fleet.planning.fleet_harness import build_pick_n, build_placement
from tests.domains.pods.planning.test_placement_pods import (
    CLUSTERS,
    MEMBERS,
    POOLS,
    build_hub_manifest,
    build_web_deployment,
    read_pod_nodes,
)
from tests.domains.pods.planning.test_pods import build_deployment
from tests.planning.harness import (
    RACKS,
    at,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    plan,
    require_success,
)

BASE = RACKS + CLUSTERS + MEMBERS + build_hub_manifest(build_web_deployment(2))
ALL = BASE + build_placement()
A = "fleet_member_cluster.a"
STUCK = (
    'strategy {\n    rolling_update {\n      max_unavailable = "0"\n      max_surge = "0"\n    }\n'
    "  }\n"
)


@pytest.fixture(scope="module", name="state")
def _build_state() -> State:
    return build_state(ALL)


def count_placement_rows(result: PlanResult) -> Counter[tuple[str, str, str]]:
    rows = [row for row in result.plan.placements if row.kind != "vm" and row.action != "keep"]
    return Counter((row.kind, str(row.action), row.trigger) for row in rows)


def find_total(result: PlanResult, kind: str) -> PlacementTotal:
    (figures,) = [each for each in result.plan.figures.placement_totals if each.kind == kind]
    return figures


def taint_instance(state: State, text: str) -> State:
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
def test_re_created_member_leaves_and_joins(state: State, how: str) -> None:
    if how == "replaced":
        result = require_success(plan(ALL, state, replaces=(A,)))
    elif how == "tainted":
        result = require_success(plan(ALL, taint_instance(state, A)))
    else:
        text = ALL.replace(
            '"fleet_member_cluster" "a" {', '"fleet_member_cluster" "other" {\n  name = "a"'
        )
        result = require_success(plan(text, state))
    assert count_placement_rows(result) == LEAVES_AND_JOINS
    # The agent leaves the pods, and the new member may take them over.
    certain_rows = [row for row in result.plan.placements if row.scores.get("certain", True)]
    assert {str(row.action) for row in certain_rows if row.kind == "pod"} == {"keep"}
    assert (find_total(result, "binding").removed, find_total(result, "pod").removed) == (1, 2)
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("removed:0"))) == (
        "removed:0",
    )
    if how != "renamed":
        assert is_empty(require_success(plan(ALL, build_state_after(result, state))))


def test_another_member_is_selected_during_re_creation() -> None:
    text = BASE + build_placement(build_pick_n(1))
    state = build_state(text)
    (held,) = read_pod_nodes(state)
    (other,) = {"a", "b"} - {held}
    result = require_success(plan(text, state, replaces=(f"fleet_member_cluster.{held}",)))
    assert set(read_pod_nodes(build_state_after(result, state))) == {other}
    assert count_placement_rows(result)["binding", "place", "cluster_left"] == 1


def test_untargeted_placement_is_updated_by_next_plan(state: State) -> None:
    alone = require_success(plan(ALL, state, replaces=(A,), targets=(A,)))
    lost = {("binding", "host_lost", "cluster_left"): 1, ("pod", "host_lost", "binding_removed"): 2}
    assert count_placement_rows(alone) == lost
    assert (find_total(alone, "binding").host_lost, find_total(alone, "pod").host_lost) == (1, 2)
    assert list_broken_limits(apply_limits(alone.plan, parse_guard_rail_limits("moved:0"))) == (
        "moved:0",
    )
    next_plan = require_success(plan(ALL, build_state_after(alone, state)))
    assert count_placement_rows(next_plan) == LEAVES_AND_JOINS
    assert is_empty(
        require_success(plan(ALL, build_state_after(next_plan, build_state_after(alone, state))))
    )


def test_pods_of_stuck_binding_outlive_their_member() -> None:
    """No other cluster has capacity, so the binding is blocked in Unscheduled.

    Its pods keep running, unmanaged.
    """
    text = BASE + build_placement(more=STUCK)
    state = build_state(text)
    without_a = text.replace(MEMBERS.split("\nresource")[0] + "\n", "")
    assert without_a != text
    result = require_success(plan(without_a, state))
    assert count_placement_rows(result)["pod", "forget", "binding_removed"] == 2
    figures = find_total(result, "pod")
    assert (figures.before, figures.forgotten, figures.after) == (4, 2, 2)


def test_replaced_hub_manifest_replaces_its_pods(state: State) -> None:
    result = require_success(plan(ALL, state, replaces=("fleet_hub_manifest.hub",)))
    assert count_placement_rows(result) == {
        ("pod", "remove", "object_replaced"): 4,
        ("pod", "place", "new"): 4,
    }
    assert read_pod_nodes(build_state_after(result, state)) == read_pod_nodes(state)
    assert is_empty(require_success(plan(ALL, build_state_after(result, state))))


def test_replaced_cluster_manifest_replaces_its_pods() -> None:
    sku = 'resource "nexus_vm_sku" "x" {\n vcpus = %s\n memory_gib = 8\n disk_gib = 10\n}\n'
    direct = (
        'resource "fleet_hub_manifest" "z" {\n  cluster_id = nexus_kubernetes_cluster.a.id\n'
        "  lifecycle {\n    replace_triggered_by = [nexus_vm_sku.x]\n  }\n"
        f"  yaml_body = <<-EOT\n{build_deployment('first', 1, cpu='3')}\nEOT\n}}\n"
    )
    text = RACKS + CLUSTERS + direct
    state = build_state(sku % 2 + text)
    expected: dict[Any, int] = {("pod", "remove", "object_replaced"): 1, ("pod", "place", "new"): 1}
    assert count_placement_rows(require_success(plan(sku % 4 + text, state))) == expected
    assert (
        count_placement_rows(
            require_success(plan(sku % 2 + text, state, replaces=("fleet_hub_manifest.z",)))
        )
        == expected
    )


FORGET = "\nremoved {{\n from = {}\n lifecycle {{\n destroy = false\n }}\n}}\n"


def test_forgotten_pods_are_lost_with_their_member(state: State) -> None:
    forgotten = BASE + FORGET.format("fleet_cluster_resource_placement.p")
    alone = require_success(plan(forgotten, state))
    assert count_placement_rows(alone) == {
        ("binding", "forget", "placement_removed"): 2,
        ("pod", "forget", "binding_removed"): 4,
    }
    without_a = forgotten.replace(MEMBERS.split("\nresource")[0] + "\n", "")
    assert without_a != forgotten
    result = require_success(plan(without_a, state))
    assert count_placement_rows(result) == {
        ("binding", "forget", "placement_removed"): 1,
        ("binding", "host_lost", "cluster_left"): 1,
        ("pod", "forget", "binding_removed"): 2,
        ("pod", "host_lost", "binding_removed"): 2,
    }
    figures = find_total(result, "pod")
    assert (figures.before, figures.host_lost, figures.forgotten, figures.after) == (4, 2, 2, 0)
    remade = require_success(plan(forgotten, state, replaces=("nexus_kubernetes_cluster.a",)))
    assert count_placement_rows(remade)["pod", "host_lost", "node_removed"] == 2
    assert count_placement_rows(remade)["binding", "forget", "placement_removed"] == 2


def test_pods_keep_running_on_forgotten_member(state: State) -> None:
    """It stays a member on the hub.

    If its cluster is deleted too, no pods run there.
    """
    member_a = MEMBERS.split("\nresource")[0] + "\n"
    forgotten = ALL.replace(member_a, "") + FORGET.format(A)
    assert forgotten != ALL + FORGET.format(A)
    result = require_success(plan(forgotten, state))
    assert count_placement_rows(result) == {
        ("binding", "forget", "cluster_left"): 1,
        ("pod", "forget", "binding_removed"): 2,
    }
    assert (find_total(result, "pod").forgotten, find_total(result, "pod").removed) == (2, 0)
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("removed:0"))) == (
        "removed:0",
    )
    assert is_empty(require_success(plan(forgotten, build_state_after(result, state))))
    cluster_a = cluster("a", pools=POOLS["a"])
    assert cluster_a in forgotten
    gone = require_success(plan(forgotten.replace(cluster_a, ""), state))
    assert count_placement_rows(gone)["pod", "forget", "binding_removed"] == 0
