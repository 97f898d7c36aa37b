"""Tests of surprising hub behaviour reproduced by plans."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.fleet.planning.placement_records import list_cluster_objects
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Mode, PlacementAction
from nexusform.rendering.report.plan_sentences import describe_no_changes
from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_node_count,
    build_pick_n,
    build_placement,
    get_bindings,
    list_binding_changes,
    list_moves,
    list_picks,
)
from tests.planning.harness import (
    EMPTY,
    attributes,
    build_state,
    build_state_after,
    is_empty,
    list_errors,
    list_warnings,
    plan,
    replace_passage,
    require_success,
)

P = "fleet_cluster_resource_placement.p"
LEAVING = 'health = "Leaving"'


def build_pick_fixed(*names: str) -> str:
    listed = ", ".join(f'"{n}"' for n in names)
    return f'placement_type = "PickFixed"\ncluster_names = [{listed}]'


def list_ids(result: PlanResult) -> set[str]:
    return {each.id for each in require_success(result).diagnostics}


def build_fleet(**more: str) -> str:
    return build_hub() + "".join(build_member(n, more=m) for n, m in sorted(more.items()))


def test_leaving_member_keeps_its_binding_until_next_cycle() -> None:
    before = build_fleet(a="", b="", c="") + build_placement(build_pick_n(2))
    state = build_state(before)
    assert list_picks(state) == ["b", "c"]
    leaving = build_fleet(a="", b="", c=LEAVING) + build_placement(build_pick_n(2))
    result = require_success(plan(leaving, state))
    assert list_moves(result) == {"c": ("keep", "cluster_became_ineligible")}
    state = build_state_after(result, state)
    edited = require_success(plan(leaving.replace("blue", "red"), state))
    assert list_moves(edited) == {
        "c": ("remove", "cluster_left"),
        "a": ("place", "cluster_left"),
        "b": ("update", "resources_changed"),
    }


def test_pick_fixed_keeps_unhealthy_and_reports_missing_cluster() -> None:
    text = build_fleet(a="", b="") + build_placement(build_pick_fixed("a", "b", "z"))
    result = require_success(plan(text))
    assert list_moves(result) == dict.fromkeys(("a", "b"), ("place", "placement_created"))
    assert 'Specified cluster "z" is not found' in list_warnings(result)[0].detail
    state = build_state_after(result)
    sick = build_fleet(a='health = "Unhealthy"', b="") + build_placement(
        build_pick_fixed("a", "b", "z")
    )
    result = require_success(plan(sick, state))
    assert list_moves(result) == {"a": ("keep", "cluster_became_ineligible")}
    state = build_state_after(result, state)
    joined = build_fleet(a='health = "Unhealthy"', b="", z="") + build_placement(
        build_pick_fixed("a", "b", "z")
    )
    assert list_moves(require_success(plan(joined, state))) == {"z": ("place", "cluster_joined")}


def test_pick_fixed_without_names_keeps_its_clusters_with_advice() -> None:
    text = build_fleet(a="", b="") + build_placement(build_pick_fixed("a", "b"))
    result = require_success(
        plan(text.replace('cluster_names = ["a", "b"]', "cluster_names = []"), build_state(text))
    )
    assert not list_moves(result)
    (advice,) = [each for each in result.diagnostics if each.id == "hub-behaviour-differs"]
    assert "existing bindings stay" in advice.detail
    # This plan changes the policy.
    assert not advice.is_preexisting


def test_no_cluster_fulfills_pick_all_and_zero() -> None:
    empty = build_hub() + build_placement()
    state = build_state(empty)
    assert attributes(state, P)["conditions"][0]["status"] == "True"
    state = build_state(build_fleet(a="") + build_placement(build_pick_n(0)))
    assert attributes(state, P)["conditions"][0]["status"] == "True"
    assert get_bindings(state) == {}


def test_toleration_changes_policy_snapshot_but_number_does_not() -> None:
    text = build_fleet(a="", b="") + build_placement(build_pick_n(1))
    state = build_state(text)
    assert attributes(state, P)["policy_snapshot"]["index"] == 0
    more = build_fleet(a="", b="") + build_placement(build_pick_n(2))
    state = build_state(more, state)
    assert attributes(state, P)["policy_snapshot"] == {
        "index": 0,
        "hash": attributes(state, P)["policy_snapshot"]["hash"],
        "number_of_clusters": 2,
    }
    tolerating = build_fleet(a="", b="") + build_placement(
        build_pick_n(2, 'toleration {\noperator = "Exists"\n}')
    )
    result = require_success(plan(tolerating, state))
    assert list_moves(result) == dict.fromkeys(("a", "b"), ("keep", "policy_changed"))
    assert attributes(build_state_after(result, state), P)["policy_snapshot"]["index"] == 1


def test_better_score_moves_placement_only_after_policy_change() -> None:
    sorter = """affinity {
      cluster_affinity {
        preferred_during_scheduling_ignored_during_execution {
          weight = 10
          preference {
            property_sorter {
              name       = "kubernetes-fleet.io/node-count"
              sort_order = "ORDER"
            }
          }
        }
      }
    }"""
    members = build_fleet(a=build_node_count(9), b=build_node_count(1))
    state = build_state(
        members + build_placement(build_pick_n(1, sorter.replace("ORDER", "Descending")))
    )
    assert list_picks(state) == ["a"]
    swapped = build_fleet(a=build_node_count(1), b=build_node_count(9))
    same = require_success(
        plan(
            swapped + build_placement(build_pick_n(1, sorter.replace("ORDER", "Descending"))), state
        )
    )
    assert {action for action, _ in list_moves(same).values()} <= {"keep"}
    other = require_success(
        plan(
            members + build_placement(build_pick_n(1, sorter.replace("ORDER", "Ascending"))), state
        )
    )
    assert list_moves(other) == {
        "a": ("remove", "policy_changed"),
        "b": ("place", "policy_changed"),
    }
    assert "affinity score: 10" in list_binding_changes(other)["b"].reason


def test_invalid_property_stops_the_scheduler_and_keeps_bindings() -> None:
    required = """affinity {
      cluster_affinity {
        required_during_scheduling_ignored_during_execution {
          cluster_selector_term {
            property_selector {
              match_expression {
                name     = "kubernetes-fleet.io/node-count"
                operator = "Ge"
                values   = ["1"]
              }
            }
          }
        }
      }
    }"""
    state = build_state(build_fleet(a=build_node_count(3)) + build_placement(required))
    broken = build_fleet(a=build_node_count(3), b=build_node_count("lots")) + build_placement(
        required
    )
    result = require_success(plan(broken, state))
    assert list_moves(result) == {}
    assert [w.summary for w in list_warnings(result)] == ["Scheduling stopped"]
    assert "cluster b" in list_warnings(result)[0].detail
    assert is_empty(plan(broken, build_state_after(result, state)))


def test_spread_is_over_all_clusters_of_the_fleet() -> None:
    spread = 'topology_spread_constraint {\nmax_skew = 1\ntopology_key = "region"\n}'
    members = build_hub() + "".join(
        build_member(n, {"region": r})
        for n, r in (("a", "east"), ("b", "east"), ("c", "east"), ("w", "west"))
    )
    result = require_success(plan(members + build_placement(build_pick_n(4, spread))))
    assert sorted(list_moves(result)) == ["b", "c", "w"]
    assert (
        'violated doNotSchedule topology spread constraint "region" (max skew 1)'
        in list_warnings(result)[0].detail
    )


def test_rejected_clusters_are_listed_on_request() -> None:
    text = build_fleet(a="", b='taint {\nkey = "k"\n}') + build_placement()
    result = require_success(plan(text, includes_rejections=True))
    row = list_binding_changes(result)["a"]
    assert [(r.candidate, r.rule) for r in row.rejections] == [("b", "taint_toleration")]


def test_fleet_without_members_is_reported() -> None:
    result = require_success(plan(build_hub() + build_placement(build_pick_n(2))))
    (told,) = [
        each
        for each in result.diagnostics
        if each.id in ("no-member-cluster", "unfulfilled-placement")
    ]
    assert told.id == "no-member-cluster"
    assert told.detail.startswith(
        "No fleet_member_cluster is declared, so p is placed on no cluster."
    )
    with_one = require_success(
        plan(build_hub() + build_member("a") + build_placement(build_pick_n(2)))
    )
    assert "no-member-cluster" not in {each.id for each in with_one.diagnostics}


@pytest.mark.parametrize("health", ["NoHeartbeat", "NoAgent", "Unhealthy"])
def test_changes_on_an_unreachable_member_are_an_assumption(health: str) -> None:
    policy = build_placement(build_pick_fixed("a", "b"))
    state = build_state(build_fleet(a="", b="") + policy)
    sick = build_fleet(a=f'health = "{health}"', b="") + policy
    result = require_success(plan(sick, state))
    assert "rollout-to-unreachable-member" not in {each.id for each in result.diagnostics}
    changed = require_success(plan(sick.replace("blue", "red"), state))
    (warning,) = [each for each in changed.diagnostics if "unreachable" in each.id]
    assert "objects of p on a, but whether and when the change is applied there is unknown" in (
        warning.detail
    )
    (row,) = [row for row in changed.plan.placements if row.object == "a"]
    assert "unknown until the member is reachable" in row.reason
    assert (row.scores["certain"], row.scores["depends_on"]) == (
        False,
        "members that are not reachable",
    )
    fewer = sick.replace('["a", "b"]', '["b"]')
    removed = require_success(plan(fewer, state))
    assert "rollout-to-unreachable-member" in {each.id for each in removed.diagnostics}
    (row,) = [row for row in removed.plan.placements if row.action is PlacementAction.REMOVE]
    assert row.scores["certain"] is False
    # The objects are still there after the apply, until the member is reachable.
    state_after = build_state_after(removed)
    later = require_success(plan(fewer, state_after))
    assert not later.plan.has_changes
    (warning,) = [each for each in later.diagnostics if "unreachable" in each.id]
    assert warning.detail.startswith("An earlier apply changed objects of p on a,")
    headline, _ = describe_no_changes(later.plan)
    assert headline == "No changes. Changes of an earlier apply still wait."
    healthy = fewer.replace(f'health = "{health}"', "")
    recovered = require_success(plan(healthy, state_after))
    assert "rollout-to-unreachable-member" not in {each.id for each in recovered.diagnostics}
    # Only the member changes. A later failure is no reason to warn again.
    sick_again = require_success(plan(fewer, build_state_after(recovered)))
    assert "rollout-to-unreachable-member" not in {each.id for each in sick_again.diagnostics}


@pytest.mark.parametrize("mode", [Mode.NORMAL, Mode.DESTROY])
def test_objects_of_a_destroyed_placement_on_an_unreachable_member_are_remembered(
    mode: Mode,
) -> None:
    policy = build_placement(build_pick_fixed("a", "b"))
    fleet = build_fleet(a='health = "NoHeartbeat"', b="")
    state = build_state(fleet + policy, build_state(build_fleet(a="", b="") + policy))
    options: dict[str, Any] = {"mode": mode, "targets": (P,)} if mode is Mode.DESTROY else {}
    destroyed = require_success(plan(fleet, state, **options))
    (warning,) = [each for each in destroyed.diagnostics if "unreachable" in each.id]
    assert "The plan destroys p, but whether and when the objects on a are deleted" in (
        warning.detail
    )
    rows = {row.object: row for row in destroyed.plan.placements if row.kind == "binding"}
    assert rows["a"].scores["certain"] is False
    assert rows["b"].scores.get("certain") is not False
    state_after = build_state_after(destroyed)
    later = require_success(plan(fleet, state_after))
    assert not later.plan.has_changes
    (warning,) = [each for each in later.diagnostics if "unreachable" in each.id]
    assert warning.detail.startswith("An earlier apply destroyed p,")
    headline, _ = describe_no_changes(later.plan)
    assert headline == "No changes. Changes of an earlier apply still wait."
    # Every plan while the member is unreachable remembers them.
    again = require_success(plan(fleet, build_state_after(later)))
    assert "rollout-to-unreachable-member" in {each.id for each in again.diagnostics}
    # A new placement of that name binds no unreachable member, so they stay.
    assert "rollout-to-unreachable-member" in list_ids(plan(fleet + policy, state_after))
    recovered = build_state(build_fleet(a="", b=""), state_after)
    assert "rollout-to-unreachable-member" not in list_ids(plan(fleet, recovered))


def test_new_content_is_applied_once_the_member_is_reachable() -> None:
    policy = build_placement(build_pick_n(2))
    state = build_state(build_fleet(a="", b="") + policy)
    sick = build_fleet(a="", b='health = "NoHeartbeat"') + policy
    sick = sick.replace("blue", "red")
    stale = build_state(sick, state)
    assert read_applied(stale) == {"a": "True", "b": "Unknown"}
    assert read_colours(stale) == {"a": "red", "b": "blue"}
    again = require_success(plan(sick, stale))
    assert is_empty(again)
    (warning,) = [each for each in again.diagnostics if "unreachable" in each.id]
    assert warning.detail.startswith("An earlier apply changed objects of p on b, but whether")
    assert list_reasons(again)["b"].startswith("an earlier change waits until the member is reach")
    healthy = sick.replace('health = "NoHeartbeat"', "")
    recovered = build_state_after(require_success(plan(healthy, stale)), stale)
    assert read_applied(recovered) == {"a": "True", "b": "True"}
    assert read_colours(recovered) == {"a": "red", "b": "red"}


@pytest.mark.parametrize("policy", [build_pick_fixed("a", "b", "c"), build_pick_n(3)])
def test_rollout_waits_for_unreachable_member(policy: str) -> None:
    """A changed member without an agent is unavailable, so later waves wait for it."""
    placement = build_placement(policy)
    state = build_state(build_fleet(a="", b="", c="") + placement)
    sick = build_fleet(a="", b='health = "NoHeartbeat"', c="") + placement
    sick = sick.replace("blue", "red")
    changed = require_success(plan(sick, state))
    assert "unknown until the member is reachable" in list_reasons(changed)["b"]
    assert list_reasons(changed)["c"] == "the rollout stops before it"
    (stop,) = [each for each in changed.diagnostics if each.id == "incomplete-rollout"]
    assert "stops before c; it keeps its current resources. b cannot be reached" in stop.detail
    stale = build_state_after(changed, state)
    assert read_colours(stale) == {"a": "red", "b": "blue", "c": "blue"}
    again = require_success(plan(sick, stale))
    assert is_empty(again)
    assert "incomplete-rollout" in {each.id for each in again.diagnostics}
    recovered = require_success(plan(sick.replace('health = "NoHeartbeat"', ""), stale))
    colours = read_colours(build_state_after(recovered, stale))
    assert colours == dict.fromkeys(("a", "b", "c"), "red")


def list_reasons(result: PlanResult) -> dict[str, str]:
    """Return the reasons of the rows by cluster."""
    return {row.object: row.reason for row in result.plan.placements}


def read_colours(state: State) -> dict[str, str]:
    """Return the colour of the ConfigMap that each cluster has according to the state."""
    current = state.instances[parse_address(P)].current
    assert current is not None
    contents = list_cluster_objects(current.attributes, current.private)
    return {
        cluster: manifest.body["data"]["colour"]
        for cluster, manifests in (contents or {}).items()
        for manifest in manifests
        if manifest.kind == "ConfigMap"
    }


def read_applied(state: State) -> dict[str, str]:
    """Return the status of the condition Applied by cluster."""
    return {
        status["cluster_name"]: condition["status"]
        for status in attributes(state, P)["placement_statuses"]
        for condition in status["conditions"]
        if condition["type"] == "Applied"
    }


def test_objects_outside_of_targets_are_declared() -> None:
    """A targeted plan names the members and objects that it leaves out."""
    text = build_fleet(a="", b="") + build_placement(build_pick_n(1))
    result = require_success(plan(text, targets=(P,)))
    details = {each.id: each.detail for each in result.diagnostics}
    assert details["no-member-cluster"] == (
        "p is placed on no cluster, because -target or -exclude leaves out "
        "fleet_member_cluster.a and fleet_member_cluster.b; select them as well."
    )
    assert details["empty-resource-selection"] == (
        "v1 Namespace web selects nothing in this plan. No fleet_hub_manifest adds such an object, "
        "or its kind is never selected. -target or -exclude leaves out fleet_hub_manifest.web: if "
        "one of these is meant, select it as well."
    )
    state = build_state(text)
    again = require_success(plan(text, state, targets=(P,)))
    assert not {"no-member-cluster", "empty-resource-selection"} & {
        each.id for each in again.diagnostics
    }


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize(
    ("passage", "addition"),
    [
        ('resource "fleet_member_cluster" "a" {', 'health = "Bad"'),
        ('resource "fleet_member_cluster" "a" {', 'taint {\neffect = "NoSchedul"\n}'),
        ('resource "fleet_member_cluster" "a" {', "count = -1"),
        ("kind: Namespace", "  unexpected indentation"),
    ],
)
def test_error_in_block_of_fleet_is_no_missing_object(
    passage: str, addition: str, *, is_applied: bool
) -> None:
    """An object with an error is neither missing nor leaving."""
    text = build_hub() + build_member("a") + build_placement(build_pick_n(1))
    state = build_state(text) if is_applied else EMPTY
    result = plan(replace_passage(text, passage, f"{passage}\n{addition}"), state)
    assert list_errors(result)
    assert not list_warnings(result)
    if is_applied:
        assert not list_moves(result)


def test_warning_names_clusters_that_do_not_exist() -> None:
    """A misspelt name is visible in the short form of a plan.

    It has no room for all rejected clusters.
    """
    policy = 'placement_type = "PickFixed"\ncluster_names = ["a", "bb"]'
    result = require_success(plan(build_fleet(a="", b="") + build_placement(policy)))
    (warning,) = [each for each in result.diagnostics if each.id == "unfulfilled-placement"]
    assert warning.brief == 'p: Specified cluster "bb" is not found'


def test_warning_of_too_few_clusters_groups_them_by_reason() -> None:
    """The text is one line: a line break in it was displayed as its escape sequence."""
    tainted = 'taint {\nkey = "k"\n}'
    text = build_fleet(a="", b=tainted, c=tainted) + build_placement(build_pick_n(4))
    result = require_success(plan(text))
    (warning,) = [each for each in result.diagnostics if each.id == "unfulfilled-placement"]
    reason = "b and c: taint &{Key:k Value: Effect:NoSchedule} cannot be tolerated"
    assert warning.brief == f"p: found 1 cluster of 4; {reason}"
    assert warning.detail == (
        "Could not find all clusters needed as specified by the scheduling policy, found 1 "
        f"cluster(s) instead. {reason}."
    )


def test_pick_all_without_eligible_clusters_is_reported() -> None:
    tainted = 'taint {\nkey = "k"\n}'
    result = require_success(plan(build_fleet(a=tainted, b=tainted) + build_placement()))
    (warning,) = [each for each in result.diagnostics if each.id == "no-selected-cluster"]
    assert warning.brief == "p: selects none of 2 member clusters"
    with_one = require_success(plan(build_fleet(a=tainted, b="") + build_placement()))
    assert "no-selected-cluster" not in {each.id for each in with_one.diagnostics}
