"""Plans over files that show less than the cluster: what is missing is named, and nothing that needs it is certain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from tests.domains.pods.importers.cluster_objects import node, pod, printed
from tests.domains.pods.planning.test_cluster_observation import NODES, OF_A, seen, web, whole
from tests.domains.pods.planning.test_pods import deployment, manifest, workers
from tests.planning.harness import RACKS, good, plan

pytestmark = pytest.mark.of_domains("fleet")
# One node alone fits, so nothing but the files is in doubt.
ONE = web(1, cpu="15")
BIG = (node("a-np-0"), node("a-np-1", "16"))


def certainties(result: PlanResult) -> dict[str, tuple[bool, str | None]]:
    """Pod -> whether it is certain, and the assumption that it depends on."""
    rows = [row for row in result.plan.placements if row.kind == "pod" and "certain" in row.scores]
    return {row.object: (row.scores["certain"], row.scores.get("depends_on")) for row in rows}


def ids(result: PlanResult) -> set[str]:
    return {warning.id for warning in result.plan.diagnostics}


def test_complete_files_leave_no_doubt() -> None:
    assert certainties(good(seen(ONE, *whole(*BIG)))) == {"web-0": (True, None)}


def test_files_without_pods_say_nothing_of_capacity() -> None:
    reading = parse_kubectl_files([("n.json", printed(*BIG))])
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    result = good(plan(ONE, data_overrides=(values,)))
    assert certainties(result) == {"web-0": (False, "pods that were not read")}
    assert "pods-not-listed" in ids(result)


def with_ready(body: dict[str, Any], status: str, heartbeat: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    return {**body, "status": {**body["status"], "conditions": [condition]}}


def test_old_files_are_named_with_their_time() -> None:
    # Plans of these tests are made on 2026-01-01 at midnight.
    old = [with_ready(each, "True", "2025-12-31T14:02:00Z") for each in BIG]
    result = good(seen(ONE, *whole(*old)))
    (told,) = [warning for warning in result.plan.diagnostics if warning.id == "old-cluster-files"]
    assert "as of 14:02 on 2025-12-31" in told.detail
    assert certainties(result) == {"web-0": (False, "files older than an hour")}
    fresh = [with_ready(each, "True") for each in BIG]
    assert certainties(good(seen(ONE, *whole(*fresh)))) == {"web-0": (True, None)}


def test_a_node_that_is_not_ready_may_get_its_taint() -> None:
    result = good(seen(ONE, *whole(BIG[0], with_ready(BIG[1], "Unknown"))))
    assert certainties(result) == {"web-0": (False, "nodes that are not ready")}
    none = [with_ready(each, "False") for each in BIG]
    assert "nodes-not-ready" in ids(good(seen(ONE, *whole(*none))))


def test_a_pending_pod_of_others_may_come_first() -> None:
    waiting = pod("other", "", "15", phase="Pending")
    result = good(seen(ONE, *whole(*BIG, waiting)))
    assert certainties(result) == {"web-0": (False, "Pending pods of others")}


def test_a_terminating_pod_may_be_gone() -> None:
    going = pod("old", "a-np-1", "8", terminating=True)
    assert certainties(good(seen(ONE, *whole(*BIG, going)))) == {"web-0": (False, "terminating pods")}


def test_a_node_that_is_listed_twice_is_named() -> None:
    result = good(seen(ONE, *whole(*BIG, node("a-np-1", "32"))))
    assert "duplicate-node" in ids(result)
    assert certainties(result) == {"web-0": (False, "a node listed twice")}


@pytest.mark.parametrize("agent", ["cluster-autoscaler", "karpenter"])
def test_an_autoscaler_may_add_nodes_for_pending_pods(agent: str) -> None:
    there = pod(f"{agent}-1", "a-np-0", "1", owner=("Deployment", agent))
    result = good(seen(web(1, cpu="30"), *whole(*BIG, there)))
    assert certainties(result) == {"web-0": (False, agent)}
    assert certainties(good(seen(ONE, *whole(*BIG, there)))) == {"web-0": (True, None)}


def hook(**selectors: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "injector"},
        "webhooks": [{"name": "a.b.c", "rules": [rule], **selectors}],
    }


def test_a_webhook_may_change_the_pods_that_it_selects() -> None:
    assert certainties(good(seen(ONE, *whole(*BIG, hook())))) == {"web-0": (False, "admission webhooks")}
    other = hook(objectSelector={"matchLabels": {"app": "db"}})
    assert certainties(good(seen(ONE, *whole(*BIG, other)))) == {"web-0": (True, None)}


def test_a_sidecar_of_every_observed_pod_is_in_new_pods_too() -> None:
    labels = {"app": "web", "pod-template-hash": "5d"}
    there = pod("web-5d-1", "a-np-0", "1", owner=("ReplicaSet", "web-5d"), labels=labels)
    there["spec"]["containers"][0]["image"] = "redis:3.2-alpine"
    there["spec"]["containers"].append({"name": "mesh", "image": "m", "resources": {"requests": {"cpu": "6"}}})
    result = good(seen(web(2, cpu="1"), *whole(*NODES, there, hook())))
    # 7 CPUs each: the second does not fit beside the first. What the webhook adds is known.
    assert [row.target.node for row in result.plan.placements if row.object == "web-1"] == ["a-np-1"]
    assert certainties(result) == {"web-1": (True, None)}


def test_the_order_of_arrival_is_named() -> None:
    text = RACKS + workers(2) + OF_A + manifest("m", deployment("a", 1, cpu="15"), deployment("b", 1, cpu="15"))
    rows = {row.object: row for row in good(seen(text, *whole(*BIG))).plan.placements if row.kind == "pod"}
    assert rows["a-0"].scores["certain"] is False
    assert rows["a-0"].scores["depends_on"] == "arrival order"
    assert rows["a-0"].scores["otherwise"].startswith("no node if")


@pytest.mark.parametrize("is_in_dump", [False, True])
def test_devices_of_a_class_are_not_certain(is_in_dump: bool) -> None:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpus"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    }
    body = json.loads(deployment("web", 1))
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    in_manifest, in_dump = ((), (device_class,)) if is_in_dump else ((json.dumps(device_class),), ())
    text = RACKS + workers(2) + OF_A + manifest("m", json.dumps(body), *in_manifest)
    result = good(seen(text, *whole(*BIG, *in_dump)))
    assert certainties(result)["web-0"][0] is False
    (told,) = [warning for warning in result.plan.diagnostics if warning.id == "device-claims"]
    assert "DeviceClass gpus" in told.detail
