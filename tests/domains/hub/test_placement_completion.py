"""Tests of the completion of a placement."""

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


def _build_objects(snapshot: str, **statuses: str) -> ObservedPlacementObjects:
    scheduled = {
        "type": "ClusterResourcePlacementScheduled",
        "status": "True",
        "observedGeneration": 1,
    }
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
        "metadata": {
            "name": "web-1-snapshot",
            "labels": {**labels, f"{LABEL}/resource-index": "1"},
        },
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


def test_cluster_after_predicted_stop_is_not_awaited() -> None:
    shown = _build_objects("web-0-snapshot")
    waiting = check_placement_progress(shown, {"a": {"resource_snapshot": 1}}, is_external=False)
    assert (waiting.is_done, waiting.message) == (False, "a still has web-0-snapshot")
    assert check_placement_progress(
        shown, {"a": {"resource_snapshot": 0}}, is_external=False
    ).is_done


def test_predicted_failure_is_not_awaited() -> None:
    shown = _build_objects("web-1-snapshot", RolloutStarted="True", Overridden="False")
    foretold = {"bindings": {"a": {"resource_snapshot": 1}}}
    waiting = check_placement_progress(shown, foretold["bindings"], is_external=False)
    assert waiting.message == "a: Overridden False, AsTold"
    conditions = [{"type": "Overridden", "status": "False", "reason": "AsTold"}]
    failing = list_predicted_failures(
        {"placement_statuses": [{"cluster_name": "a", "conditions": conditions}]}
    )
    ended = check_placement_progress(
        shown, foretold["bindings"], is_external=False, failing=failing
    )
    assert (ended.is_done, ended.message) == (True, "as predicted, a: Overridden False, AsTold")


def test_bindings_with_old_apply_strategy_are_awaited() -> None:
    shown = _build_objects("web-1-snapshot", RolloutStarted="True", Available="True")
    planned = {"a": {"resource_snapshot": 1}}
    told = {"type": "ClientSideApply", "whenToApply": "Always"}
    shown.bindings[0]["spec"]["applyStrategy"] = told
    shown.placement["spec"]["strategy"]["applyStrategy"] = {"type": "ServerSideApply"}
    waiting = check_placement_progress(shown, planned, is_external=False)
    assert (waiting.is_done, waiting.message) == (
        False,
        "a still has the previous instruction to apply",
    )
    told["type"] = "ServerSideApply"
    assert check_placement_progress(shown, planned, is_external=False).is_done


READY = {"RolloutStarted": "False", "Applied": "True", "Available": "True"}
STOPS = "the rollout of web stops before a: max_unavailable and max_surge allow no further change"


def _set_strict_budget(
    shown: ObservedPlacementObjects, *, number: int = 1, max_unavailable: int = 0
) -> ObservedPlacementObjects:
    """Set the number of clusters and the maximum of unavailable ones."""
    spec = shown.placement["spec"]
    spec["policy"] = {"placementType": "PickN", "numberOfClusters": number}
    spec["strategy"]["rollingUpdate"] = {"maxUnavailable": max_unavailable}
    return shown


def find_stop_message(
    shown: ObservedPlacementObjects, outdated: frozenset[str] = frozenset()
) -> str:
    stop = find_blocked_rollout(shown, outdated)
    return stop.message if stop is not None else ""


def test_rollout_without_budget_is_blocked() -> None:
    assert find_stop_message(_set_strict_budget(_build_objects("web-0-snapshot", **READY))) == STOPS
    fewer_than_asked_for = _set_strict_budget(
        _build_objects("web-0-snapshot", **READY), number=3, max_unavailable=2
    )
    assert find_stop_message(fewer_than_asked_for) == STOPS


@pytest.mark.parametrize(
    "shown",
    [
        # The budget allows it.
        _set_strict_budget(_build_objects("web-0-snapshot", **READY), max_unavailable=1),
        # It is complete.
        _set_strict_budget(_build_objects("web-1-snapshot", **READY)),
        # It is in progress.
        _set_strict_budget(_build_objects("web-0-snapshot", **{**READY, "Available": "Unknown"})),
        _set_strict_budget(
            _build_objects("web-0-snapshot", **{**READY, "Applied": "False", "Available": "False"})
        ),
    ],
)
def test_running_or_failing_rollout_is_not_blocked(shown: ObservedPlacementObjects) -> None:
    assert find_blocked_rollout(shown) is None


def test_cluster_with_pending_override_counts_as_outdated() -> None:
    shown = _set_strict_budget(_build_objects("web-1-snapshot", **READY))
    assert find_stop_message(shown, frozenset({"a"})) == STOPS


def test_pending_removal_on_member_is_in_progress() -> None:
    shown = _set_strict_budget(_build_objects("web-0-snapshot", **READY))
    shown.bindings[0]["metadata"]["deletionTimestamp"] = "2026-11-21T02:12:00Z"
    assert find_blocked_rollout(shown) is None


def test_namespace_deletion_blockers_are_reported() -> None:
    remaining = "Some resources are remaining: configmaps. has 1 resource instances"
    conditions = [
        {
            "type": "NamespaceDeletionDiscoveryFailure",
            "status": "False",
            "message": "all discovered",
        },
        {"type": "NamespaceContentRemaining", "status": "True", "message": remaining},
    ]
    assert describe_deletion_blockers({"status": {"conditions": conditions}}) == f"; {remaining}"
    assert describe_deletion_blockers({"metadata": {"finalizers": ["a/b"]}}) == ", held by a/b"
    assert describe_deletion_blockers({}) == ""


def test_scheduling_without_status_is_no_decision() -> None:
    observed = _build_objects("web-1-snapshot", RolloutStarted="True", Available="True")
    assert check_placement_progress(observed, {}, is_external=False).is_done
    del observed.placement["status"]["conditions"][0]["status"]
    waiting = check_placement_progress(observed, {}, is_external=False)
    assert (waiting.is_done, waiting.message) == (False, "the hub has not picked clusters yet")
