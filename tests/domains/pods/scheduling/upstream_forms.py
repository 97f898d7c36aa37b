"""Short forms of pods, nodes and rule verdicts for upstream Kubernetes test cases."""

from __future__ import annotations

import json
from typing import Any

from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.cluster_records import Cluster, ExistingPod, Node, PodSpec
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.profile import can_preempt
from nexusform.scheduling.placement_decision import Rejection

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def parse_labels(text: str) -> dict[str, str]:
    """Parse `foo bar=a` as labels; labels without a value get an empty one."""
    pairs = (word.partition("=") for word in text.split())
    return {key: value for key, _, value in pairs}


def build_pod_spec(labels: str = "", namespace: str = "default", **spec: Any) -> PodSpec:
    """Parse a pod from its manifest, by default with one container without requests."""
    metadata = {"name": "p", "namespace": namespace, "labels": parse_labels(labels)}
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    reading = collect_workloads(parse_manifests("m.yaml", json.dumps(body)).manifests)
    (workload,) = reading.workloads
    assert not reading.findings, reading.findings
    return workload.pod


def parse_requirement(text: str) -> dict[str, Any]:
    """Parse `foo in a,b`, `foo not-in a`, `foo`, `!foo`, `foo > 4` as one requirement."""
    words = text.split()
    if len(words) == 1:
        return {"key": text.lstrip("!"), "operator": "DoesNotExist" if text[0] == "!" else "Exists"}
    operator = {"in": "In", "not-in": "NotIn", ">": "Gt", "<": "Lt"}[words[1]]
    return {"key": words[0], "operator": operator, "values": words[2].split(",")}


def parse_selector(text: str) -> dict[str, Any]:
    """Parse requirements joined by `and` as a selector."""
    return {"matchExpressions": [parse_requirement(part) for part in text.split(" and ") if part]}


def build_node(name: str, labels: str = "", **more: Any) -> Node:
    return Node(name, parse_labels(labels), cpu=64_000, memory=1 << 40, **more)


def build_existing_pods(pods: list[tuple[str, PodSpec]]) -> list[ExistingPod]:
    return [
        ExistingPod(f"default/Pod/x{at}", 0, where, spec) for at, (where, spec) in enumerate(pods)
    ]


def evaluate_rule(
    rule: str, spec: PodSpec, nodes: list[Node], pods: list[tuple[str, PodSpec]], **more: Any
) -> dict[str, list[Rejection]]:
    """Return the rejections of each node by one rule."""
    verdicts = evaluate_nodes(Cluster("k", tuple(nodes), **more), build_existing_pods(pods), spec)
    return {each.node: [r for r in each.rejections if r.rule == rule] for each in verdicts}


def format_rejections(refusals: dict[str, list[Rejection]]) -> str:
    """Return a summary such as `a !b !!c`.

    A is feasible, b is rejected because of existing pods, c regardless of pods.
    """
    words = []
    for name, against in sorted(refusals.items()):
        mark = "".join("!" if can_preempt(each) else "!!" for each in against[:1])
        words.append(mark + name)
    return " ".join(words)
