"""Tests of pods rewritten by webhooks, mirrors and VPA, in dumps of kubectl.

No rewriting is a template change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.pods.importers.cluster_objects import build_node
from tests.domains.pods.planning.test_cluster_observation import (
    OF_A,
    add_images,
    add_standard_objects,
    plan_observed,
)
from tests.domains.pods.planning.test_dump_doubts import (
    build_webhook,
    list_certainties,
    list_warning_ids,
)
from tests.domains.pods.planning.test_pods import build_manifest, build_workers, read_pod_changes
from tests.planning.harness import RACKS, build_state_after, require_success

pytestmark = pytest.mark.of_domains("fleet")
CONTROL_PLANE: Final = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
# The second node has so much capacity that it is the only choice.
NODES: Final = (
    add_images(build_node("a-np-0"), db=1 << 20),
    add_images(build_node("a-np-1", "64"), db=1 << 20),
    add_images(build_node("a-control-plane-0", taints=[CONTROL_PLANE]), db=1 << 20),
)
KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet", "Job")
DIGEST: Final = "sha256:" + "ab" * 32
MIRRORED: Final = "mirror.local/library/web:1.2"
PINNED: Final = f"registry.local/web@{DIGEST}"
Body = dict[str, Any]


# --- objects in the format of kubectl -----------------------------------------------------------


def build_template(image: str = "web:1.2", cpu: str = "500m", *, has_init: bool = False) -> Body:
    """Return a pod spec as in a manifest."""
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    spec: Body = {"containers": [{"name": "c", "image": image, "resources": resources}]}
    if has_init:
        spec["initContainers"] = [{"name": "setup", "image": "setup:1", "resources": resources}]
    return spec


def build_workload(kind: str, spec: Body, replicas: int = 2) -> Body:
    """Return a manifest."""
    labels = {"app": "web"}
    metadata = {"name": "web", "namespace": "default"}
    template = {"metadata": {"labels": labels}, "spec": deepcopy(spec)}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        body: Body = {"parallelism": replicas, "completions": replicas, "template": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": body}
    body = {"selector": {"matchLabels": labels}, "template": template}
    if kind != "DaemonSet":
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body["serviceName"] = "web"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def print_spec(spec: Body) -> Body:
    """Return a pod spec with the defaults of the API server."""
    printed = deepcopy(spec)
    for section in ("containers", "initContainers"):
        for container in printed.get(section, ()):
            container.update(
                terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File"
            )
            container["imagePullPolicy"] = "IfNotPresent"
    defaults = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    return {**defaults, **printed}


def print_live(workload: Body, replicas: int = 2) -> list[Body]:
    """Return a workload of the cluster, with the ReplicaSet of a Deployment."""
    live = deepcopy(workload)
    kind = live["kind"]
    spec = live["spec"]
    live["metadata"]["managedFields"] = [
        {
            "manager": "nexusform",
            "operation": "Apply",
            "fieldsV1": {
                "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {}}}}
            },
        }
    ]
    spec["template"]["spec"] = print_spec(spec["template"]["spec"])
    live["status"] = {"observedGeneration": 1, "replicas": replicas}
    if kind == "StatefulSet":
        live["status"] |= {"currentRevision": "web-5d", "updateRevision": "web-5d"}
    if kind != "Deployment":
        return [live]
    labels = {"app": "web", "pod-template-hash": "5d"}
    template = {"metadata": {"labels": labels}, "spec": deepcopy(spec["template"]["spec"])}
    metadata = {
        "name": "web-5d",
        "namespace": "default",
        "labels": labels,
        "annotations": {
            "deployment.kubernetes.io/desired-replicas": str(replicas),
            "deployment.kubernetes.io/max-replicas": str(replicas + 1),
            "deployment.kubernetes.io/revision": "1",
        },
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
        ],
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata,
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
    return [live, replica_set]


def print_pods(kind: str, specs: Sequence[Body]) -> list[Body]:
    """Return the Running pods of a workload, each with its spec, one per node in turn."""
    printed = []
    for number, spec in enumerate(specs):
        owner = ("ReplicaSet", "web-5d")
        labels = {"app": "web", "pod-template-hash": "5d"}
        name = f"web-5d-x{number}"
        if kind == "StatefulSet":
            owner = ("StatefulSet", "web")
            name = f"web-{number}"
            labels = {
                "app": "web",
                "controller-revision-hash": "web-5d",
                "apps.kubernetes.io/pod-index": str(number),
            }
        elif kind == "DaemonSet":
            owner = ("DaemonSet", "web")
            labels = {"app": "web", "controller-revision-hash": "5d"}
        elif kind == "Job":
            owner = ("Job", "web")
            labels = {"app": "web", "job-name": "web"}
        own = print_spec(spec)
        own["nodeName"] = f"a-np-{number % 2}"
        own["serviceAccountName"] = "default"
        own["tolerations"] = [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ]
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}],
        }
        status = {
            "phase": "Running",
            "startTime": "2025-12-31T23:50:00Z",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T23:51:00Z"}
            ],
            "containerStatuses": [
                {"name": item["name"], "ready": True, "restartCount": 0, "state": {"running": {}}}
                for item in own["containers"]
            ],
        }
        printed.append(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own, "status": status}
        )
    return printed


def plan_dump(workload: Body, *objects: Body) -> PlanResult:
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", json.dumps(workload))
    return require_success(plan_observed(text, *add_standard_objects(*NODES, *objects)))


def rewrite(
    spec: Body, *, image: str = "", cpu: str = "", sidecar: str = "", init_image: str = ""
) -> Body:
    """Return a pod spec after admission."""
    changed = deepcopy(spec)
    container = changed["containers"][0]
    if image:
        container["image"] = image
    if cpu:
        container["resources"]["requests"]["cpu"] = cpu
    if init_image:
        changed["initContainers"][0]["image"] = init_image
    if sidecar:
        changed["containers"].append(
            {"name": "mesh", "image": "mesh:1", "resources": {"requests": {"cpu": sidecar}}}
        )
    return changed


# --- scenarios ----------------------------------------------------------------------------------

REWRITES: Final[dict[str, dict[str, str]]] = {
    "mirror": {"image": MIRRORED},
    "digest": {"image": PINNED},
    "tag and digest": {"image": f"mirror.local/web:1.2@{DIGEST}"},
    "VPA": {"cpu": "750m"},
    "VPA, less": {"cpu": "100m"},
    "sidecar": {"sidecar": "200m"},
    "mirror and VPA": {"image": MIRRORED, "cpu": "750m"},
    "all": {"image": PINNED, "cpu": "750m", "sidecar": "200m"},
}


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("kind", KINDS)
def test_rewritten_pods_move_nothing(kind: str, name: str, has_live: bool) -> None:
    spec = build_template()
    workload = build_workload(kind, spec)
    there = print_pods(kind, [rewrite(spec, **REWRITES[name])] * 2)
    result = plan_dump(workload, *there, *(print_live(workload) if has_live else ()))
    assert read_pod_changes(result) == {}


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("kind", KINDS)
def test_rewriting_of_half_the_pods_moves_nothing(kind: str, name: str, has_live: bool) -> None:
    spec = build_template()
    workload = build_workload(kind, spec, 4)
    there = print_pods(
        kind, [spec, rewrite(spec, **REWRITES[name])] * (1 if kind == "DaemonSet" else 2)
    )
    result = plan_dump(workload, *there, *(print_live(workload, 4) if has_live else ()))
    assert read_pod_changes(result) == {}


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("kind", KINDS)
def test_rewritten_init_containers_move_nothing(kind: str, has_live: bool) -> None:
    spec = build_template(has_init=True)
    workload = build_workload(kind, spec)
    there = print_pods(kind, [rewrite(spec, image=MIRRORED, init_image="mirror.local/setup:1")] * 2)
    result = plan_dump(workload, *there, *(print_live(workload) if has_live else ()))
    assert read_pod_changes(result) == {}


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("kind", KINDS)
def test_new_image_in_manifest_is_a_template_change(kind: str, has_live: bool) -> None:
    there = print_pods(kind, [rewrite(build_template(), image=MIRRORED)] * 2)
    live = print_live(build_workload(kind, build_template()))
    result = plan_dump(
        build_workload(kind, build_template("web:2")), *there, *(live if has_live else ())
    )
    triggers = {trigger for _, trigger in read_pod_changes(result).values()}
    assert triggers == (set() if kind == "Job" else {"template_changed"})


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_new_pods_of_rewritten_workload_equal_the_others(kind: str, has_live: bool) -> None:
    """The third pod of 3 CPUs after admission fits on one node only.

    Without live objects the reason is unknown.
    """
    spec = build_template()
    there = print_pods(kind, [rewrite(spec, image=MIRRORED, cpu="3")] * 2)
    there[1]["spec"]["nodeName"] = "a-np-0"
    workload = build_workload(kind, spec, 3)
    live = print_live(build_workload(kind, spec)) if has_live else ()
    result = plan_dump(workload, *there, *live, build_webhook())
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}
    assert [row.target.node for row in result.plan.placements if row.object == "web-2"] == [
        "a-np-1"
    ]
    expected = (True, None) if has_live else (False, "admission webhooks")
    assert list_certainties(result)["web-2"] == expected


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_new_pod_with_pods_of_two_forms_is_not_certain(
    kind: str, name: str, has_live: bool
) -> None:
    spec = build_template()
    there = print_pods(kind, [spec, rewrite(spec, **REWRITES[name])])
    live = print_live(build_workload(kind, spec)) if has_live else ()
    result = plan_dump(build_workload(kind, spec, 3), *there, *live, build_webhook())
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}
    assert list_certainties(result)["web-2"] == (False, "admission webhooks")


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("kind", KINDS)
def test_webhook_without_effect_moves_nothing(kind: str, has_live: bool) -> None:
    spec = build_template()
    workload = build_workload(kind, spec)
    live = print_live(workload) if has_live else ()
    result = plan_dump(workload, *print_pods(kind, [spec] * 2), *live, build_webhook())
    assert read_pod_changes(result) == {}
    assert set(list_certainties(result).values()) <= {(True, None)}


def print_autoscalers(maximum: int = 5) -> list[Body]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metadata = {"name": "web", "namespace": "default"}
    return [
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata,
            "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": maximum},
            "status": {"currentReplicas": 4, "desiredReplicas": 4},
        },
        {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": metadata,
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Auto"}},
        },
    ]


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("rewritten", [4, 2])
def test_horizontal_and_vertical_autoscaler_together_move_nothing(
    rewritten: int, has_live: bool
) -> None:
    spec = build_template()
    workload = build_workload("Deployment", spec)
    del workload["spec"]["replicas"]
    live = []
    if has_live:
        live = print_live({**workload, "spec": {**workload["spec"], "replicas": 4}}, 4)
        live[0]["metadata"]["managedFields"] = [
            {
                "manager": "kube-controller-manager",
                "operation": "Update",
                "subresource": "scale",
                "fieldsV1": {"f:spec": {"f:replicas": {}}},
            }
        ]
    there = print_pods(
        "Deployment", [rewrite(spec, cpu="750m")] * rewritten + [spec] * (4 - rewritten)
    )
    result = plan_dump(workload, *there, *live, *print_autoscalers())
    assert read_pod_changes(result) == {}
    assert "replicas-of-cluster" in list_warning_ids(result)


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("kind", KINDS)
def test_second_plan_with_rewritten_pods_is_empty(kind: str, has_live: bool) -> None:
    """The pods in the state are those of the manifest.

    The dump after the apply has rewritten ones.
    """
    workload = build_workload(kind, build_template())
    state = build_state_after(plan_dump(workload))
    there = print_pods(kind, [rewrite(build_template(), image=PINNED, cpu="750m")] * 2)
    live = print_live(workload) if has_live else ()
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", json.dumps(workload))
    assert (
        read_pod_changes(
            require_success(
                plan_observed(text, *add_standard_objects(*NODES, *there, *live), state=state)
            )
        )
        == {}
    )


IMAGES: Final = {
    ("web", "mirror.local/web:latest"): True,
    ("web:latest", "mirror.local/web"): True,
    (f"web@{DIGEST}", f"mirror.local/web@{DIGEST}"): True,
    (f"web:1.2@{DIGEST}", f"mirror.local:5000/library/web:1.2@{DIGEST}"): True,
    ("docker.io/library/web:1.2", "mirror.local:5000/web:1.2"): True,
    ("web:1.2", f"mirror.local/web:1.1@{DIGEST}"): False,
    (f"web@{DIGEST}", f"mirror.local/web@sha256:{'cd' * 32}"): False,
    ("web:1.2", "mirror.local/web:1.1"): False,
    ("web:1.2", "mirror.local/webs:1.2"): False,
}


@pytest.mark.parametrize(("images", "is_same"), IMAGES.items())
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_image_is_compared_by_name_tag_and_digest(
    kind: str, images: tuple[str, str], is_same: bool
) -> None:
    image, observed = images
    result = plan_dump(
        build_workload(kind, build_template(image)),
        *print_pods(kind, [build_template(observed)] * 2),
    )
    assert {trigger for _, trigger in read_pod_changes(result).values()} == (
        set() if is_same else {"template_changed"}
    )


@pytest.mark.parametrize("name", ["mirror", "VPA", "mirror and VPA"])
def test_rollout_in_progress_keeps_its_rewritten_pods(name: str) -> None:
    """All pods of two revisions are rewritten; those with the current image stay."""
    there = print_pods(
        "Deployment", [rewrite(build_template("web:1.1"), cpu="750m"), build_template()]
    )
    there[0]["spec"]["containers"][0]["image"] = "mirror.local/web:1.1"
    there[0]["metadata"]["labels"]["pod-template-hash"] = "4c"
    there[0]["metadata"]["ownerReferences"][0]["name"] = "web-4c"
    there[1]["spec"] |= rewrite(build_template(), **REWRITES[name])
    result = plan_dump(build_workload("Deployment", build_template()), *there)
    assert read_pod_changes(result) == {"web-0": ("move", "template_changed")}


@pytest.mark.parametrize("has_live", [True, False], ids=["live", "pods only"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_sidecar_init_container_is_added_to_new_pods(kind: str, has_live: bool) -> None:
    """Pods of half a CPU have an injected sidecar of 5 CPUs.

    The third pod does not fit next to them.
    """
    spec = build_template()
    injected = deepcopy(spec)
    injected["initContainers"] = [
        {
            "name": "mesh",
            "image": "m:1",
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "5"}},
        }
    ]
    there = print_pods(kind, [injected] * 2)
    there[1]["spec"]["nodeName"] = "a-np-1"
    filler = print_pods("Job", [rewrite(spec, cpu="57")])
    filler[0]["metadata"] |= {"labels": {}, "name": "filler", "ownerReferences": []}
    filler[0]["spec"]["nodeName"] = "a-np-1"
    live = print_live(build_workload(kind, spec)) if has_live else ()
    result = plan_dump(build_workload(kind, spec, 3), *there, *filler, *live, build_webhook())
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}
    assert [
        row.target and row.target.node for row in result.plan.placements if row.object == "web-2"
    ] == [None]
