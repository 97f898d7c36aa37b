"""Plans beside live Deployments: fields that a manifest leaves to others, and templates changed on admission."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.domains.pods.importers.cluster_objects import pod
from tests.domains.pods.planning.test_cluster_observation import NODES, OF_A, WEB, list_places, plan_observed
from tests.domains.pods.planning.test_pods import deployment, manifest, pods, workers
from tests.planning.harness import RACKS, build_state_after, is_empty, plan, require_success

pytestmark = pytest.mark.of_domains("fleet")


def unscaled(name: str = "web", replicas: int | None = None, **more: Any) -> str:
    """A Deployment whose manifest sets no replicas."""
    body = json.loads(deployment(name, 0, **more))
    del body["spec"]["replicas"]
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return json.dumps(body)


def configured(*objects: str) -> str:
    return RACKS + workers(2) + OF_A + manifest("m", *objects)


def running(count: int, on: str = "a-np-1", **more: Any) -> list[dict[str, Any]]:
    return [pod(f"web-5d-{n}", on, owner=("ReplicaSet", "web-5d"), labels=WEB, **more) for n in range(count)]


def live(kind: str, name: str, replicas: int, **metadata: Any) -> dict[str, Any]:
    """A controller as kubectl prints it, its template that of `deployment`."""
    body = json.loads(deployment("web", replicas, cpu="1"))
    spec = {**body["spec"], **metadata.pop("spec", {})}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default", **metadata}} | {
        "spec": spec
    }


def owns(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    more = {"subresource": subresource} if subresource else {}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}, **more}


def test_replicas_that_the_manifest_does_not_set_are_kept() -> None:
    result = require_success(plan_observed(configured(unscaled(cpu="1")), *NODES, *running(5)))
    assert pods(result) == {}
    assert "replicas-of-cluster" in {warning.id for warning in result.plan.diagnostics}
    state = build_state_after(result)
    assert len(list_places(result)) == 5
    # A later plan without the files knows them from state.
    assert is_empty(require_success(plan(configured(unscaled(cpu="1")).replace(OF_A, ""), state)))


def test_a_new_deployment_without_replicas_has_one_pod() -> None:
    assert pods(require_success(plan_observed(configured(unscaled(cpu="1")), *NODES))) == {"web-0": ("place", "new")}


def test_replicas_come_from_the_live_object_rather_than_from_its_pods() -> None:
    scaler = owns("kube-controller-manager", {"f:replicas": {}}, "scale")
    scaled = live("Deployment", "web", 3, managedFields=[scaler])
    result = require_success(plan_observed(configured(unscaled(cpu="1")), *NODES, *running(2), scaled))
    assert pods(result) == {"web-2": ("place", "scale_out")}


def test_replicas_that_the_last_apply_owned_return_to_one() -> None:
    owned = live("Deployment", "web", 3, managedFields=[owns("kubectl-client-side-apply", {"f:replicas": {}})])
    result = require_success(plan_observed(configured(unscaled(cpu="1")), *NODES, *running(3), owned))
    assert [action for action, _ in pods(result).values()] == ["remove", "remove"]
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"replicas": 3}}'}
    annotated = live("Deployment", "web", 3, annotations=annotation)
    result = require_success(plan_observed(configured(unscaled(cpu="1")), *NODES, *running(3), annotated))
    assert [action for action, _ in pods(result).values()] == ["remove", "remove"]
    # Removed from the manifest between two plans.
    state = build_state_after(
        require_success(plan_observed(configured(unscaled(replicas=3, cpu="1")), *NODES, *running(3)))
    )
    result = require_success(plan(configured(unscaled(cpu="1")).replace(OF_A, ""), state))
    assert [action for action, _ in pods(result).values()] == ["remove", "remove"]


def test_requests_of_another_manager_are_kept() -> None:
    container = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    requests = {"f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}}}
    grown = live("Deployment", "web", 2, managedFields=[owns("vpa-updater", requests)])
    grown["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "7"}}
    result = require_success(plan_observed(configured(unscaled(replicas=2)), *NODES, grown))
    # Two pods of 7 CPUs share no node of 8.
    assert sorted(list_places(result).values()) == ["a-np-0", "a-np-1"]


def test_images_of_a_mirror_are_no_template_change() -> None:
    there = running(2)
    for each in there:
        each["spec"]["containers"][0]["image"] = "mirror.local/redis@sha256:12"
    result = require_success(
        plan_observed(configured(unscaled(replicas=2, cpu="1")), *NODES, *there, live("Deployment", "web", 2))
    )
    assert pods(result) == {}


def test_a_replica_set_adopts_pods_without_a_controller_before_it_creates_pods() -> None:
    text = configured(deployment("web", 3, cpu="1", kind="ReplicaSet"))
    orphans = [pod(f"web-{n}", "a-np-1", labels={"app": "web"}) for n in "ab"]
    others = [
        pod("other", "a-np-1", labels={"app": "other"}),
        pod("owned", "a-np-1", labels={"app": "web"}, owner=("ReplicaSet", "old")),
        pod("leaving", "a-np-1", labels={"app": "web"}, terminating=True),
    ]
    result = require_success(plan_observed(text, *NODES, *orphans, *others))
    assert pods(result) == {"web-2": ("place", "scale_out")}
    nodes = list_places(result)
    assert [nodes[f"web-{n}"] for n in range(2)] == ["a-np-1", "a-np-1"]
    assert is_empty(require_success(plan(text.replace(OF_A, ""), build_state_after(result))))
    # More orphans than replicas: the others are deleted.
    result = require_success(
        plan_observed(configured(deployment("web", 1, cpu="1", kind="ReplicaSet")), *NODES, *orphans)
    )
    assert [action for action, _ in pods(result).values()] == ["remove"]
    # A Deployment selects by the hash of its template, too.
    result = require_success(plan_observed(configured(deployment("web", 1, cpu="1")), *NODES, *orphans))
    assert pods(result) == {"web-0": ("place", "new")}
