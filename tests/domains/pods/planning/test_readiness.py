"""Tests of plans with pods not ready: scale-in, ordered sets and blocked rollouts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import OF_A, WEB, plan_observed
from tests.domains.pods.planning.test_pods import (
    build_deployment,
    build_manifest,
    build_workers,
    read_pod_changes,
)
from tests.planning.harness import RACKS, list_warnings, require_success

pytestmark = pytest.mark.of_domains("fleet")
HEARTBEAT = "2026-01-02T00:00:00Z"


def build_ready_node(name: str) -> dict[str, Any]:
    body = build_node(name)
    body["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": HEARTBEAT}
    ]
    return body


NODES = (build_ready_node("a-np-0"), build_ready_node("a-np-1"))


def add_status(
    body: dict[str, Any],
    *,
    ready_since: str = "",
    waiting: str = "",
    restarts: int = 0,
    cost: int = 0,
    uid: str = "",
) -> dict[str, Any]:
    """Return the pod with a Ready condition and the waiting reason of its container."""
    ready = {
        "type": "Ready",
        "status": "False" if waiting else "True",
        "lastTransitionTime": ready_since or HEARTBEAT,
    }
    container: dict[str, Any] = {"name": "c", "restartCount": restarts}
    if waiting:
        container["state"] = {"waiting": {"reason": waiting}}
    body["status"] |= {"conditions": [ready], "containerStatuses": [container]}
    body["status"]["phase"] = "Pending" if "Pull" in waiting else "Running"
    body["metadata"] |= {
        "uid": uid or body["metadata"]["name"],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if cost:
        body["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
    return body


def build_web_pod(
    number: str, on: str = "a-np-0", revision: str = "5d", image: str = "", **status: Any
) -> dict[str, Any]:
    labels = {**WEB, "pod-template-hash": revision}
    body = build_pod(
        f"web-{revision}-{number}", on, owner=("ReplicaSet", f"web-{revision}"), labels=labels
    )
    if image:
        body["spec"]["containers"][0]["image"] = image
    return add_status(body, **status)


def build_configuration(*objects: str) -> str:
    return RACKS + build_workers(2) + OF_A + build_manifest("m", *objects)


def list_removed_pods(result: PlanResult) -> list[str]:
    """Return the Kubernetes names of the pods removed by the plan.

    They are found by their numbers among the observed pods.
    """
    return [name for name, (action, _) in read_pod_changes(result).items() if action == "remove"]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({}, {"waiting": "CrashLoopBackOff"}),
        ({"cost": 5}, {"cost": -5}),
        ({"ready_since": "2026-01-01T01:00:00Z"}, {"ready_since": "2026-01-01T23:59:00Z"}),
        # Both times have the same order of magnitude, so the lower UID decides.
        (
            {"ready_since": "2026-01-01T20:30:00Z", "uid": "b"},
            {"ready_since": "2026-01-01T21:00:00Z", "uid": "a"},
        ),
        ({"restarts": 1}, {"restarts": 7}),
    ],
)
def test_scale_in_removes_same_pod_as_controller(one: dict[str, Any], two: dict[str, Any]) -> None:
    for first, second, gone in ((one, two, "web-1"), (two, one, "web-0")):
        there = [build_web_pod("a", **first), build_web_pod("b", on="a-np-1", **second)]
        assert list_removed_pods(
            require_success(
                plan_observed(
                    build_configuration(build_deployment("web", 1, cpu="1")), *NODES, *there
                )
            )
        ) == [gone]


def test_rollout_blocked_by_image_makes_no_progress() -> None:
    old = [build_web_pod(name, image="redis:1", on="a-np-1") for name in "abc"]
    new = [
        build_web_pod(name, revision="99", image="redis:2", waiting="ImagePullBackOff")
        for name in "de"
    ]
    result = require_success(
        plan_observed(
            build_configuration(build_deployment("web", 4, cpu="1", image="redis:2")),
            *NODES,
            *old,
            *new,
        )
    )
    assert read_pod_changes(result) == {}
    told = {warning.id: warning.detail for warning in list_warnings(result)}
    assert (
        "2 of its pods are not ready: stuck since 2026-01-02T00:00:00Z: ImagePullBackOff web-99-d"
        in told["stuck-pods"]
    )
    assert "stuck-rollout" in told
    # A repaired image first replaces the pods not ready.
    result = require_success(
        plan_observed(
            build_configuration(build_deployment("web", 4, cpu="1", image="redis:3")),
            *NODES,
            *old,
            *new,
        )
    )
    assert sum(action == "move" for action, _ in read_pod_changes(result).values()) == 4
    assert "stuck-rollout" not in {warning.id for warning in list_warnings(result)}


def build_stateful_set(replicas: int, image: str = "redis:1", **more: Any) -> str:
    return build_deployment(
        "db", replicas, cpu="1", kind="StatefulSet", image=image, serviceName="db", **more
    )


def build_db_pod(
    number: int, revision: str = "r1", image: str = "redis:1", **status: Any
) -> dict[str, Any]:
    labels = {"app": "db", "controller-revision-hash": revision}
    body = build_pod(f"db-{number}", "a-np-0", owner=("StatefulSet", "db"), labels=labels)
    body["spec"]["containers"][0]["image"] = image
    return add_status(body, **status)


def test_ordered_set_waits_for_unready_pod() -> None:
    there = [build_db_pod(0), build_db_pod(1, waiting="CrashLoopBackOff"), build_db_pod(2)]
    assert (
        read_pod_changes(
            require_success(
                plan_observed(build_configuration(build_stateful_set(5)), *NODES, *there)
            )
        )
        == {}
    )
    assert (
        read_pod_changes(
            require_success(
                plan_observed(build_configuration(build_stateful_set(2)), *NODES, *there)
            )
        )
        == {}
    )
    # Only a surplus pod is removed while not ready.
    there = [build_db_pod(0), build_db_pod(1), build_db_pod(2, waiting="CrashLoopBackOff")]
    assert read_pod_changes(
        require_success(plan_observed(build_configuration(build_stateful_set(2)), *NODES, *there))
    ) == {"db-2": ("remove", "scale_in")}
    parallel = build_stateful_set(5, podManagementPolicy="Parallel")
    assert set(
        read_pod_changes(
            require_success(plan_observed(build_configuration(parallel), *NODES, *there))
        )
    ) == {"db-3", "db-4"}


def test_stateful_set_does_not_repair_pod_of_broken_template() -> None:
    there = [
        build_db_pod(0),
        build_db_pod(1),
        build_db_pod(2, revision="r2", image="redis:wrong", waiting="ImagePullBackOff"),
    ]
    result = require_success(
        plan_observed(build_configuration(build_stateful_set(3)), *NODES, *there)
    )
    assert read_pod_changes(result) == {}
    told = {warning.id: warning.detail for warning in list_warnings(result)}
    assert "kubectl delete pod db-2 -n default" in told["stuck-pods"]
    parallel = json.loads(build_stateful_set(3, podManagementPolicy="Parallel"))
    assert read_pod_changes(
        require_success(plan_observed(build_configuration(json.dumps(parallel)), *NODES, *there))
    ) == {"db-2": ("move", "template_changed")}


def depends_on_max_unavailable(version: str, maximum: str | int, *pods: dict[str, Any]) -> bool:
    """Plan a new image of a Parallel set on two nodes.

    Return whether it depends on maxUnavailable being in force.
    """
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": maximum}}
    changed = build_stateful_set(
        3, "redis:2", podManagementPolicy="Parallel", updateStrategy=update
    )
    workers = build_workers(2, arguments=f'kubernetes_version = "{version}"' if version else "")
    result = require_success(
        plan_observed(RACKS + workers + OF_A + build_manifest("m", changed), *NODES, *pods)
    )
    rows = [row for row in result.plan.placements if row.kind == "pod"]
    assert len(rows) == 3
    return any("if maxUnavailable counts" in str(row.scores.get("otherwise")) for row in rows)


@pytest.mark.parametrize(
    ("version", "depends"),
    [("1.34.4", False), ("1.35.4", True), ("1.36.1", False), ("1.37.0", False), ("", True)],
)
def test_unready_pod_may_hold_back_rollout_of_parallel_set(version: str, *, depends: bool) -> None:
    """Kubernetes 1.35.0 to 1.35.3 replace no pod of the set then.

    The patch version of the cluster is not used.
    """
    there = [build_db_pod(0, waiting="CrashLoopBackOff"), build_db_pod(1), build_db_pod(2)]
    assert depends_on_max_unavailable(version, 1, *there) == depends
    # Without an unready pod, one pod after the other is replaced by all versions.
    assert not depends_on_max_unavailable(version, 1, *map(build_db_pod, range(3)))


@pytest.mark.parametrize(
    ("version", "maximum", "depends"), [("1.36.1", 2, False), ("1.37.0", "50%", True)]
)
def test_pods_of_set_replaced_at_once_may_exchange_nodes(
    version: str, maximum: str | int, *, depends: bool
) -> None:
    assert depends_on_max_unavailable(version, maximum, *map(build_db_pod, range(3))) == depends
