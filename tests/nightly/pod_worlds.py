"""Random clusters with workloads, run against kube-scheduler to find wrong certain predictions."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from nexusform.domains.fleet.planning.fleet_phases import PlannedFleet, find_planned_fleet
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.scheduling.cluster_records import is_recreated
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from tests.domains.pods.importers import cluster_objects
from tests.nightly import comparison_record
from tests.nightly.comparison_record import DecisionRecord
from tests.nightly.live_cluster import (
    DEVICE_KINDS,
    Body,
    LiveCluster,
    build_priority_classes,
    has_ended,
)
from tests.planning.harness import plan, require_success

_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Of existing pods: new ones start later, not in the same second.
_START = "2026-01-01T00:00:00Z"
_CLASSES = {"low": -10, "high": 1000}
_MEMBER = """
resource "fleet_member_cluster" "m1" {
  resources {
    total = { cpu = "16" }
  }
}
data "kubernetes_nodes" "a" {
  files      = ["n.json"]
  cluster_id = "m1"
}
"""


class World(Struct):
    """Nodes, running pods, and workloads to create in order.

    `objects` and `earlier_workloads` exist before.
    """

    nodes: list[Body]
    pods: list[Body]
    workloads: list[Body]
    objects: list[Body] = []
    earlier_workloads: list[Body] = []


class Result(Struct):
    """Comparison of one world: pods by certainty, and the wrong ones with their texts.

    It also has the pods with the same node in all runs.
    """

    pods: int = 0
    certain: int = 0
    alike: int = 0
    certain_alike: int = 0
    wrong: list[str] = field(default_factory=list)
    records: list[DecisionRecord] = field(default_factory=list)


# --- worlds -------------------------------------------------------------------------------------


def build_world(seed: int) -> World:
    """Return a random world of 2 to 5 workloads."""
    draw = random.Random(seed)
    zones = draw.randint(1, 3)
    nodes = [build_node(draw, number, zones) for number in range(draw.randint(2, 6))]
    pods = [
        _build_pod(draw, f"old-{number}", draw.choice(nodes)["metadata"]["name"])
        for number in range(draw.randint(0, 5))
    ]
    workloads = [_build_workload(draw, name) for name in "abcde"[: draw.randint(2, 5)]]
    return World(nodes, pods, workloads)


def build_node(draw: random.Random, number: int, zones: int) -> Body:
    amounts = {
        "cpu": str(draw.choice((2, 4, 4, 8))),
        "memory": f"{draw.choice((4, 8, 16))}Gi",
        "pods": "110",
    }
    zone = {_ZONE: f"z{number % zones}", "disk": draw.choice(("ssd", "hdd"))}
    labels = {_HOST: f"n{number}", **cluster_objects.PLATFORM_LABELS, **zone}
    taints = (
        [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if draw.random() < 0.1 else []
    )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
            ],
            "nodeInfo": NODE_INFO,
        },
    }


NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
) | {"kubeletVersion": "v1.34.4"}


def _build_pod(draw: random.Random, name: str, node: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "old"}},
        "spec": {**_build_spec(draw, "old", is_plain=True), "nodeName": node},
        "status": {"phase": "Running", "startTime": _START},
    }


def _build_spec(draw: random.Random, app: str, *, is_plain: bool = False) -> Body:
    requests = {
        "cpu": f"{draw.choice((100, 250, 500, 1000, 1500, 2500))}m",
        "memory": f"{draw.choice((64, 512, 2048))}Mi",
    }
    resources = {"requests": requests} if draw.random() < 0.9 else {}
    spec: Body = {"containers": [{"name": "c", "image": "img:1", "resources": resources}]}
    if is_plain:
        return spec
    if draw.random() < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    if draw.random() < 0.15:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if draw.random() < 0.15:
        spec["priorityClassName"] = draw.choice(sorted(_CLASSES))
    term = {
        "labelSelector": {"matchLabels": {"app": app}},
        "topologyKey": draw.choice((_HOST, _HOST, _ZONE)),
    }
    kind = draw.random()
    if kind < 0.25:
        spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [term]}}
    elif kind < 0.4:
        rule = [{"weight": draw.choice((1, 50, 100)), "podAffinityTerm": term}]
        spec["affinity"] = {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rule}
        }
    elif kind < 0.5:
        other = {**term, "labelSelector": {"matchLabels": {"app": draw.choice("abcde")}}}
        spec["affinity"] = {
            draw.choice(("podAffinity", "podAntiAffinity")): {
                "requiredDuringSchedulingIgnoredDuringExecution": [other]
            }
        }
    elif kind < 0.65:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": draw.choice((_HOST, _ZONE)),
                "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    return spec


def _build_workload(draw: random.Random, name: str) -> Body:
    kind = draw.choice(
        ("Deployment", "Deployment", "Deployment", "StatefulSet", "DaemonSet", "Pod", "Job")
    )
    labels = {"app": name}
    spec = _build_spec(draw, name)
    metadata = {"name": name, "namespace": "default", "labels": labels}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": spec}
    replicas = draw.randint(1, 4)
    if kind == "Job":
        spec["restartPolicy"] = "Never"
        body: Body = {"parallelism": replicas, "completions": replicas, "template": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": body}
    body = {"selector": {"matchLabels": labels}, "template": template}
    if kind != "DaemonSet":
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body["serviceName"] = name
        body["podManagementPolicy"] = draw.choice(("OrderedReady", "Parallel"))
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


# --- runs ---------------------------------------------------------------------------------------


def run_world(cluster: LiveCluster, world: World) -> tuple[list[Body], dict[str, dict[str, str]]]:
    """Create a world on a cleared cluster.

    Return the objects before its workloads, and the nodes of their pods.
    """
    for body in (*world.objects, *world.nodes, *world.pods, *world.earlier_workloads):
        cluster.create(body)
    if world.earlier_workloads:
        cluster.wait_until_settled()
    cluster.wait_for_pods(world.pods)
    kinds = ("Namespace", "PriorityClass", "Node", "Pod", *(DEVICE_KINDS if world.objects else ()))
    before = [body for kind in kinds for body in cluster.list_all(kind)]
    for body in world.workloads:
        cluster.create(body)
    pods = cluster.wait_until_settled()
    cluster.clear()
    return before, collect_nodes(pods)


def collect_nodes(pods: Sequence[Body]) -> dict[str, dict[str, str]]:
    """Return the node of each pod ("" = none) by workload and name."""
    nodes: dict[str, dict[str, str]] = {}
    for pod in pods:
        if has_ended(pod):
            continue
        metadata = pod["metadata"]
        owners = metadata.get("ownerReferences") or [{"kind": "Pod", "name": metadata["name"]}]
        kind = owners[0]["kind"]
        name = owners[0]["name"]
        if kind == "ReplicaSet":
            kind = "Deployment"
            name = name.rpartition("-")[0]
        nodes.setdefault(f"default/{kind}/{name}", {})[metadata["name"]] = pod["spec"].get(
            "nodeName", ""
        )
    return nodes


def predict_world(
    before: Sequence[Body], workloads: Sequence[Body]
) -> dict[str, list[tuple[str, str, bool, str]]]:
    """Return name, node, certainty and doubt of each predicted pod by workload."""
    return _list_predictions(plan_fleet(before, workloads))


def _list_predictions(fleet: PlannedFleet) -> dict[str, list[tuple[str, str, bool, str]]]:
    pods: dict[str, list[tuple[str, str, bool, str]]] = {}
    for object_pods in fleet.pods._object_pods.values():
        for outcome in object_pods.list_all_outcomes():
            doubt = f"{outcome.doubt}: {outcome.alternative}"
            pods.setdefault(outcome.workload, []).append(
                (outcome.name, outcome.node, outcome.is_certain, doubt)
            )
    return pods


def plan_fleet(before: Sequence[Body], workloads: Sequence[Body]) -> PlannedFleet:
    """Return the planned pods of workloads on a cluster with these objects."""
    fleet = find_planned_fleet(plan_world(before, workloads))
    assert fleet is not None
    return fleet


def compare_plan(
    before: Sequence[Body], workloads: Sequence[Body], runs: Sequence[dict[str, dict[str, str]]]
) -> Result:
    """Plan a world, and compare its pods with those of all runs."""
    fleet = plan_fleet(before, workloads)
    result = compare_world(_list_predictions(fleet), runs)
    result.records = [] if result.wrong else list(comparison_record.list_records(fleet))
    return result


def plan_world(before: Sequence[Body], workloads: Sequence[Body]) -> PlanResult:
    """Return the plan of workloads on a cluster with these objects."""
    # Files without pods would count as an empty list of pods.
    reading = parse_kubectl_files(
        [
            (
                "n.json",
                cluster_objects.print_objects(
                    cluster_objects.DEFAULT_NAMESPACE,
                    *before,
                    cluster_objects.build_pod("setup", "", phase="Succeeded"),
                ),
            )
        ]
    )
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    text = "\n---\n".join(json.dumps(body) for body in workloads)
    block = (
        f'resource "fleet_hub_manifest" "m" {{\n  cluster_id = "m1"\n  yaml_body = <<-EOT\n'
        f"{text}\nEOT\n}}\n"
    )
    return require_success(plan(_MEMBER + block, data_overrides=(values,)))


def compare_world(predicted: dict[str, Any], runs: Sequence[dict[str, dict[str, str]]]) -> Result:
    """Compare the predicted pods with those of all runs."""
    result = Result()
    for key, pods in predicted.items():
        if "/StatefulSet/" in key or not is_recreated(key):
            for name, node, is_certain, _ in pods:
                real = [run.get(key, {}).get(name) for run in runs]
                is_alike = len(set(real)) == 1
                _add_counts(
                    result,
                    1,
                    int(is_certain),
                    int(is_alike),
                    int(is_certain and real[0] == node and is_alike),
                )
                if is_certain and any(each not in (node, None) for each in real):
                    result.wrong.append(
                        f"{key} {name}: certain on {node or 'no node'}, ran on {real}"
                    )
            continue
        counts = [Counter(run.get(key, {}).values()) for run in runs]
        certain = Counter(node for _, node, is_certain, _ in pods if is_certain)
        names = set().union(*counts) | certain.keys()
        alike = Counter({name: min(count[name] for count in counts) for name in names})
        _add_counts(result, len(pods), certain.total(), alike.total(), (certain & alike).total())
        if certain - alike:
            result.wrong.append(
                f"{key}: certain on {dict(certain)}, ran on {[dict(count) for count in counts]}"
            )
    return result


def _add_counts(result: Result, pods: int, certain: int, alike: int, certain_alike: int) -> None:
    result.pods += pods
    result.certain += certain
    result.alike += alike
    result.certain_alike += certain_alike


def run_worlds(
    cluster: LiveCluster, seeds: Iterator[int], version: str = "1.34.4", repetitions: int = 5
) -> Iterator[tuple[int, Result]]:
    """Yield the comparison of each world, on nodes with kubelets of a version."""
    existing = {body["metadata"]["name"] for body in cluster.list_all("PriorityClass")}
    for body in build_priority_classes(_CLASSES):
        if body["metadata"]["name"] not in existing:
            cluster.create(body)
    for seed in seeds:
        world = build_world(seed)
        for node in world.nodes:
            node["status"]["nodeInfo"] = {**NODE_INFO, "kubeletVersion": f"v{version}"}
        results = [run_world(cluster, world) for _ in range(repetitions)]
        runs = [nodes for _, nodes in results]
        yield seed, compare_plan(results[0][0], world.workloads, runs)
