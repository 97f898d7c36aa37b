"""Tests of controllers besides rollouts.

scale-in among equal pods, adoption, rollbacks, Jobs, autoscalers, and slowly terminating pods. Each
case was compared with the controllers of Kubernetes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import (
    DATA,
    add_standard_objects,
    plan_observed,
)
from tests.domains.pods.planning.test_dump_doubts import list_certainties, set_ready_condition
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, read_pod_changes
from tests.domains.pods.planning.test_readiness import add_status
from tests.domains.pods.planning.test_recorded_decisions import MEMBER
from tests.planning.harness import require_success

pytestmark = pytest.mark.of_domains("fleet")
NODES = (build_node("a-np-0", "16"), build_node("a-np-1", "8"))
FILES = MEMBER + DATA.format(of='"m1"')


def predict_pods(dump: list[dict[str, Any]], *objects: str) -> PlanResult:
    nodes = [body for body in dump if body["kind"] == "Node"] or NODES
    for body in nodes:
        body["status"]["nodeInfo"] = {"kubeletVersion": "v1.34.4"}
    others = [body for body in dump if body["kind"] != "Node"]
    return require_success(
        plan_observed(
            FILES + build_manifest("m", *objects, of='"m1"'), *add_standard_objects(*nodes, *others)
        )
    )


def build_own_pod(name: str, on: str, app: str = "web", **more: Any) -> dict[str, Any]:
    owner = more.pop("owner", ("ReplicaSet", f"{app}-5d"))
    labels = {"app": app, **more.pop("labels", {"pod-template-hash": "5d"})}
    return add_status(build_pod(f"{app}-{name}", on, owner=owner, labels=labels), **more)


def test_unready_running_pod_is_removed_first() -> None:
    dump = [
        build_own_pod("a", "a-np-0"),
        build_own_pod("b", "a-np-1"),
        build_own_pod("c", "a-np-1", waiting="CrashLoopBackOff"),
    ]
    result = predict_pods(dump, build_deployment("web", 2, cpu="1"))
    assert read_pod_changes(result) == {"web-2": ("remove", "scale_in")}


def test_any_of_equal_pods_may_be_removed() -> None:
    result = predict_pods(
        [build_own_pod("a", "a-np-0"), build_own_pod("b", "a-np-1")],
        build_deployment("web", 1, cpu="1"),
    )
    assert set(list_certainties(result).values()) == {(False, "start times")}
    later = build_own_pod("b", "a-np-1", ready_since="2026-01-01T00:00:00Z")
    result = predict_pods(
        [build_own_pod("a", "a-np-0", ready_since="2025-06-01T00:00:00Z"), later],
        build_deployment("web", 1, cpu="1"),
    )
    assert read_pod_changes(result) == {"web-1": ("remove", "scale_in")}


def test_kept_pod_on_node_without_heartbeats_is_not_certain() -> None:
    nodes = (NODES[0], set_ready_condition(NODES[1], "Unknown"))
    result = predict_pods(
        [*nodes, build_own_pod("a", "a-np-1")], build_deployment("web", 2, cpu="1")
    )
    doubts = list_certainties(result)
    assert doubts["web-0"] == (False, "nodes that are not ready")


def test_removed_pod_may_hold_capacity_during_placement_of_successor() -> None:
    apart = build_deployment("web", 1, cpu="1", image="redis:4", apart="kubernetes.io/hostname")
    body = json.loads(apart)
    body["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    dump = [build_own_pod("a", "a-np-0"), build_pod("other", "a-np-1", "1")]
    dump[0]["spec"]["containers"][0]["image"] = "redis:3"
    doubts = list_certainties(predict_pods(dump, json.dumps(body)))
    assert doubts["web-0"] == (False, "the timing of removals")


def test_replica_set_adopts_pods_without_a_controller() -> None:
    orphans = [
        build_pod(f"orphan-{number}", "a-np-0", labels={"app": "web"}) for number in range(2)
    ]
    result = predict_pods(orphans, build_deployment("web", 3, cpu="1", kind="ReplicaSet"))
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}
    # A Deployment creates its own ReplicaSet, with a template hash unlike that of any orphan.
    assert len(read_pod_changes(predict_pods(orphans, build_deployment("web", 3, cpu="1")))) == 3


def test_rollback_keeps_pods_of_the_earlier_revision() -> None:
    def build_revision(number: int, revision: str, image: str) -> dict[str, Any]:
        labels = {"controller-revision-hash": revision}
        body = build_own_pod(
            str(number), "a-np-0", "db", owner=("StatefulSet", "db"), labels=labels
        )
        body["spec"]["containers"][0]["image"] = image
        return body

    text = build_deployment("db", 2, cpu="1", image="redis:1", kind="StatefulSet", serviceName="db")
    live = json.loads(text) | {"status": {"updateRevision": "r2"}}
    live["metadata"]["namespace"] = "default"
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "redis:2"
    result = predict_pods(
        [build_revision(0, "r1", "redis:1"), build_revision(1, "r2", "redis:2"), live], text
    )
    assert read_pod_changes(result) == {"db-1": ("move", "template_changed")}


def test_job_runs_the_pods_without_success() -> None:
    template = {
        "spec": json.loads(build_deployment("j", 1, cpu="1"))["spec"]["template"]["spec"]
        | {"restartPolicy": "Never"}
    }
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"completions": 4, "parallelism": 4, "template": template},
    }
    assert (
        len(read_pod_changes(predict_pods([body | {"status": {"succeeded": 3}}], json.dumps(body))))
        == 1
    )
    done = {"succeeded": 4, "conditions": [{"type": "Complete", "status": "True"}]}
    assert read_pod_changes(predict_pods([body | {"status": done}], json.dumps(body))) == {}


def test_replicas_reverted_by_an_autoscaler_are_not_certain() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5},
    }
    dump = [build_own_pod("a", "a-np-0"), build_own_pod("b", "a-np-1"), scaler]
    doubts = list_certainties(predict_pods(dump, build_deployment("web", 3, cpu="1")))
    assert set(doubts.values()) == {(False, "a HorizontalPodAutoscaler")}


def test_pending_pods_of_a_workload_exist() -> None:
    dump = [build_own_pod(name, "") for name in "ab"]
    for body in dump:
        body["status"] = {"phase": "Pending"}
        body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "90"
    assert read_pod_changes(predict_pods(dump, build_deployment("web", 2, cpu="90"))) == {}
