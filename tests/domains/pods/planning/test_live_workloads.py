"""Tests of plans next to live Deployments: fields owned by other managers, and templates changed on admission."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.domains.fleet.planning.fleet_harness import build_placement
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import NODES, OF_A, WEB, list_places, plan_observed
from tests.domains.pods.planning.test_placement_pods import (
    CLUSTERS,
    MEMBERS,
    build_hub_manifest,
    build_web_deployment,
    read_pod_nodes,
)
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers, read_pod_changes
from tests.planning.harness import RACKS, build_state_after, is_empty, plan, require_success

pytestmark = pytest.mark.of_domains("fleet")


def build_unscaled_deployment(name: str = "web", replicas: int | None = None, **more: Any) -> str:
    """Return a Deployment without replicas in its manifest."""
    body = json.loads(build_deployment(name, 0, **more))
    del body["spec"]["replicas"]
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return json.dumps(body)


def build_configuration(*objects: str) -> str:
    return RACKS + build_workers(2) + OF_A + build_manifest("m", *objects)


def build_running_pods(count: int, on: str = "a-np-1", **more: Any) -> list[dict[str, Any]]:
    return [build_pod(f"web-5d-{n}", on, owner=("ReplicaSet", "web-5d"), labels=WEB, **more) for n in range(count)]


def build_live_controller(kind: str, name: str, replicas: int, **metadata: Any) -> dict[str, Any]:
    """Return a controller in kubectl format, with the template of `deployment`."""
    body = json.loads(build_deployment("web", replicas, cpu="1"))
    spec = {**body["spec"], **metadata.pop("spec", {})}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default", **metadata}} | {
        "spec": spec
    }


def build_managed_fields(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    more = {"subresource": subresource} if subresource else {}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}, **more}


def test_replicas_missing_from_manifest_are_kept() -> None:
    result = require_success(
        plan_observed(build_configuration(build_unscaled_deployment(cpu="1")), *NODES, *build_running_pods(5))
    )
    assert read_pod_changes(result) == {}
    assert "replicas-of-cluster" in {warning.id for warning in result.plan.diagnostics}
    state = build_state_after(result)
    assert len(list_places(result)) == 5
    # A later plan without the files reads them from state.
    assert is_empty(
        require_success(plan(build_configuration(build_unscaled_deployment(cpu="1")).replace(OF_A, ""), state))
    )


def test_new_deployment_without_replicas_has_one_pod() -> None:
    assert read_pod_changes(
        require_success(plan_observed(build_configuration(build_unscaled_deployment(cpu="1")), *NODES))
    ) == {"web-0": ("place", "new")}


def test_replicas_are_read_from_live_object_instead_of_its_pods() -> None:
    scaler = build_managed_fields("kube-controller-manager", {"f:replicas": {}}, "scale")
    scaled = build_live_controller("Deployment", "web", 3, managedFields=[scaler])
    result = require_success(
        plan_observed(build_configuration(build_unscaled_deployment(cpu="1")), *NODES, *build_running_pods(2), scaled)
    )
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}


def test_replicas_owned_by_last_apply_return_to_one() -> None:
    owned = build_live_controller(
        "Deployment", "web", 3, managedFields=[build_managed_fields("kubectl-client-side-apply", {"f:replicas": {}})]
    )
    result = require_success(
        plan_observed(build_configuration(build_unscaled_deployment(cpu="1")), *NODES, *build_running_pods(3), owned)
    )
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove", "remove"]
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"replicas": 3}}'}
    annotated = build_live_controller("Deployment", "web", 3, annotations=annotation)
    result = require_success(
        plan_observed(
            build_configuration(build_unscaled_deployment(cpu="1")), *NODES, *build_running_pods(3), annotated
        )
    )
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove", "remove"]
    # Removed from the manifest between two plans.
    state = build_state_after(
        require_success(
            plan_observed(
                build_configuration(build_unscaled_deployment(replicas=3, cpu="1")), *NODES, *build_running_pods(3)
            )
        )
    )
    result = require_success(plan(build_configuration(build_unscaled_deployment(cpu="1")).replace(OF_A, ""), state))
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove", "remove"]


def test_requests_of_another_manager_are_kept() -> None:
    container = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    requests = {"f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}}}
    grown = build_live_controller("Deployment", "web", 2, managedFields=[build_managed_fields("vpa-updater", requests)])
    grown["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "7"}}
    result = require_success(plan_observed(build_configuration(build_unscaled_deployment(replicas=2)), *NODES, grown))
    # Two pods of 7 CPUs share no node of 8.
    assert sorted(list_places(result).values()) == ["a-np-0", "a-np-1"]


def test_images_from_mirror_are_no_template_change() -> None:
    there = build_running_pods(2)
    for each in there:
        each["spec"]["containers"][0]["image"] = "mirror.local/redis@sha256:12"
    result = require_success(
        plan_observed(
            build_configuration(build_unscaled_deployment(replicas=2, cpu="1")),
            *NODES,
            *there,
            build_live_controller("Deployment", "web", 2),
        )
    )
    assert read_pod_changes(result) == {}


def test_replica_set_adopts_orphans_before_it_creates_pods() -> None:
    text = build_configuration(build_deployment("web", 3, cpu="1", kind="ReplicaSet"))
    orphans = [build_pod(f"web-{n}", "a-np-1", labels={"app": "web"}) for n in "ab"]
    others = [
        build_pod("other", "a-np-1", labels={"app": "other"}),
        build_pod("owned", "a-np-1", labels={"app": "web"}, owner=("ReplicaSet", "old")),
        build_pod("leaving", "a-np-1", labels={"app": "web"}, terminating=True),
    ]
    result = require_success(plan_observed(text, *NODES, *orphans, *others))
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}
    nodes = list_places(result)
    assert [nodes[f"web-{n}"] for n in range(2)] == ["a-np-1", "a-np-1"]
    assert is_empty(require_success(plan(text.replace(OF_A, ""), build_state_after(result))))
    # There are more orphans than replicas, so the surplus is deleted.
    result = require_success(
        plan_observed(build_configuration(build_deployment("web", 1, cpu="1", kind="ReplicaSet")), *NODES, *orphans)
    )
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove"]
    # A Deployment also selects by the hash of its template.
    result = require_success(plan_observed(build_configuration(build_deployment("web", 1, cpu="1")), *NODES, *orphans))
    assert read_pod_changes(result) == {"web-0": ("place", "new")}


def test_placed_objects_keep_fields_applied_by_kubectl() -> None:
    pinned = {"f:template": {"f:spec": {"f:nodeSelector": {}}}}
    fields = [build_managed_fields("kubectl-client-side-apply", pinned)]
    live = build_live_controller("Deployment", "web", 1, managedFields=fields, namespace="web")
    live["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    text = RACKS + CLUSTERS + MEMBERS + OF_A + build_hub_manifest(build_web_deployment(2))
    nodes = (build_node("a-np-0", labels={"disk": "ssd"}), build_node("a-np-1"))
    result = require_success(plan_observed(text + build_placement(), *nodes, live))
    assert set(read_pod_nodes(build_state_after(result))["a"].values()) == {"a-np-0"}
    # The last apply of the placement had the field, so it removes it.
    pinned_text = text.replace('"containers"', '"nodeSelector": {"disk": "ssd"}, "containers"') + build_placement()
    state = build_state_after(require_success(plan_observed(pinned_text, *nodes, live)))
    result = require_success(plan_observed(text + build_placement(), *nodes, live, state=state))
    assert "a-np-1" in read_pod_nodes(build_state_after(result))["a"].values()
