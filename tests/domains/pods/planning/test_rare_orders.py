"""Tests of certainty on small clusters.

Results of rare arrival orders, observed on a running kube-scheduler.
"""

from __future__ import annotations

import pytest

from tests.domains.pods.importers.cluster_objects import DEFAULT_NAMESPACE
from tests.nightly.live_cluster import Body, build_priority_classes
from tests.nightly.pod_stories import predict_story
from tests.nightly.pod_worlds import build_world, predict_world
from tests.nightly.story_table import _build_node, build_pod, build_pod_spec, build_workload

pytestmark = pytest.mark.of_domains("fleet")
_SURGE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}


def test_node_with_one_deviation_in_thirty_runs_is_not_certain() -> None:
    """In most runs two pods of the Job ran on n1.

    In one run, pods of two other workloads arrived before the second one.
    """
    assert find_certain_nodes(795434609, "default/Job/c") == ["n0", "n1"]


def test_parallel_stateful_pods_may_arrive_before_busy_controller_pods() -> None:
    """In one of four runs all pods of a StatefulSet were on n0.

    They arrived before the third pod of the Deployment.
    """
    assert find_certain_nodes(3900057, "default/Deployment/e") == ["n3"]


def find_certain_nodes(seed: int, workload: str) -> list[str]:
    """Return the nodes of the certain pods of a workload in a random snapshot."""
    world = build_world(seed)
    for body in world.nodes + world.pods:
        body.setdefault("status", {}).setdefault("phase", "Running")
    classes = build_priority_classes({"low": -10, "high": 1000})
    predicted = predict_world([*classes, *world.nodes, *world.pods], world.workloads)
    return sorted(node for _, node, is_certain, _ in predicted[workload] if is_certain)


def test_tie_of_slowly_terminating_pods_is_not_certain() -> None:
    """The unhealthy pod on n3 is deleted first.

    If it still holds its capacity, n0 and n3 are equal for the new pod: 5 of 24 runs with
    kube-scheduler 1.34.4 had it on n0.
    """
    nodes = [_build_node(f"n{number}", cpu) for number, cpu in enumerate((13, 6, 6, 13))]
    pods = [
        _build_replica("web-5d-a", "n3", is_ready=False),
        _build_replica("web-5d-b", "n0", is_ready=True),
    ]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    change = build_workload(
        "Deployment", "web", build_pod_spec("app:2", 1500), replicas=1, strategy=strategy
    )
    outcomes = {outcome.name: outcome for _, outcome in predict_story([*nodes, *pods], [change])}
    assert outcomes["web-0"].node == "n3"
    assert not outcomes["web-0"].is_certain
    assert outcomes["web-0"].doubt == "the timing of removals"
    assert outcomes["web-0"].alternative == "n0 if removed pods terminate slowly"


def test_rollout_deletes_old_pods_where_most_pods_of_both_templates_run() -> None:
    """kube-controller-manager 1.34.4 left three new pods on n0 in 21 of 24 runs.

    In some of them it left none on n1. It counts new pods when it ranks nodes, and reacts to each
    ready pod or to several at once.
    """
    nodes = [_build_node(f"n{number}", cpu) for number, cpu in enumerate((3, 2, 2))]
    pods = [
        _build_replica(f"web-5d-{name}", f"n{name[0]}", is_ready=True)
        for name in ("0a", "0b", "1a", "1b", "2a")
    ]
    for pod in pods:
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    change = build_workload(
        "Deployment", "web", build_pod_spec("app:2", 1000), replicas=5, strategy=_SURGE
    )
    outcomes = [outcome for _, outcome in predict_story([*nodes, *pods], [change])]
    assert sorted(outcome.node for outcome in outcomes) == ["n0", "n0", "n0", "n1", "n2"]
    certain = [outcome.node for outcome in outcomes if outcome.is_certain]
    assert "n1" not in certain
    assert certain.count("n0") < 3


