"""Tests of plans next to live Deployments.

They have fields owned by other managers, and templates changed on admission.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.domains.fleet.planning.fleet_harness import build_placement
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import (
    NODES,
    OF_A,
    WEB,
    add_standard_objects,
    list_places,
    plan_observed,
)
from tests.domains.pods.planning.test_placement_pods import (
    CLUSTERS,
    MEMBERS,
    build_hub_manifest,
    build_web_deployment,
    read_pod_nodes,
)
from tests.domains.pods.planning.test_pods import (
    build_deployment,
    build_manifest,
    build_workers,
    read_pod_changes,
)
from tests.planning.harness import (
    RACKS,
    build_state_after,
    is_empty,
    list_warnings,
    plan,
    require_success,
)

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
    return [
        build_pod(f"web-5d-{n}", on, owner=("ReplicaSet", "web-5d"), labels=WEB, **more)
        for n in range(count)
    ]


def build_live_controller(kind: str, name: str, replicas: int, **metadata: Any) -> dict[str, Any]:
    """Return a controller in kubectl format, with the template of `deployment`."""
    body = json.loads(build_deployment("web", replicas, cpu="1"))
    spec = {**body["spec"], **metadata.pop("spec", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", **metadata},
    } | {"spec": spec}


def build_managed_fields(
    manager: str, fields: dict[str, Any], subresource: str = ""
) -> dict[str, Any]:
    more = {"subresource": subresource} if subresource else {}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}, **more}


def test_replicas_missing_from_manifest_are_kept() -> None:
    result = require_success(
        plan_observed(
            build_configuration(build_unscaled_deployment(cpu="1")), *NODES, *build_running_pods(5)
        )
    )
    assert read_pod_changes(result) == {}
    assert "replicas-of-cluster" in {warning.id for warning in result.plan.diagnostics}
    state = build_state_after(result)
    assert len(list_places(result)) == 5
    # A later plan without the files reads them from state.
    assert is_empty(
        require_success(
            plan(build_configuration(build_unscaled_deployment(cpu="1")).replace(OF_A, ""), state)
        )
    )


def test_new_deployment_without_replicas_has_one_pod() -> None:
    assert read_pod_changes(
        require_success(
            plan_observed(build_configuration(build_unscaled_deployment(cpu="1")), *NODES)
        )
    ) == {"web-0": ("place", "new")}


def test_replicas_are_read_from_live_object_instead_of_its_pods() -> None:
    scaler = build_managed_fields("kube-controller-manager", {"f:replicas": {}}, "scale")
    scaled = build_live_controller("Deployment", "web", 3, managedFields=[scaler])
    result = require_success(
        plan_observed(
            build_configuration(build_unscaled_deployment(cpu="1")),
            *NODES,
            *build_running_pods(2),
            scaled,
        )
    )
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}


def test_replicas_owned_by_last_apply_return_to_one() -> None:
    owned = build_live_controller(
        "Deployment",
        "web",
        3,
        managedFields=[build_managed_fields("kubectl-client-side-apply", {"f:replicas": {}})],
    )
    result = require_success(
        plan_observed(
            build_configuration(build_unscaled_deployment(cpu="1")),
            *NODES,
            *build_running_pods(3),
            owned,
        )
    )
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove", "remove"]
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"replicas": 3}}'}
    annotated = build_live_controller("Deployment", "web", 3, annotations=annotation)
    result = require_success(
        plan_observed(
            build_configuration(build_unscaled_deployment(cpu="1")),
            *NODES,
            *build_running_pods(3),
            annotated,
        )
    )
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove", "remove"]
    # Removed from the manifest between two plans.
    state = build_state_after(
        require_success(
            plan_observed(
                build_configuration(build_unscaled_deployment(replicas=3, cpu="1")),
                *NODES,
                *build_running_pods(3),
            )
        )
    )
    result = require_success(
        plan(build_configuration(build_unscaled_deployment(cpu="1")).replace(OF_A, ""), state)
    )
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove", "remove"]


def test_requests_of_another_manager_are_kept() -> None:
    container = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    requests = {"f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}}}
    grown = build_live_controller(
        "Deployment", "web", 2, managedFields=[build_managed_fields("vpa-updater", requests)]
    )
    grown["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "7"}}
    result = require_success(
        plan_observed(build_configuration(build_unscaled_deployment(replicas=2)), *NODES, grown)
    )
    # Two pods of 7 CPUs share no node of 8.
    assert sorted(list_places(result).values()) == ["a-np-0", "a-np-1"]


# Fields of the spec of a template, and those of its container.
TEMPLATE_CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"hostNetwork": True}, {"ports": [{"containerPort": 80}]}),
    ({"resources": {"requests": {"cpu": "1500m"}}}, {}),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, {}),
    ({"schedulingGates": [{"name": "x/y"}]}, {}),
    ({"nodeName": "a-np-0"}, {}),
    ({}, {"ports": [{"containerPort": 80, "hostPort": 80}]}),
]


def change_template(
    controller: dict[str, Any], spec: dict[str, Any], container: dict[str, Any]
) -> None:
    template = controller["spec"]["template"]["spec"]
    template |= spec
    template["containers"] = [{**template["containers"][0], **container}]


@pytest.mark.parametrize(("spec", "container"), TEMPLATE_CHANGES)
def test_fields_of_a_changed_template(spec: dict[str, Any], container: dict[str, Any]) -> None:
    changed = json.loads(build_deployment("web", 2, cpu="1"))
    change_template(changed, spec, container)
    live = build_live_controller("StatefulSet", "web", 2)
    changed["kind"] = "StatefulSet"
    there = [
        build_pod(f"web-{n}", "a-np-1", owner=("StatefulSet", "web"), labels=WEB, cpu="1")
        for n in range(2)
    ]
    result = require_success(
        plan_observed(build_configuration(json.dumps(changed)), *NODES, *there, live)
    )
    assert "template_changed" in {trigger for _, trigger in read_pod_changes(result).values()}
    # Unchanged on the cluster, with defaults of the API server.
    change_template(live, spec, {**container, "terminationMessagePolicy": "File"})
    for port in live["spec"]["template"]["spec"]["containers"][0].get("ports", []):
        port["protocol"] = "TCP"
    live["spec"]["template"]["spec"].setdefault("dnsPolicy", "ClusterFirst")
    result = require_success(
        plan_observed(build_configuration(json.dumps(changed)), *NODES, *there, live)
    )
    assert "template_changed" not in {trigger for _, trigger in read_pod_changes(result).values()}


def test_defaults_of_volumes_are_no_template_change() -> None:
    written = json.loads(build_deployment("web", 1, cpu="1"))
    change_template(
        written, {"volumes": [{"name": "v"}, {"name": "c", "configMap": {"name": "c"}}]}, {}
    )
    live = build_live_controller("Deployment", "web", 1)
    volumes = [
        {"name": "v", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "c", "defaultMode": 420}},
    ]
    change_template(live, {"volumes": volumes}, {})
    there = build_running_pods(1, cpu="1")
    result = require_success(
        plan_observed(build_configuration(json.dumps(written)), *NODES, *there, live)
    )
    assert read_pod_changes(result) == {}


def test_changed_label_of_a_template_is_rolled_out() -> None:
    owner = {"ownerReferences": [{"kind": "Deployment", "name": "web", "controller": True}]}
    live = build_live_controller("Deployment", "web", 1)
    replica_set = build_live_controller(
        "ReplicaSet", "web-5d", 1, labels={"pod-template-hash": "5d"}, **owner
    )
    replica_set["spec"]["template"] = json.loads(json.dumps(live["spec"]["template"]))
    replica_set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "5d"
    there = [*build_running_pods(1, cpu="1"), live, replica_set]
    text = build_deployment("web", 1, cpu="1")
    assert (
        read_pod_changes(require_success(plan_observed(build_configuration(text), *NODES, *there)))
        == {}
    )
    changed = json.loads(text)
    changed["spec"]["template"]["metadata"]["labels"]["tier"] = "x"
    result = require_success(
        plan_observed(build_configuration(json.dumps(changed)), *NODES, *there)
    )
    assert [trigger for _, trigger in read_pod_changes(result).values()] == ["template_changed"]


def test_host_ports_of_another_manager_are_kept() -> None:
    ports = {'k:{"containerPort":80,"protocol":"TCP"}': {"f:hostPort": {}}}
    template = {"f:hostNetwork": {}, "f:containers": {'k:{"name":"c"}': {"f:ports": ports}}}
    fields = build_managed_fields("kubectl-patch", {"f:template": {"f:spec": template}})
    live = build_live_controller("Deployment", "web", 3, managedFields=[fields])
    change_template(
        live,
        {"hostNetwork": True},
        {"ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]},
    )
    written = json.loads(build_deployment("web", 3, cpu="1"))
    change_template(written, {}, {"ports": [{"containerPort": 80}]})
    result = require_success(plan_observed(build_configuration(json.dumps(written)), *NODES, live))
    # Two pods with the same host port share no node.
    assert sorted(node or "" for node in list_places(result).values()) == ["", "a-np-0", "a-np-1"]


def test_scheduling_gate_of_another_manager_is_kept() -> None:
    gates = {"f:schedulingGates": {'k:{"name":"x/y"}': {"f:name": {}}}}
    fields = build_managed_fields("kubectl-edit", {"f:template": {"f:spec": gates}})
    live = build_live_controller("Deployment", "web", 1, managedFields=[fields])
    change_template(live, {"schedulingGates": [{"name": "x/y"}]}, {})
    result = require_success(
        plan_observed(build_configuration(build_deployment("web", 1, cpu="1")), *NODES, live)
    )
    assert list(list_places(result).values()) == [None]


def list_pods_with_unknown_rules(result: Any) -> list[str]:
    return [
        row.object
        for row in result.plan.placements
        if row.scores.get("depends_on") == "rules of others"
    ]


def test_fields_without_known_managers_make_pods_uncertain() -> None:
    grown = build_live_controller("Deployment", "web", 1)
    there = build_running_pods(1, cpu="1")
    for container in (
        grown["spec"]["template"]["spec"]["containers"][0],
        there[0]["spec"]["containers"][0],
    ):
        container["resources"] = {"requests": {"cpu": "2"}}
    text = build_configuration(build_deployment("web", 1))
    result = require_success(plan_observed(text, *NODES, *there, grown))
    assert list_pods_with_unknown_rules(result) == ["web-0"]
    detail = next(
        item.detail for item in result.plan.diagnostics if item.id == "unknown-field-managers"
    )
    assert "template.spec.containers.resources.requests.cpu" in detail
    assert "--show-managed-fields" in detail
    # The applier owns all fields.
    grown["metadata"]["managedFields"] = [
        build_managed_fields("kubectl-client-side-apply", {"f:replicas": {}})
    ]
    result = require_success(plan_observed(text, *NODES, *there, grown))
    assert (list(read_pod_changes(result)), list_pods_with_unknown_rules(result)) == (["web-0"], [])
    # The last apply has set the field, so the next one removes it.
    del grown["metadata"]["managedFields"]
    applied = json.dumps({"spec": grown["spec"]})
    grown["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    assert (
        list_pods_with_unknown_rules(require_success(plan_observed(text, *NODES, *there, grown)))
        == []
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"paused": True},
        {"strategy": {"type": "Recreate"}},
        {"strategy": {"rollingUpdate": {"maxSurge": 3}}},
    ],
)
def test_live_fields_without_known_managers_are_named(spec: dict[str, Any]) -> None:
    live = build_live_controller("Deployment", "web", 1, spec=spec)
    text = build_configuration(build_deployment("web", 2, cpu="1"))
    result = require_success(plan_observed(text, *NODES, *build_running_pods(1, cpu="1"), live))
    assert list_pods_with_unknown_rules(result) == ["web-1"]
    assert next(iter(spec)) in next(
        item.detail for item in result.plan.diagnostics if item.id.startswith("unknown-")
    )


def test_defaults_of_api_server_need_no_manager() -> None:
    rolling = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    live = build_live_controller(
        "Deployment", "web", 1, spec={"strategy": rolling, "paused": False}
    )
    change_template(live, {"schedulerName": "default-scheduler", "hostNetwork": False}, {})
    text = build_configuration(build_deployment("web", 2, cpu="1"))
    result = require_success(plan_observed(text, *NODES, *build_running_pods(1, cpu="1"), live))
    assert list_pods_with_unknown_rules(result) == []
    assert "unknown-field-managers" not in {item.id for item in result.plan.diagnostics}


def test_suspended_job_without_known_managers_is_uncertain() -> None:
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "r.io/x:1"}]}
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
    }
    text = build_configuration(json.dumps({**job, "spec": {"template": template}}))
    labels = {"job-name": "j", "batch.kubernetes.io/controller-uid": "1"}
    live = {
        **job,
        "spec": {"parallelism": 1, "template": {**template, "metadata": {"labels": labels}}},
    }
    assert list_pods_with_unknown_rules(require_success(plan_observed(text, *NODES, live))) == []
    live["spec"]["suspend"] = True
    assert list_pods_with_unknown_rules(require_success(plan_observed(text, *NODES, live))) == [
        "j-0"
    ]


def test_replicas_set_by_an_unlisted_autoscaler_are_uncertain() -> None:
    scaler = build_managed_fields("kube-controller-manager", {"f:replicas": {}}, "scale")
    live = build_live_controller("Deployment", "web", 2, managedFields=[scaler])
    there = [*build_running_pods(2, cpu="1"), live]
    result = require_success(
        plan_observed(build_configuration(build_deployment("web", 3, cpu="1")), *NODES, *there)
    )
    assert {row.scores["depends_on"] for row in result.plan.placements if row.scores} == {
        "a HorizontalPodAutoscaler"
    }
    assert "missing-autoscaler" in {item.id for item in result.plan.diagnostics}
    # The replicas are equal, or written by kubectl scale, or without effect on them (status).
    equal = require_success(
        plan_observed(build_configuration(build_deployment("web", 2, cpu="1")), *NODES, *there)
    )
    assert "missing-autoscaler" not in {item.id for item in equal.plan.diagnostics}
    for other in (("kubectl", "scale"), ("kube-controller-manager", "status")):
        live["metadata"]["managedFields"] = [
            build_managed_fields(other[0], {"f:replicas": {}}, other[1])
        ]
        result = require_success(
            plan_observed(build_configuration(build_deployment("web", 3, cpu="1")), *NODES, *there)
        )
        assert "missing-autoscaler" not in {item.id for item in result.plan.diagnostics}


def build_autoscaler(name: str, minimum: int, group: str = "apps/v1") -> dict[str, Any]:
    target = {"apiVersion": group, "kind": "Deployment", "name": "web"}
    spec = {"minReplicas": minimum, "maxReplicas": minimum + 2, "scaleTargetRef": target}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": spec,
    }


def test_several_autoscalers_of_one_deployment_are_uncertain() -> None:
    text = build_configuration(build_deployment("web", 1, cpu="1"))
    result = require_success(
        plan_observed(text, *NODES, build_autoscaler("a", 2), build_autoscaler("b", 3))
    )
    assert list_pods_with_unknown_rules(result) == ["web-0", "web-1", "web-2"]
    assert "a and b" in next(
        item.detail for item in result.plan.diagnostics if item.id == "several-autoscalers"
    )


def test_autoscaler_that_is_applied_and_listed_is_one_object() -> None:
    """The plan applies what the dump lists already, in an older version."""
    autoscaler = build_autoscaler("a", 2)
    text = build_configuration(build_deployment("web", 1, cpu="1"), json.dumps(autoscaler))
    listed = {**autoscaler, "apiVersion": "autoscaling/v1"}
    result = require_success(plan_observed(text, *NODES, autoscaler, listed))
    assert "several-autoscalers" not in {item.id for item in result.plan.diagnostics}
    assert list_pods_with_unknown_rules(result) == []
    assert len(list(list_places(result))) == 2


def test_autoscaler_of_another_api_group_scales_another_object() -> None:
    text = build_configuration(build_deployment("web", 1, cpu="1"))
    result = require_success(plan_observed(text, *NODES, build_autoscaler("a", 2, "x.io/v1")))
    assert list(list_places(result)) == ["web-0"]
    assert (
        len(list_places(require_success(plan_observed(text, *NODES, build_autoscaler("a", 2)))))
        == 2
    )


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
        plan_observed(
            build_configuration(build_deployment("web", 1, cpu="1", kind="ReplicaSet")),
            *NODES,
            *orphans,
        )
    )
    assert [action for action, _ in read_pod_changes(result).values()] == ["remove"]
    # A Deployment also selects by the hash of its template.
    result = require_success(
        plan_observed(build_configuration(build_deployment("web", 1, cpu="1")), *NODES, *orphans)
    )
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
    pinned_text = (
        text.replace('"containers"', '"nodeSelector": {"disk": "ssd"}, "containers"')
        + build_placement()
    )
    state = build_state_after(require_success(plan_observed(pinned_text, *nodes, live)))
    result = require_success(plan_observed(text + build_placement(), *nodes, live, state=state))
    assert "a-np-1" in read_pod_nodes(build_state_after(result))["a"].values()


def build_job(image: str = "i", **status: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template, "completions": 2, "parallelism": 2},
        "status": status,
    }


@pytest.mark.parametrize("condition", ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"])
def test_ended_job_runs_no_pods_after_its_deletion(condition: str) -> None:
    text = build_configuration(json.dumps(build_job()))
    ended = build_job(conditions=[{"type": condition, "status": "True"}])
    result = require_success(plan_observed(text, *add_standard_objects(*NODES, ended)))
    assert read_pod_changes(result) == {}
    state = build_state_after(result)
    # Its time to live deletes it with its pods.
    assert is_empty(
        require_success(plan_observed(text, *add_standard_objects(*NODES), state=state))
    )
    assert is_empty(require_success(plan(text.replace(OF_A, ""), state)))


def test_re_created_job_runs_its_pods_again() -> None:
    text = build_configuration(json.dumps(build_job()))
    ended = build_job(conditions=[{"type": "Complete", "status": "True"}])
    state = build_state_after(require_success(plan_observed(text, *NODES, ended)))
    result = require_success(
        plan(text.replace(OF_A, ""), state, replaces=("fleet_hub_manifest.m",))
    )
    assert read_pod_changes(result) == {"j-0": ("place", "new"), "j-1": ("place", "new")}


def build_quota(hard: dict[str, str], **used: str) -> dict[str, Any]:
    metadata = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata} | {
        "spec": {"hard": hard},
        "status": {"used": used},
    }


def test_job_waiting_for_a_quota_has_not_ended() -> None:
    quota = build_quota({"pods": "0"})
    text = build_configuration(json.dumps(build_job()))
    state = build_state_after(require_success(plan_observed(text, *NODES, quota)))
    result = require_success(plan_observed(text, *NODES, state=state))
    assert read_pod_changes(result) == {"j-0": ("place", "new"), "j-1": ("place", "new")}
    suspended = build_job()
    suspended["spec"]["suspend"] = True
    state = build_state_after(
        require_success(plan_observed(build_configuration(json.dumps(suspended)), *NODES))
    )
    assert len(read_pod_changes(require_success(plan_observed(text, *NODES, state=state)))) == 2


@pytest.mark.parametrize("kind", ["Job", "DaemonSet"])
def test_workloads_without_replicas_keep_none(kind: str) -> None:
    body = build_job() if kind == "Job" else json.loads(build_deployment("j", 1, kind="DaemonSet"))
    pods = [build_pod(f"j-{node}", node, owner=(kind, "j")) for node in ("a-np-0", "a-np-1")]
    result = require_success(plan_observed(build_configuration(json.dumps(body)), *NODES, *pods))
    assert "replicas-of-cluster" not in {warning.id for warning in list_warnings(result)}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
@pytest.mark.parametrize("field", ["env", "envFrom", "command", "livenessProbe"])
@pytest.mark.parametrize("has_live", [True, False])
def test_change_of_fields_omitted_in_the_dump_replaces_observed_pods(
    kind: str, field: str, has_live: bool
) -> None:
    values: dict[str, Any] = {
        "env": [{"name": "A", "value": "1"}],
        "envFrom": [{"secretRef": {"name": "s"}}],
        "command": ["x"],
        "livenessProbe": {"exec": {"command": ["true"]}},
    }
    body = json.loads(build_deployment("web", 2, cpu="1", kind=kind, serviceName="web"))
    if kind != "StatefulSet":
        del body["spec"]["serviceName"]
    label = "controller-revision-hash"
    owner = (kind, "web")
    live = {**body, "status": {"updateRevision": "5d"}}
    lives = [live] * has_live
    if kind == "Deployment":
        label = "pod-template-hash"
        owner = ("ReplicaSet", "web-5d")
        reference = {"kind": "Deployment", "name": "web", "controller": True}
        metadata = {
            "name": "web-5d",
            "namespace": "default",
            "labels": WEB,
            "ownerReferences": [reference],
        }
        lives += [{**body, "kind": "ReplicaSet", "metadata": metadata}] * has_live
    labels = {"app": "web", label: "5d"}
    pods = [build_pod(f"web-{n}", f"a-np-{n}", owner=owner, labels=labels) for n in (0, 1)]
    for pod in pods:
        pod["spec"]["containers"][0]["image"] = "redis:3.2-alpine"
    dump = (*NODES, *lives, *pods)
    text = build_configuration(json.dumps(body))
    result = require_success(plan_observed(text, *dump))
    assert read_pod_changes(result) == {}
    state = build_state_after(result)
    changed = json.loads(json.dumps(body))
    changed["spec"]["template"]["spec"]["containers"][0][field] = values[field]
    result = require_success(
        plan_observed(build_configuration(json.dumps(changed)), *dump, state=state)
    )
    assert read_pod_changes(result) == {f"web-{n}": ("move", "template_changed") for n in (0, 1)}


def test_observed_pods_of_a_re_created_object_are_replaced() -> None:
    text = build_configuration(build_deployment("web", 2, cpu="1"))
    dump = (*NODES, *build_running_pods(2))
    state = build_state_after(require_success(plan_observed(text, *dump)))
    result = require_success(
        plan_observed(text, *dump, state=state, replaces=("fleet_hub_manifest.m",))
    )
    rows = [
        (row.object, str(row.action), row.trigger)
        for row in result.plan.placements
        if row.kind == "pod"
    ]
    assert rows == [
        ("web-0", "remove", "object_replaced"),
        ("web-1", "remove", "object_replaced"),
        ("web-0", "place", "new"),
        ("web-1", "place", "new"),
    ]


@pytest.mark.parametrize("hard", [{"pods": "3"}, {"requests.cpu": "3"}])
def test_pending_pods_of_others_count_against_a_quota(hard: dict[str, str]) -> None:
    text = build_configuration(build_deployment("web", 3, cpu="1"))
    pending = build_pod("other", "", "1", phase="Pending")
    nominated = build_pod("third", "", "1", phase="Pending")
    nominated["status"]["nominatedNodeName"] = "a-np-0"
    finished = build_pod("old", "a-np-0", "1", phase="Failed")
    result = require_success(
        plan_observed(text, *NODES, build_quota(hard), pending, nominated, finished)
    )
    assert read_pod_changes(result) == {"web-0": ("place", "new")}
    # So they do if other pods of their workload run.
    pair = [build_pod(f"a-{node}", node, owner=("StatefulSet", "a")) for node in ("a-np-0", "")]
    result = require_success(plan_observed(text, *NODES, build_quota(hard), *pair))
    assert read_pod_changes(result) == {"web-0": ("place", "new")}
    # Pending pods of the workload itself count once.
    own = [
        {**body, "metadata": {**body["metadata"], "labels": WEB}} for body in (pending, nominated)
    ]
    for body in own:
        body["metadata"]["ownerReferences"] = [
            {"kind": "ReplicaSet", "name": "web-5d", "controller": True}
        ]
    result = require_success(plan_observed(text, *NODES, build_quota(hard), *own))
    assert len(list_places(result)) == 3


@pytest.mark.parametrize(("used", "running"), [("2", 3), ("4", 1), ("9", 0)])
def test_pods_missing_in_the_dump_count_by_the_status_of_the_quota(used: str, running: int) -> None:
    there = [build_pod(name, "a-np-0", "1") for name in ("one", "two")]
    for text in (
        build_configuration(build_deployment("web", 3, cpu="1")),
        # A manifest of the quota has no status.
        build_configuration(
            json.dumps(build_quota({"pods": "5"})), build_deployment("web", 3, cpu="1")
        ),
    ):
        result = require_success(
            plan_observed(text, *NODES, build_quota({"pods": "5"}, pods=used), *there)
        )
        assert len(list_places(result)) == running


def test_change_of_an_environment_replaces_observed_pods_of_a_placement() -> None:
    live = build_live_controller("Deployment", "web", 2, namespace="web")
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "web:1"
    pods = build_running_pods(2)
    for pod in pods:
        pod["metadata"]["namespace"] = "web"
        pod["spec"]["containers"][0]["image"] = "web:1"
    text = (
        RACKS
        + CLUSTERS
        + MEMBERS
        + OF_A
        + build_hub_manifest(build_web_deployment(2))
        + build_placement()
    )
    state = build_state_after(require_success(plan_observed(text, *NODES, live, *pods)))
    changed = text.replace(
        '"image": "web:1"', '"image": "web:1", "env": [{"name": "A", "value": "2"}]'
    )
    result = require_success(plan_observed(changed, *NODES, live, *pods, state=state))
    rows = [
        row for row in result.plan.placements if row.kind == "pod" and row.pool.startswith("a/")
    ]
    assert [(row.object, row.trigger) for row in rows] == [
        (f"web-{n}", "template_changed") for n in (0, 1)
    ]


@pytest.mark.parametrize(
    ("spec", "is_repeated"), [({}, False), ({"ttlSecondsAfterFinished": 60}, True)]
)
def test_fleet_repeats_an_ended_job_deleted_by_its_time_to_live(
    spec: dict[str, Any], is_repeated: bool
) -> None:
    ended = build_job(conditions=[{"type": "Complete", "status": "True"}])
    ended["metadata"]["namespace"] = "web"
    job = build_job()
    job["metadata"]["namespace"] = "web"
    job["spec"] |= spec
    text = (
        RACKS + CLUSTERS + MEMBERS + OF_A + build_hub_manifest(json.dumps(job)) + build_placement()
    )
    state = build_state_after(require_success(plan_observed(text, *NODES, ended)))
    result = require_success(plan_observed(text, *NODES, state=state))
    rows = [
        row for row in result.plan.placements if row.kind == "pod" and row.pool.startswith("a/")
    ]
    assert [row.trigger for row in rows] == ["new", "new"] * is_repeated


def test_pending_pods_of_a_deleted_object_leave_its_quota() -> None:
    quota = build_quota({"pods": "3"})
    pending = [
        build_pod(
            f"web-5d-{number}", "", "1", phase="Pending", owner=("ReplicaSet", "web-5d"), labels=WEB
        )
        for number in range(3)
    ]
    with_web = build_configuration(build_deployment("web", 3, cpu="1"))
    state = build_state_after(require_success(plan_observed(with_web, *NODES, quota, *pending)))
    with_db = build_configuration(build_deployment("db", 3, cpu="1")).replace('"m"', '"n"')
    result = require_success(plan_observed(with_db, *NODES, quota, *pending, state=state))
    changes = read_pod_changes(result)
    assert [changes.get(f"db-{number}") for number in range(3)] == [("place", "new")] * 3
