"""Random clusters with volumes, drivers and features of nodes, decided by a real kube-scheduler.

Run: python -m tests.nightly.volume_worlds PROGRAMS WORLDS [SEED]. Without a seed, the recorded
worlds are continued. Prints each different decision, and after each world its decisions.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.planning.pod_phase import CheckablePrediction
from nexusform.domains.pods.scheduling.decision_kinds import Decision, list_decision_kinds
from nexusform.domains.program_checks.workflow import scheduler_check
from nexusform.domains.program_checks.workflow.loopback_programs import open_programs, read_version
from nexusform.planning.plan_request import ValueOverride
from tests.domains.pods.importers.cluster_objects import print_objects
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.nightly import comparison_record, pod_worlds
from tests.nightly.comparison_record import DecisionRecord
from tests.planning.harness import RACKS, build_state_after, plan, require_success

Body = dict[str, Any]
SOURCE = "volume_worlds"
_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
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
        more = {"ephemeral-storage": "5Gi", "example.com/gpu": str(draw.randint(0, 3))}
        node["status"]["allocatable"] |= more
        node["status"]["capacity"] |= more
    names = [node["metadata"]["name"] for node in nodes]
    storage = _build_storage(draw, names, has_prevention=minor >= 37)
    old = [
        pod_worlds._build_pod(draw, f"old-{number}", draw.choice(names))
        for number in range(draw.randint(0, 3))
    ]
    objects = [*_build_basics(), *nodes, *storage, *old]
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
    quiet = {**priority, "metadata": {"name": "quiet"}, "preemptionPolicy": "Never"}
    named = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "there", "namespace": "default"}}
        for kind in ("ConfigMap", "Secret")
    ]
    return [namespace, priority, quiet, _FINISHED, *named]


def _build_storage(draw: Random, nodes: list[str], *, has_prevention: bool) -> list[Body]:
    """Return volumes, classes, drivers, their nodes and their free storage.

    A local volume has one node, a wide one two or more. `has_prevention` means that this version
    has preventPodSchedulingIfMissing; others drop the field.
    """
    objects = [
        _build_storage_object("StorageClass", name, **_class("kubernetes.io/no-provisioner"))
        for name in ("local", "wide")
    ]
    objects.append(
        _build_storage_object("StorageClass", "now", provisioner="kubernetes.io/no-provisioner")
    )
    objects.append(_build_storage_object("StorageClass", "free", **_class("free.example.com")))
    attributes = {"driverName": _DRIVERS[0], "parameters": {"speed": "high"}}
    objects.append(_build_storage_object("VolumeAttributesClass", _ATTRIBUTES_CLASS, **attributes))
    number = 0
    for node in nodes:
        for _ in range(draw.randint(0, 3)):
            volume = _build_volume(f"l{number}", "local", [node], draw.choice(_SIZES))
            if draw.random() < 0.25:
                volume["spec"]["accessModes"] = ["ReadWriteOncePod"]
            objects.append(volume)
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
    storage_class = draw.choice(("local", "local", "wide", "net0", "net1", "now", "free"))
    has_attributes = storage_class == "net0" and draw.random() < 0.5
    return {
        "accessModes": [draw.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
        "storageClassName": storage_class,
        **({"volumeAttributesClassName": _ATTRIBUTES_CLASS} if has_attributes else {}),
        "resources": {"requests": {"storage": f"{draw.choice(_SIZES[:5])}Gi"}},
    }


def _build_workload(draw: Random, app: str, minor: int) -> tuple[Body, list[Body]]:
    """Return a workload, and the claims and volumes of a pod or Deployment.

    By default an API server up to 1.35 has no volumes of images, and no rules of restart.
    """
    requests = {"cpu": f"{draw.choice((100, 500, 1000))}m", "memory": "256Mi"}
    container: Body = {"name": "c", "image": "img:1", "resources": {"requests": requests}}
    labels = {"app": app}
    names = [f"{app}{number}" for number in range(draw.choice((0, 0, 1, 2)))]
    spec: Body = {"containers": [container]}
    kind = draw.choice(("StatefulSet", "Deployment", "Pod", "Pod"))
    if draw.random() < 0.7:
        draw.choice(_RULES)(draw, spec, app)
    metadata = {"name": app, "namespace": "default"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "replicas": draw.randint(1, 3),
        "selector": {"matchLabels": labels},
        "template": template,
    }
    apps = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}
    if kind == "StatefulSet":
        templates = [
            {"metadata": {"name": name}, "spec": _build_claim_spec(draw)} for name in names
        ]
        set_fields = {
            "serviceName": app,
            "podManagementPolicy": "Parallel",
            "volumeClaimTemplates": templates,
        }
        body |= set_fields
        return apps, []
    if minor >= 36 and draw.random() < 0.3 and kind == "Pod":
        container |= {"restartPolicy": "Never", "restartPolicyRules": [_RULE]}
    volumes = spec.setdefault("volumes", [])
    volumes += [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    if minor >= 36 and draw.random() < 0.3:
        volumes.append({"name": "data", "image": {"reference": _IMAGE_VOLUME}})
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    objects = [item for name in names for item in _build_claim(draw, name)]
    if kind == "Deployment":
        return apps, objects
    spec["restartPolicy"] = "Never"
    pod_metadata = {**metadata, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata, "spec": spec}, objects


def _build_claim(draw: Random, name: str) -> list[Body]:
    """Return a claim; a bound one with its volume, and sometimes none at all."""
    spec = _build_claim_spec(draw)
    form = draw.random()
    if form < 0.1:
        return []
    claim: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
        "status": {"phase": "Pending"},
    }
    if form > 0.35 or "volumeAttributesClassName" in spec:
        return [claim]
    nodes = draw.choice((["n0"], ["n0", "n1"], ["n1"]))
    volume = _build_volume(f"bound-{name}", spec["storageClassName"], nodes, 5)
    claim["metadata"]["uid"] = f"00000000-0000-4000-8000-{ord(name[0]):06d}{name[1:]:>06}"
    volume["spec"]["accessModes"] = spec["accessModes"]
    volume["spec"]["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": name,
        "namespace": "default",
        "uid": claim["metadata"]["uid"],
    }
    volume["status"] = {"phase": "Bound"}
    spec["volumeName"] = f"bound-{name}"
    spec["resources"]["requests"]["storage"] = "5Gi"
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["status"] = {"phase": "Bound", "accessModes": spec["accessModes"]}
    return [claim, volume]


def _add_node_rule(draw: Random, spec: Body, _: str) -> None:
    expression = {"key": "disk", "operator": draw.choice(("In", "NotIn")), "values": ["ssd"]}
    terms = [{"matchExpressions": [expression]}]
    match draw.randrange(3):
        case 0:
            spec["nodeSelector"] = {"disk": draw.choice(("ssd", "hdd"))}
        case 1:
            spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
        case _:
            rule = {"weight": draw.choice((1, 50, 100)), "preference": terms[0]}
            spec["affinity"] = {"nodeAffinity": {_PREFERRED: [rule]}}


def _add_pod_rule(draw: Random, spec: Body, app: str) -> None:
    term: Body = {
        "labelSelector": {"matchLabels": {"app": draw.choice((app, app, "a", "old"))}},
        "topologyKey": draw.choice((_HOST, _ZONE)),
    }
    if draw.random() < 0.3:
        label = {"kubernetes.io/metadata.name": draw.choice(("default", "other"))}
        term["namespaceSelector"] = {"matchLabels": label}
    kind = draw.choice(("podAffinity", "podAntiAffinity"))
    rules = draw.choice(
        (
            {_REQUIRED: [term]},
            {_PREFERRED: [{"weight": draw.choice((1, 100)), "podAffinityTerm": term}]},
        )
    )
    spec["affinity"] = {kind: rules}


def _add_spread(draw: Random, spec: Body, app: str) -> None:
    constraint: Body = {
        "maxSkew": draw.choice((1, 2)),
        "topologyKey": draw.choice((_HOST, _ZONE)),
        "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": app}},
    }
    if draw.random() < 0.4 and constraint["whenUnsatisfiable"] == "DoNotSchedule":
        constraint["minDomains"] = draw.randint(2, 4)
    if draw.random() < 0.4:
        constraint["nodeTaintsPolicy"] = "Honor"
        constraint["nodeAffinityPolicy"] = draw.choice(("Honor", "Ignore"))
        spec["nodeSelector"] = {"disk": "ssd"}
    spec["topologySpreadConstraints"] = [constraint]


def _add_plain_field(draw: Random, spec: Body, _: str) -> None:
    """Set one of the other fields that decide where a pod runs."""
    container = spec["containers"][0]
    match draw.randrange(8):
        case 7:
            source = draw.choice(("configMapRef", "secretRef"))
            container["envFrom"] = [{source: {"name": draw.choice(("there", "absent"))}}]
        case 0:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        case 1:
            container["ports"] = [{"containerPort": 80, "hostPort": draw.choice((80, 81))}]
        case 2:
            spec["priorityClassName"] = "high"
        case 3:
            spec["priorityClassName"] = "quiet"
        case 4:
            container["resources"]["requests"]["ephemeral-storage"] = "2Gi"
        case 5:
            amount = {"example.com/gpu": str(draw.randint(1, 2))}
            container["resources"]["requests"] |= amount
            container["resources"]["limits"] = amount
        case _:
            spec["resources"] = {"requests": {"cpu": "1500m", "memory": "1Gi"}}


def _add_disk(draw: Random, spec: Body, _: str) -> None:
    source = draw.choice(
        (
            {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a"}},
            {"rbd": {"monitors": ["m"], "image": "i"}},
        )
    )
    name = next(iter(source))
    more = {"lun": 0, "readOnly": draw.random() < 0.3} if name == "iscsi" else {}
    spec["volumes"] = [{"name": "disk", name: {**source[name], **more}}]


_RULES = (
    _add_node_rule,
    _add_pod_rule,
    _add_pod_rule,
    _add_spread,
    _add_spread,
    _add_plain_field,
    _add_plain_field,
    _add_disk,
)


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


def plan_node_removal(seed: int, version: str) -> list[CheckablePrediction]:
    """Plan workers of a cluster away, and return the predictions of their pods."""
    draw = Random(seed)
    minor_version = version.rpartition(".")[0]
    kinds: tuple[Body, ...] = (
        {"kind": "Deployment"},
        {"kind": "StatefulSet", "podManagementPolicy": "Parallel"},
    )
    workloads = [
        build_deployment(
            name, draw.randint(1, 3), cpu=str(draw.choice((1, 2, 3, 5))), **draw.choice(kinds)
        )
        for name in "abc"[: draw.randint(1, 3)]
    ]
    manifest = build_manifest("m", *workloads)
    arguments = f'kubernetes_version = "{minor_version}.0"\n'
    before, after = (
        RACKS + build_workers(count, arguments=arguments) + manifest for count in (4, 2)
    )
    state = build_state_after(require_success(plan(before)))
    fleet = find_planned_fleet(require_success(plan(after, state)))
    assert fleet is not None
    return list(fleet.pods.list_checkable_predictions())


def main(programs: str, count: int, seed: int | None = None) -> int:
    """Compare worlds; return the number of different decisions.

    Without a seed, continue the recorded worlds.
    """
    comparison_record.ignore_missing_comparisons()
    difference_count = 0
    version = read_version(Path(programs, scheduler_check.PROGRAM), "--version")
    first_seed = comparison_record.find_next_seed(SOURCE, version) if seed is None else seed
    with tempfile.TemporaryDirectory() as directory, open_programs(programs) as running:
        scheduler_check.start_scheduler(running, disabled_admission=scheduler_check.CHECK_ADMISSION)
        for number in range(first_seed, first_seed + count):
            check = scheduler_check.KubeSchedulerCheck(running, version, time.monotonic() + 600)
            records: list[DecisionRecord] = []
            for prediction in (
                *plan_world(number, version, Path(directory)),
                *plan_node_removal(number, version),
            ):
                check.check_prediction(prediction)
                records += list_records(check, prediction)
            check.close_cluster()
            for difference in check.differences:
                print(number, difference, flush=True)
            for pod, reason in check.incomplete_pods.items():
                print(number, "not sent whole", pod, reason, flush=True)
            difference_count += len(check.differences)
            certain = sum(is_certain for _, is_certain in records)
            print(number, f"{len(records)} decisions, {certain} certain", flush=True)
            if seed is None:
                comparison_record.add_world(SOURCE, version, [] if check.differences else records)
    return difference_count


def list_records(
    check: scheduler_check.KubeSchedulerCheck, prediction: CheckablePrediction
) -> list[DecisionRecord]:
    """Return the kinds of kube-scheduler that decide on each compared pod."""
    workloads = {workload.key: workload for workload in prediction.inputs.workloads}
    records = []
    for position, key in sorted(check.checked):
        if position != check.prediction_number:
            continue
        _, outcome = prediction.pods[key]
        decision = Decision(outcome, prediction.inputs.cluster, workloads.get(outcome.workload))
        names = (kind.name for kind in list_decision_kinds(decision) if not kind.has_controller)
        records.append((tuple(names), outcome.is_certain))
    return records


if __name__ == "__main__":
    first = int(sys.argv[3]) if sys.argv[3:] else None
    sys.exit(bool(main(sys.argv[1], int(sys.argv[2]), first)))