def test_scaled_deployment_with_a_stuck_template_keeps_the_ready_pods() -> None:
    """kube-controller-manager 1.35.3 deleted no pod in 8 of 8 runs.

    It scaled 2 ready and 1 stuck pod to 3 and 2.
    """
    nodes = [_build_node(f"n{number}", cpu) for number, cpu in enumerate((9, 13, 9, 13))]
    pods = [
        _build_replica(f"web-5d-{number}", f"n{number}", is_ready=True, image="app:1")
        for number in (1, 3)
    ]
    pods.append(_build_replica("web-6e-0", "n0", is_ready=False, image="bad:1"))
    live = build_workload("Deployment", "web", build_pod_spec("bad:1"), replicas=2, strategy=_SURGE)
    sets = [_build_replica_set("web-5d", "app:1", 2), _build_replica_set("web-6e", "bad:1", 1)]
    change = build_workload(
        "Deployment", "web", build_pod_spec("bad:1"), replicas=3, strategy=_SURGE
    )
    outcomes = [outcome for _, outcome in predict_story([*nodes, live, *sets, *pods], [change])]
    assert {outcome.action for outcome in outcomes} == {"keep", "place"}
    ready = [outcome.node for outcome in outcomes if outcome.spec.template.startswith("seen-")]
    assert sorted(ready) == ["n1", "n2", "n3"]
    assert len(outcomes) == 5


@pytest.mark.parametrize(
    ("other_size", "doubt", "alternative"),
    [(20, "image sizes", "n2 if the smallest size of its image counts"), (900, "", "")],
)
def test_image_size_comes_from_unknown_node(other_size: int, doubt: str, alternative: str) -> None:
    """kube-scheduler uses the size on the first node read since its start.

    1.35.3 read the nodes of a new cluster in another order: 5 of 36 pods ran elsewhere.
    """
    nodes = [_build_node(f"n{number}", cpu) for number, cpu in enumerate((12, 1, 13))]
    for node, size in zip(nodes, (900, other_size), strict=False):
        node["status"]["images"] = [{"names": ["app:1"], "sizeBytes": size << 20}]
    change = build_workload("Deployment", "web", build_pod_spec("app:1", 1500), replicas=1)
    running = {"status": {"phase": "Running"}}
    outcomes = {
        outcome.name: outcome
        for _, outcome in predict_story(
            [DEFAULT_NAMESPACE, *nodes, {**build_pod("old", "old", "n1"), **running}], [change]
        )
    }
    outcome = outcomes["web-0"]
    assert (outcome.node, outcome.is_certain) == ("n0", not doubt)
    assert (outcome.doubt, outcome.alternative) == (doubt, alternative)


def _build_replica(name: str, node: str, *, is_ready: bool, image: str = "") -> Body:
    body = build_pod(name, "web", node)
    owner = name.rpartition("-")[0]
    body["metadata"]["labels"]["pod-template-hash"] = owner.removeprefix("web-")
    body["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": owner, "controller": True}
    ]
    if image:
        body["spec"]["containers"][0]["image"] = image
    ready = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    state = {"running": {}} if is_ready else {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [{"name": "c", "ready": is_ready, "restartCount": 0, "state": state}]
    body["status"] = {"phase": "Running", "conditions": [ready], "containerStatuses": statuses}
    return body


def _build_replica_set(name: str, image: str, replicas: int) -> Body:
    """Return a ReplicaSet of the Deployment "web".

    It was last synchronized with 2 replicas and a surge of 1.
    """
    body = build_workload("ReplicaSet", name, build_pod_spec(image), replicas=replicas)
    labels = {"app": "web", "pod-template-hash": name.removeprefix("web-")}
    counts = {
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
    }
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    body["metadata"] |= {"labels": labels, "annotations": counts, "ownerReferences": [owner]}
    body["spec"]["template"]["metadata"]["labels"] = labels
    body["spec"]["selector"]["matchLabels"] = labels
    return body
