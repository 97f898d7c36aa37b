"""Random clusters with volumes, drivers and features of nodes, decided by a real kube-scheduler.

Run: python -m tests.nightly.volume_worlds PROGRAMS WORLDS [FIRST_SEED]. Each seed is a world of its
own, so a run continues at any seed. Prints each different decision, and after each world its seed,
the number of differences, and the certain and compared decisions by kind of object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from nexusform.domains.conformance.workflow import scheduler_check
from nexusform.domains.conformance.workflow.loopback_programs import open_programs, read_version
from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.planning.pod_phase import CheckablePrediction
from nexusform.planning.plan_request import ValueOverride
from nexusform.plans.plan_checks import DecisionDifference
from tests.domains.pods.importers.cluster_objects import print_objects
from tests.domains.pods.planning.test_pods import build_manifest
from tests.nightly import pod_worlds
from tests.planning.harness import plan, require_success

Body = dict[str, Any]
_HOST = "kubernetes.io/hostname"
_DRIVERS = ("one.example.com", "two.example.com")
_FEATURE = "RestartAllContainersOnContainerExits"
_RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
_IMAGE_VOLUME = "data:1"
_ATTRIBUTES_CLASS = "gold"
_SIZES = (1, 2, 5, 8, 20, 50, 100)
_MEMBER = (
    'resource "fleet_member_cluster" "m1" {\n  resources {\n    total = { cpu = "16" }\n  }\n}\n'
)
_DATA = 'data "kubernetes_nodes" "a" {\n  files      = ["n.json"]\n  cluster_id = "m1"\n}\n'
_FINISHED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "finished", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Succeeded"},
}


def build_world(seed: int, version: str) -> tuple[list[Body], list[Body]]:
    """Return the objects of a random cluster, and one to three workloads."""
    draw = Random(seed)
    minor = int(version.split(".")[1])
    nodes = [pod_worlds.build_node(draw, number, 3) for number in range(draw.randint(2, 6))]
    for node in nodes:
        node["status"]["nodeInfo"] = {**pod_worlds.NODE_INFO, "kubeletVersion": f"v{version}"}
        node["status"]["images"] = [{"names": ["img:1"], "sizeBytes": 1000}]
        if draw.random() < 0.4:
            node["status"]["images"].append({"names": [_IMAGE_VOLUME], "sizeBytes": 700_000_000})
        if draw.random() < 0.6 and minor >= 36:
            node["status"]["declaredFeatures"] = [_FEATURE]
    names = [node["metadata"]["name"] for node in nodes]
    storage = _build_storage(draw, names, has_prevention=minor >= 37)
    objects = [*_build_basics(), *nodes, *storage]
    workloads = []
    for app in "abc"[: draw.randint(1, 3)]:
        workload, claims = _build_workload(draw, app, minor)
        workloads.append(workload)
        objects += claims
    return objects, workloads


def _build_basics() -> list[Body]:
    """Return the objects of every cluster, and a finished pod."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    return [namespace, priority, _FINISHED]


def _build_storage(draw: Random, nodes: list[str], *, has_prevention: bool) -> list[Body]:
    """Return volumes, classes, drivers, their nodes and their free storage.

    A local volume has one node, a wide one two or more.

    `has_prevention`: this version has preventPodSchedulingIfMissing; others drop the field.
    """
    objects = [
        _build_storage_object("StorageClass", name, **_class("kubernetes.io/no-provisioner"))
        for name in ("local", "wide")
    ]
    attributes = {"driverName": _DRIVERS[0], "parameters": {"speed": "high"}}
    objects.append(_build_storage_object("VolumeAttributesClass", _ATTRIBUTES_CLASS, **attributes))
    number = 0
    for node in nodes:
        for _ in range(draw.randint(0, 3)):
            objects.append(_build_volume(f"l{number}", "local", [node], draw.choice(_SIZES)))
            number += 1
    for number in range(draw.randint(0, 3)):
        reached = draw.sample(nodes, draw.randint(2, len(nodes)))
        objects.append(_build_volume(f"w{number}", "wide", reached, draw.choice(_SIZES)))
    for position, driver in enumerate(_DRIVERS):
        name = f"net{position}"
        objects.append(_build_storage_object("StorageClass", name, **_class(driver)))
        is_checked = draw.random() < 0.6
        spec: Body = {"storageCapacity": is_checked}
        if draw.random() < 0.5 and has_prevention:
            spec["preventPodSchedulingIfMissing"] = True
        objects.append(_build_storage_object("CSIDriver", driver, spec=spec))
        objects += [
            _build_storage_object(
                "CSIStorageCapacity",
                f"{name}-{node}",
                namespace="default",
                storageClassName=name,
                nodeTopology={"matchLabels": {_HOST: node}},
                capacity=f"{draw.choice(_SIZES)}Gi",
            )
            for node in nodes
            if is_checked and draw.random() < 0.8
        ]
    for node in nodes:
        drivers = []
        for driver in _DRIVERS:
            if draw.random() < 0.8:
                limit = (
                    {"allocatable": {"count": draw.randint(0, 3)}} if draw.random() < 0.3 else {}
                )
                drivers.append({"name": driver, "nodeID": node, "topologyKeys": None, **limit})
        objects.append(_build_storage_object("CSINode", node, spec={"drivers": drivers}))
    return objects


