"""Short forms in which cases of Kubernetes' own tests are told: pods, nodes, what a rule says of them."""

from __future__ import annotations

import json
from typing import Any

from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.profile import can_preempt
from nexusform.domains.pods.scheduling.workloads import Cluster, ExistingPod, Node, PodSpec
from nexusform.scheduling.placement_decision import Rejection

HARD, SOFT = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


def labels_of(text: str) -> dict[str, str]:
    """`foo bar=a` as labels; those without a value have an empty one."""
    pairs = (word.partition("=") for word in text.split())
    return {key: value for key, _, value in pairs}


def pod_of(labels: str = "", namespace: str = "default", **spec: Any) -> PodSpec:
    """A pod as its manifest says, with one container that asks for nothing unless others are given."""
    metadata = {"name": "p", "namespace": namespace, "labels": labels_of(labels)}
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    reading = collect_workloads(parse_manifests("m.yaml", json.dumps(body)).manifests)
    (workload,) = reading.workloads
    assert not reading.findings, reading.findings
    return workload.pod


def requirement(text: str) -> dict[str, Any]:
    """`foo in a,b`, `foo not-in a`, `foo`, `!foo`, `foo > 4` as one requirement."""
    words = text.split()
    if len(words) == 1:
        return {"key": text.lstrip("!"), "operator": "DoesNotExist" if text[0] == "!" else "Exists"}
    operator = {"in": "In", "not-in": "NotIn", ">": "Gt", "<": "Lt"}[words[1]]
    return {"key": words[0], "operator": operator, "values": words[2].split(",")}


def selector(text: str) -> dict[str, Any]:
    """Requirements, joined by `and`, as a selector."""
    return {"matchExpressions": [requirement(part) for part in text.split(" and ") if part]}


def node(name: str, labels: str = "", **more: Any) -> Node:
    return Node(name, labels_of(labels), cpu=64_000, memory=1 << 40, **more)


def standing(pods: list[tuple[str, PodSpec]]) -> list[ExistingPod]:
    return [ExistingPod(f"default/Pod/x{at}", 0, where, spec) for at, (where, spec) in enumerate(pods)]


def said(
    rule: str, spec: PodSpec, nodes: list[Node], pods: list[tuple[str, PodSpec]], **more: Any
) -> dict[str, list[Rejection]]:
    """What one rule says against each node."""
    verdicts = evaluate_nodes(Cluster("k", tuple(nodes), **more), standing(pods), spec)
    return {each.node: [r for r in each.rejections if r.rule == rule] for each in verdicts}


def told(refusals: dict[str, list[Rejection]]) -> str:
    """`a !b !!c`: a is not refused, b is while pods stand where they do, c whoever leaves."""
    words = []
    for name, against in sorted(refusals.items()):
        mark = "".join("!" if can_preempt(each) else "!!" for each in against[:1])
        words.append(mark + name)
    return " ".join(words)
