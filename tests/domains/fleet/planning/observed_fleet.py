"""Objects of a hub with one placement, as `kubectl get -o json` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.domains.fleet.planning.hub_dumps import build_configuration
from tests.domains.fleet.planning.test_hub_stories import Dump, build_member
from tests.planning.harness import PlanResult, plan

API = "placement.kubernetes-fleet.io/v1"
_PARENT = {"kubernetes-fleet.io/parent-CRP": "web"}
_LATEST = {"kubernetes-fleet.io/is-latest-snapshot": "true"}
# Conditions of a binding, in their order, with the last one that differs from True.
_STEPS = {
    "RolloutStarted": "RolloutStarted",
    "Overridden": "NoOverrideSpecified",
    "WorkSynchronized": "AllWorkSynced",
    "Applied": "AllWorkHaveBeenApplied",
    "Available": "AllWorkAreAvailable",
}
READY = ("", "")
NOT_AVAILABLE = ("Available", "NotAllWorkAreAvailable")
NO_ANSWER = ("Applied", "NotAllWorkHaveBeenApplied")


def build_body(
    kind: str, name: str, spec: Mapping[str, Any], labels: Mapping[str, str] = _PARENT
) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "generation": 1, "labels": dict(labels)},
        "spec": dict(spec),
    }


def build_conditions(failure: tuple[str, str]) -> list[dict[str, Any]]:
    """Return the conditions of a binding until its first False one (type and reason)."""
    conditions = []
    for step, reason in _STEPS.items():
        is_failed = step == failure[0]
        conditions.append(
            {
                "type": step,
                "status": "False" if is_failed else "True",
                "reason": failure[1] if is_failed else reason,
                "message": "Work object web-work has not yet completed" if is_failed else "",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-11-21T02:00:00Z",
            }
        )
        if is_failed:
            break
    return conditions


def build_binding(
    cluster: str,
    failure: tuple[str, str] = READY,
    *,
    snapshot: int = 0,
    state: str = "Bound",
    previous_state: str = "",
) -> dict[str, Any]:
    body = build_body(
        "ClusterResourceBinding",
        f"web-{cluster}-1",
        {
            "state": state,
            "targetCluster": cluster,
            "schedulingPolicySnapshotName": "web-0",
            "resourceSnapshotName": f"web-{snapshot}-snapshot",
        },
    )
    if previous_state:
        body["metadata"]["annotations"] = {
            "kubernetes-fleet.io/previous-binding-state": previous_state
        }
    body["status"] = {"conditions": build_conditions(failure)}
    return body


def build_fleet(
    bindings: Sequence[Mapping[str, Any]],
    *,
    policy: Mapping[str, Any] | None = None,
    strategy: Mapping[str, Any] | None = None,
    members: Sequence[str] = ("m1", "m2", "m3"),
    newest: int = 0,
    others: Sequence[Mapping[str, Any]] = (),
) -> list[Mapping[str, Any]]:
    """Return the objects of a hub; `newest` is the index of the latest resource snapshot."""
    spec = {
        "policy": policy or {"placementType": "PickAll"},
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}],
        "strategy": strategy or {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
    }
    placement = build_body("ClusterResourcePlacement", "web", spec, {})
    scheduled = {
        "type": "ClusterResourcePlacementScheduled",
        "status": "True",
        "reason": "SchedulingPolicyFulfilled",
        "message": "",
        "observedGeneration": 1,
    }
    placement["status"] = {"conditions": [scheduled]}
    number = spec["policy"].get("numberOfClusters")
    policy_spec = {k: v for k, v in spec["policy"].items() if k != "numberOfClusters"}
    snapshot = build_body(
        "ClusterSchedulingPolicySnapshot",
        "web-0",
        {"policy": policy_spec},
        {**_PARENT, **_LATEST, "kubernetes-fleet.io/policy-index": "0"},
    )
    if number is not None:
        snapshot["metadata"]["annotations"] = {
            "kubernetes-fleet.io/number-of-clusters": str(number)
        }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    resources = [
        build_body(
            "ClusterResourceSnapshot",
            f"web-{index}-snapshot",
            {
                "selectedResources": [
                    namespace
                    if index == newest
                    else {**namespace, "metadata": {"name": "web", "labels": {"old": str(index)}}}
                ]
            },
            {
                **_PARENT,
                "kubernetes-fleet.io/is-latest-snapshot": str(index == newest).lower(),
                "kubernetes-fleet.io/resource-index": str(index),
            },
        )
        for index in range(newest + 1)
    ]
    return [
        *(build_member(name, {}) for name in members),
        namespace,
        placement,
        snapshot,
        *resources,
        *bindings,
        *others,
    ]


def build_run(**spec: Any) -> list[dict[str, Any]]:
    stages = [{"name": "all", "labelSelector": {}, "maxConcurrency": "100%"}]
    return [
        build_body("ClusterStagedUpdateStrategy", "s", {"stages": stages}, {}),
        build_body(
            "ClusterStagedUpdateRun",
            "r",
            {
                "placementName": "web",
                "stagedRolloutStrategyName": "s",
                "resourceSnapshotIndex": "1",
                "state": "Run",
                **spec,
            },
            {},
        ),
    ]


def plan_fleet(objects: Sequence[Mapping[str, Any]], configuration: str = "") -> PlanResult:
    """Plan the configuration of everything in a dump, with further blocks."""
    return plan(build_configuration() + configuration, files_there=Dump(objects))
