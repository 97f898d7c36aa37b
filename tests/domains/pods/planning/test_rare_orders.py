"""Certain pods of small clusters: results of rare orders of arrival, as seen on a running kube-scheduler."""

from __future__ import annotations

import pytest

from tests.nightly.live_cluster import Body, build_priority_classes
from tests.nightly.pod_stories import predict_story
from tests.nightly.pod_worlds import build_world, predict_world
from tests.nightly.story_table import _build_node, build_pod, build_pod_spec, build_workload

pytestmark = pytest.mark.of_domains("fleet")


def test_a_node_of_one_run_in_thirty_is_not_certain() -> None:
    """In most runs two pods of the Job ran on n1; in one, pods of two other workloads were there before the second."""
    world = build_world(795434609)
    for body in world.nodes + world.pods:
        body.setdefault("status", {}).setdefault("phase", "Running")
    predicted = predict_world(
        [*build_priority_classes({"low": -10, "high": 1000}), *world.nodes, *world.pods], world.workloads
    )
    certain_nodes = sorted(node for _, node, is_certain, _ in predicted["default/Job/c"] if is_certain)
    assert certain_nodes == ["n0", "n1"]


def test_a_tie_of_slowly_terminating_pods_is_not_certain() -> None:
    """The sick pod on n3 is deleted first. If it still holds its capacity, n0 and n3 are equal for the new pod:
    5 of 24 runs beside kube-scheduler 1.34.4 had it on n0.
    """
    nodes = [_build_node(f"n{number}", cpu) for number, cpu in enumerate((13, 6, 6, 13))]
    pods = [_build_replica("web-5d-a", "n3", is_ready=False), _build_replica("web-5d-b", "n0", is_ready=True)]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    change = build_workload("Deployment", "web", build_pod_spec("app:2", 1500), replicas=1, strategy=strategy)
    outcomes = {outcome.name: outcome for _, outcome in predict_story([*nodes, *pods], [change])}
    assert outcomes["web-0"].node == "n3"
    assert not outcomes["web-0"].is_certain
    assert outcomes["web-0"].doubt == "the end of removed pods"
    assert outcomes["web-0"].alternative == "n0 if removed pods terminate slowly"


def _build_replica(name: str, node: str, *, is_ready: bool) -> Body:
    body = build_pod(name, "web", node)
    body["metadata"]["labels"]["pod-template-hash"] = "5d"
    body["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-5d", "controller": True}]
    ready = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    state = {"running": {}} if is_ready else {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [{"name": "c", "ready": is_ready, "restartCount": 0, "state": state}]
    body["status"] = {"phase": "Running", "conditions": [ready], "containerStatuses": statuses}
    return body
