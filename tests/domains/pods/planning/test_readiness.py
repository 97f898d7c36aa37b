"""Plans over pods that are not ready: scale-in, ordered sets, and rollouts that hang."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.pods.importers.cluster_objects import node, pod
from tests.domains.pods.planning.test_cluster_observation import OF_A, WEB, plan_observed
from tests.domains.pods.planning.test_pods import deployment, manifest, pods, workers
from tests.planning.harness import RACKS, list_warnings, require_success

pytestmark = pytest.mark.of_domains("fleet")
HEARTBEAT = "2026-01-02T00:00:00Z"


def alive(name: str) -> dict[str, Any]:
    body = node(name)
    body["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": HEARTBEAT}]
    return body


NODES = (alive("a-np-0"), alive("a-np-1"))


def with_status(
    body: dict[str, Any], *, ready_since: str = "", waiting: str = "", restarts: int = 0, cost: int = 0, uid: str = ""
) -> dict[str, Any]:
    """The pod with a Ready condition, and the reason why its container waits."""
    ready = {"type": "Ready", "status": "False" if waiting else "True", "lastTransitionTime": ready_since or HEARTBEAT}
    container: dict[str, Any] = {"name": "c", "restartCount": restarts}
    if waiting:
        container["state"] = {"waiting": {"reason": waiting}}
    body["status"] |= {"conditions": [ready], "containerStatuses": [container]}
    body["status"]["phase"] = "Pending" if "Pull" in waiting else "Running"
    body["metadata"] |= {"uid": uid or body["metadata"]["name"], "creationTimestamp": "2026-01-01T00:00:00Z"}
    if cost:
        body["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
    return body


def web(number: str, on: str = "a-np-0", revision: str = "5d", image: str = "", **status: Any) -> dict[str, Any]:
    labels = {**WEB, "pod-template-hash": revision}
    body = pod(f"web-{revision}-{number}", on, owner=("ReplicaSet", f"web-{revision}"), labels=labels)
    if image:
        body["spec"]["containers"][0]["image"] = image
    return with_status(body, **status)


def configured(*objects: str) -> str:
    return RACKS + workers(2) + OF_A + manifest("m", *objects)


def removed(result: PlanResult) -> list[str]:
    """The names in Kubernetes of the pods that the plan removes, by their numbers among those seen."""
    return [name for name, (action, _) in pods(result).items() if action == "remove"]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({}, {"waiting": "CrashLoopBackOff"}),
        ({"cost": 5}, {"cost": -5}),
        ({"ready_since": "2026-01-01T01:00:00Z"}, {"ready_since": "2026-01-01T23:59:00Z"}),
        # Both times are of one order of magnitude, so the lower UID decides.
        ({"ready_since": "2026-01-01T20:30:00Z", "uid": "b"}, {"ready_since": "2026-01-01T21:00:00Z", "uid": "a"}),
        ({"restarts": 1}, {"restarts": 7}),
    ],
)
def test_scale_in_removes_the_pod_that_the_controller_removes(one: dict[str, Any], two: dict[str, Any]) -> None:
    for first, second, gone in ((one, two, "web-1"), (two, one, "web-0")):
        there = [web("a", **first), web("b", on="a-np-1", **second)]
        assert removed(require_success(plan_observed(configured(deployment("web", 1, cpu="1")), *NODES, *there))) == [
            gone
        ]


def test_a_rollout_that_hangs_at_an_image_stays_where_it_is() -> None:
    old = [web(name, image="redis:1", on="a-np-1") for name in "abc"]
    new = [web(name, revision="99", image="redis:2", waiting="ImagePullBackOff") for name in "de"]
    result = require_success(
        plan_observed(configured(deployment("web", 4, cpu="1", image="redis:2")), *NODES, *old, *new)
    )
    assert pods(result) == {}
    told = {warning.id: warning.detail for warning in list_warnings(result)}
    assert (
        "2 of its pods are not ready: stuck since 2026-01-02T00:00:00Z: ImagePullBackOff web-99-d" in told["stuck-pods"]
    )
    assert "stuck-rollout" in told
    # A repaired image replaces first what is not ready.
    result = require_success(
        plan_observed(configured(deployment("web", 4, cpu="1", image="redis:3")), *NODES, *old, *new)
    )
    assert sum(action == "move" for action, _ in pods(result).values()) == 4
    assert "stuck-rollout" not in {warning.id for warning in list_warnings(result)}


def stateful(replicas: int, image: str = "redis:1", **more: Any) -> str:
    return deployment("db", replicas, cpu="1", kind="StatefulSet", image=image, serviceName="db", **more)


def db(number: int, revision: str = "r1", image: str = "redis:1", **status: Any) -> dict[str, Any]:
    labels = {"app": "db", "controller-revision-hash": revision}
    body = pod(f"db-{number}", "a-np-0", owner=("StatefulSet", "db"), labels=labels)
    body["spec"]["containers"][0]["image"] = image
    return with_status(body, **status)


def test_an_ordered_set_waits_for_a_pod_that_is_not_ready() -> None:
    there = [db(0), db(1, waiting="CrashLoopBackOff"), db(2)]
    assert pods(require_success(plan_observed(configured(stateful(5)), *NODES, *there))) == {}
    assert pods(require_success(plan_observed(configured(stateful(2)), *NODES, *there))) == {}
    # A surplus pod alone that is not ready goes.
    there = [db(0), db(1), db(2, waiting="CrashLoopBackOff")]
    assert pods(require_success(plan_observed(configured(stateful(2)), *NODES, *there))) == {
        "db-2": ("remove", "scale_in")
    }
    parallel = stateful(5, podManagementPolicy="Parallel")
    assert set(pods(require_success(plan_observed(configured(parallel), *NODES, *there)))) == {"db-3", "db-4"}


def test_a_set_never_repairs_a_pod_of_a_broken_template() -> None:
    there = [db(0), db(1), db(2, revision="r2", image="redis:wrong", waiting="ImagePullBackOff")]
    result = require_success(plan_observed(configured(stateful(3)), *NODES, *there))
    assert pods(result) == {}
    told = {warning.id: warning.detail for warning in list_warnings(result)}
    assert "kubectl delete pod db-2 -n default" in told["stuck-pods"]
    parallel = json.loads(stateful(3, podManagementPolicy="Parallel"))
    assert pods(require_success(plan_observed(configured(json.dumps(parallel)), *NODES, *there))) == {
        "db-2": ("move", "template_changed")
    }
