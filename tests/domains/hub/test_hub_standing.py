"""When a placement is as far as it was to come."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.hub.providers.hub_objects import held_by
from nexusform.domains.hub.providers.hub_standing import (
    Shown,
    failures_foretold,
    held_up,
    placement_standing,
)

API = "placement.kubernetes-fleet.io/v1beta1"
LABEL = "kubernetes-fleet.io"


def _shown(snapshot: str, **statuses: str) -> Shown:
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
    return Shown(placement, (binding,), (policy,), (newest,))


def test_a_cluster_that_a_rollout_was_foretold_to_stop_before_is_not_waited_for() -> None:
    shown = _shown("web-0-snapshot")
    waiting = placement_standing(shown, {"a": {"resource_snapshot": 1}}, external=False)
    assert (waiting.done, waiting.words) == (False, "a still has web-0-snapshot")
    assert placement_standing(shown, {"a": {"resource_snapshot": 0}}, external=False).done


def test_a_failure_that_was_foretold_is_not_waited_for() -> None:
    shown = _shown("web-1-snapshot", RolloutStarted="True", Overridden="False")
    foretold = {"bindings": {"a": {"resource_snapshot": 1}}}
    waiting = placement_standing(shown, foretold["bindings"], external=False)
    assert waiting.words == "a: Overridden False, AsTold"
    conditions = [{"type": "Overridden", "status": "False"}]
    failing = failures_foretold({"placement_statuses": [{"cluster_name": "a", "conditions": conditions}]})
    ended = placement_standing(shown, foretold["bindings"], external=False, failing=failing)
    assert (ended.done, ended.words) == (True, "as foretold, a: Overridden False, AsTold")


def test_bindings_that_still_apply_as_before_are_waited_for() -> None:
    shown = _shown("web-1-snapshot", RolloutStarted="True", Available="True")
    planned = {"a": {"resource_snapshot": 1}}
    told = {"type": "ClientSideApply", "whenToApply": "Always"}
    shown.bindings[0]["spec"]["applyStrategy"] = told
    shown.placement["spec"]["strategy"]["applyStrategy"] = {"type": "ServerSideApply"}
    waiting = placement_standing(shown, planned, external=False)
    assert (waiting.done, waiting.words) == (False, "a is still told to apply as before")
    told["type"] = "ServerSideApply"
    assert placement_standing(shown, planned, external=False).done


READY = {"RolloutStarted": "False", "Applied": "True", "Available": "True"}
STOPS = "the rollout of web stops before a: nothing more may be taken down or added"


def _strictly(shown: Shown, *, number: int = 1, max_unavailable: int = 0) -> Shown:
    """It picks so many, and may miss so many of them."""
    spec = shown.placement["spec"]
    spec["policy"] = {"placementType": "PickN", "numberOfClusters": number}
    spec["strategy"]["rollingUpdate"] = {"maxUnavailable": max_unavailable}
    return shown


def stops(shown: Shown, outdated: frozenset[str] = frozenset()) -> str:
    stop = held_up(shown, outdated)
    return stop.words if stop is not None else ""


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
def test_a_rollout_that_goes_on_or_fails_is_not_held_up(shown: Shown) -> None:
    assert held_up(shown) is None


def test_a_cluster_that_is_to_get_another_override_counts_as_outdated() -> None:
    shown = _strictly(_shown("web-1-snapshot", **READY))
    assert stops(shown, frozenset({"a"})) == STOPS


def test_what_a_member_still_gives_back_is_under_way() -> None:
    shown = _strictly(_shown("web-0-snapshot", **READY))
    shown.bindings[0]["metadata"]["deletionTimestamp"] = "2026-11-21T02:12:00Z"
    assert held_up(shown) is None


def test_what_keeps_a_namespace_is_said() -> None:
    remaining = "Some resources are remaining: configmaps. has 1 resource instances"
    conditions = [
        {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "all discovered"},
        {"type": "NamespaceContentRemaining", "status": "True", "message": remaining},
    ]
    assert held_by({"status": {"conditions": conditions}}) == f"; {remaining}"
    assert held_by({"metadata": {"finalizers": ["a/b"]}}) == ", held by a/b"
    assert held_by({}) == ""