def _class(provisioner: str) -> Body:
    return {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def _build_storage_object(kind: str, name: str, *, namespace: str = "", **more: Any) -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": metadata, **more}


def _build_volume(name: str, storage_class: str, nodes: list[str], size: int) -> Body:
    term = {"matchExpressions": [{"key": _HOST, "operator": "In", "values": nodes}]}
    spec = {
        "capacity": {"storage": f"{size}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    metadata = {"name": name}
    status = {"phase": "Available"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _build_claim_spec(draw: Random) -> Body:
    storage_class = draw.choice(("local", "local", "wide", "net0", "net1"))
    has_attributes = storage_class == "net0" and draw.random() < 0.5
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        **({"volumeAttributesClassName": _ATTRIBUTES_CLASS} if has_attributes else {}),
        "resources": {"requests": {"storage": f"{draw.choice(_SIZES[:5])}Gi"}},
    }


def _build_workload(draw: Random, app: str, minor: int) -> tuple[Body, list[Body]]:
    """Return a workload, and the claims of a bare pod.

    By default an API server up to 1.35 has no volumes of images, and no rules of restart.
    """
    requests = {"cpu": f"{draw.choice((100, 500, 1000))}m", "memory": "256Mi"}
    container: Body = {"name": "c", "image": "img:1", "resources": {"requests": requests}}
    labels = {"app": app}
    names = [f"{app}{number}" for number in range(draw.randint(0, 3))]
    if draw.random() < 0.4:
        templates = [
            {"metadata": {"name": name}, "spec": _build_claim_spec(draw)} for name in names
        ]
        body = {
            "serviceName": app,
            "replicas": draw.randint(1, 3),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": templates,
        }
        metadata = {"name": app, "namespace": "default"}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": body,
        }, []
    spec: Body = {"containers": [container], "restartPolicy": "Never"}
    if minor >= 36 and draw.random() < 0.3:
        container |= {"restartPolicy": "Never", "restartPolicyRules": [_RULE]}
    spec["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names
    ]
    if minor >= 36 and draw.random() < 0.3:
        spec["volumes"].append({"name": "data", "image": {"reference": _IMAGE_VOLUME}})
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claims = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": _build_claim_spec(draw),
            "status": {"phase": "Pending"},
        }
        for name in names
    ]
    metadata = {"name": app, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, claims


def plan_world(seed: int, version: str, directory: Path) -> list[CheckablePrediction]:
    """Plan the workloads of a world, and return the predictions."""
    objects, workloads = build_world(seed, version)
    path = directory / "n.json"
    path.write_bytes(print_objects(*objects))
    reading = parse_kubectl_files([(str(path), path.read_bytes())])
    attributes = {"objects": reading.encode(), "files": [str(path)]}
    values = ValueOverride(None, "kubernetes_nodes", attributes)
    text = _MEMBER + _DATA + build_manifest("m", *map(json.dumps, workloads), of='"m1"')
    result = require_success(plan(text, data_overrides=(values,)))
    fleet = find_planned_fleet(result)
    assert fleet is not None
    return list(fleet.pods.list_checkable_predictions())


def list_kinds(prediction: CheckablePrediction, key: tuple[str, int]) -> list[str]:
    """Return the kinds of objects that decide on a pod."""
    _, outcome = prediction.pods[key]
    kinds = {claim.storage_class for claim in outcome.spec.claims}
    kinds |= {"features"} if outcome.spec.required_features else set()
    kinds |= {"image volume"} if outcome.spec.image_volumes else set()
    if any(claim.attributes_class for claim in outcome.spec.claims):
        kinds.add("VolumeAttributesClass")
    return sorted(kinds) or ["none"]


def main(programs: str, count: int, first_seed: int) -> int:
    """Compare worlds; return the number of different decisions."""
    compared: Counter[str] = Counter()
    certain: Counter[str] = Counter()
    differences: list[DecisionDifference] = []
    version = read_version(Path(programs, scheduler_check.PROGRAM), "--version")
    with tempfile.TemporaryDirectory() as directory, open_programs(programs) as running:
        scheduler_check.start_scheduler(running, disabled_admission=scheduler_check.CHECK_ADMISSION)
        for seed in range(first_seed, first_seed + count):
            check = scheduler_check.KubeSchedulerCheck(running, version, time.monotonic() + 600)
            for prediction in plan_world(seed, version, Path(directory)):
                check.check_prediction(prediction)
                for _, key in check.checked:
                    for kind in list_kinds(prediction, key):
                        compared[kind] += 1
                        certain[kind] += prediction.pods[key][1].is_certain
            check.close_cluster()
            for difference in check.differences:
                print(seed, difference, flush=True)
            for pod, reason in check.incomplete_pods.items():
                print(seed, "not sent whole", pod, reason, flush=True)
            differences += check.differences
            figures = [f"{kind} {certain[kind]}/{compared[kind]}" for kind in sorted(compared)]
            print(seed, len(differences), *figures, flush=True)
    return len(differences)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1], int(sys.argv[2]), int((*sys.argv[3:], "0")[0]))))
