"""When a placement is as far as it was to come."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.hub.providers.object_access import describe_deletion_blockers
from nexusform.domains.hub.providers.rollout_progress import (
    ObservedPlacementObjects,
    check_placement_progress,
    find_blocked_rollout,
    list_predicted_failures,
)

API = "placement.kubernetes-fleet.io/v1beta1"
LABEL = "kubernetes-fleet.io"


def _shown(snapshot: str, **statuses: str) -> ObservedPlacementObjects:
    scheduled = {"type": "ClusterResourcePlacementScheduled", "status": "True", "observedGeneration": 1}
    placement = {
        "apiVersion": API,
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web", "generation": 1},
        "spec": {"resourceSelectors": [], "strategy": {"type": "RollingUpdate"}},
        "status": {"conditions": [scheduled]},
    }
    labels = {f"{LABEL}/is-latest-snapshot": "true", f"{LABEL}/parent-CRP": "web"}
    policy: dict[str, Any] = {
        "apiVersion": API,
        "kind": "ClusterSchedulingPolicySnapshot",
        "metadata": {"name": "web-0", "labels": {**labels, f"{LABEL}/policy-index": "0"}},
        "status": {"observedCRPGeneration": 1},
    }
    newest = {
        "apiVersion": API,
        "kind": "ClusterResourceSnapshot",
        "metadata": {"name": "web-1-snapshot", "labels": {**labels, f"{LABEL}/resource-index": "1"}},
        "spec": {"selectedResources": []},
    }
    binding = {
        "apiVersion": API,
        "kind": "ClusterResourceBinding",
        "metadata": {"name": "web-a-0", "labels": {f"{LABEL}/parent-CRP": "web"}, "generation": 1},
        "spec": {"state": "Bound", "targetCluster": "a", "resourceSnapshotName": snapshot},
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": "AsTold", "observedGeneration": 1}
                for kind, status in statuses.items()
            ]
        },
    }
    return ObservedPlacementObjects(placement, (binding,), (policy,), (newest,))


def test_a_cluster_that_a_rollout_was_foretold_to_stop_before_is_not_waited_for() -> None:
    shown = _shown("web-0-snapshot")
    waiting = check_placement_progress(shown, {"a": {"resource_snapshot": 1}}, is_external=False)
    assert (waiting.is_done, waiting.message) == (False, "a still has web-0-snapshot")
    assert check_placement_progress(shown, {"a": {"resource_snapshot": 0}}, is_external=False).is_done


def test_a_failure_that_was_foretold_is_not_waited_for() -> None:
    shown = _shown("web-1-snapshot", RolloutStarted="True", Overridden="False")
    foretold = {"bindings": {"a": {"resource_snapshot": 1}}}
    waiting = check_placement_progress(shown, foretold["bindings"], is_external=False)
    assert waiting.message == "a: Overridden False, AsTold"
    conditions = [{"type": "Overridden", "status": "False", "reason": "AsTold"}]
    failing = list_predicted_failures({"placement_statuses": [{"cluster_name": "a", "conditions": conditions}]})
    ended = check_placement_progress(shown, foretold["bindings"], is_external=False, failing=failing)
    assert (ended.is_done, ended.message) == (True, "as predicted, a: Overridden False, AsTold")


def test_bindings_that_still_apply_as_before_are_waited_for() -> None:
    shown = _shown("web-1-snapshot", RolloutStarted="True", Available="True")
    planned = {"a": {"resource_snapshot": 1}}
    told = {"type": "ClientSideApply", "whenToApply": "Always"}
    shown.bindings[0]["spec"]["applyStrategy"] = told
    shown.placement["spec"]["strategy"]["applyStrategy"] = {"type": "ServerSideApply"}
    waiting = check_placement_progress(shown, planned, is_external=False)
    assert (waiting.is_done, waiting.message) == (False, "a still has the previous instruction to apply")
    told["type"] = "ServerSideApply"
    assert check_placement_progress(shown, planned, is_external=False).is_done


READY = {"RolloutStarted": "False", "Applied": "True", "Available": "True"}
STOPS = "the rollout of web stops before a: max_unavailable and max_surge allow no further change"


def _strictly(
    shown: ObservedPlacementObjects, *, number: int = 1, max_unavailable: int = 0
) -> ObservedPlacementObjects:
    """It picks so many, and may miss so many of them."""
    spec = shown.placement["spec"]
    spec["policy"] = {"placementType": "PickN", "numberOfClusters": number}
    spec["strategy"]["rollingUpdate"] = {"maxUnavailable": max_unavailable}
    return shown


def stops(shown: ObservedPlacementObjects, outdated: frozenset[str] = frozenset()) -> str:
    stop = find_blocked_rollout(shown, outdated)
    return stop.message if stop is not None else ""


def test_a_rollout_without_room_is_held_up() -> None:
    assert stops(_strictly(_shown("web-0-snapshot", **READY))) == STOPS
    fewer_than_asked_for = _strictly(_shown("web-0-snapshot", **READY), number=3, max_unavailable=2)
    assert stops(fewer_than_asked_for) == STOPS


@pytest.mark.parametrize(
    "shown",
    [
        _strictly(_shown("web-0-snapshot", **READY), max_unavailable=1),  # it has room
        _strictly(_shown("web-1-snapshot", **READY)),  # it is through
        _strictly(_shown("web-0-snapshot", **{**READY, "Available": "Unknown"})),  # it is under way
        _strictly(_shown("web-0-snapshot", **{**READY, "Applied": "False", "Available": "False"})),
    ],
)
def test_a_rollout_that_goes_on_or_fails_is_not_held_up(shown: ObservedPlacementObjects) -> None:
    assert find_blocked_rollout(shown) is None


def test_a_cluster_that_is_to_get_another_override_counts_as_outdated() -> None:
    shown = _strictly(_shown("web-1-snapshot", **READY))
    assert stops(shown, frozenset({"a"})) == STOPS


def test_what_a_member_still_gives_back_is_under_way() -> None:
    shown = _strictly(_shown("web-0-snapshot", **READY))
    shown.bindings[0]["metadata"]["deletionTimestamp"] = "2026-11-21T02:12:00Z"
    assert find_blocked_rollout(shown) is None


def test_what_keeps_a_namespace_is_said() -> None:
    remaining = "Some resources are remaining: configmaps. has 1 resource instances"
    conditions = [
        {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "all discovered"},
        {"type": "NamespaceContentRemaining", "status": "True", "message": remaining},
    ]
    assert describe_deletion_blockers({"status": {"conditions": conditions}}) == f"; {remaining}"
    assert describe_deletion_blockers({"metadata": {"finalizers": ["a/b"]}}) == ", held by a/b"
    assert describe_deletion_blockers({}) == ""
