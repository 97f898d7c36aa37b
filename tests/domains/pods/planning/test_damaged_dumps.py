"""Tests of ten dumps, each damaged in several ways.

A certain pod has the same node as in the undamaged dump.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.planning.plan_request import ValueOverride
from tests.domains.pods.importers.cluster_objects import (
    build_namespace,
    build_node,
    build_pod,
    print_objects,
)
from tests.domains.pods.planning.test_cluster_observation import OF_A
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.kill_points import select_cases
from tests.planning.harness import RACKS, plan, require_success

pytestmark = pytest.mark.of_domains("fleet")
Body = dict[str, Any]
Dump = list[Body]
NOW = "2026-01-01T00:00:00Z"
OLD = "2025-12-31T20:00:00Z"
NAMES: Final = [f"a-np-{index}" for index in range(4)]


def build_dump(seed: int) -> Dump:
    """Return four nodes with pods of others, a webhook, a quota, and sometimes an autoscaler."""
    draw = random.Random(seed)
    dump: Dump = [
        build_namespace("default"),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 10,
        },
    ]
    for name, cpu in zip(NAMES, draw.sample(("4", "6", "7", "24"), 4), strict=True):
        body = build_node(name, cpu)
        body["status"]["conditions"] = [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}
        ]
        dump.append(body)
    dump += [build_namespace("kube-system"), *build_system_pods()]
    for index in range(draw.randint(2, 6)):
        labels = {"app": "old"}
        dump.append(
            build_pod(
                f"old-{index}", draw.choice(NAMES), str(draw.choice((1, 2, 3))), labels=labels
            )
        )
    quota = {"hard": {"requests.cpu": str(draw.choice((40, 100)))}}
    requests = [
        body["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        for body in dump
        if body["kind"] == "Pod" and body["metadata"]["namespace"] == "default"
    ]
    used = {"requests.cpu": str(sum(map(int, requests)))}
    dump.append(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": quota,
            "status": {**quota, "used": used},
        }
    )
    return dump


def build_system_pods() -> Dump:
    """Return the pods of kube-system, one on each node."""
    pods = [build_pod(f"proxy-{name}", name, "100m") for name in NAMES]
    return [{**pod, "metadata": {**pod["metadata"], "namespace": "kube-system"}} for pod in pods]


def select_namespace(dump: Dump, _: random.Random) -> Dump:
    """Return the dump with the pods of one namespace only: `kubectl get pods -n default`."""
    return [
        body for body in dump if body["kind"] != "Pod" or body["metadata"]["namespace"] == "default"
    ]


def remove_node(dump: Dump, draw: random.Random) -> Dump:
    """Return the dump without a node that runs pods."""
    name = draw.choice(NAMES)
    return [body for body in dump if body["kind"] != "Node" or body["metadata"]["name"] != name]


def remove_kind(kind: str) -> Callable[[Dump, random.Random], Dump]:
    return lambda dump, _: [body for body in dump if body["kind"] != kind]


def age_dump(dump: Dump, _: random.Random) -> Dump:
    text = json.dumps(dump).replace(NOW, OLD)
    result: Dump = json.loads(text)
    return result


def change_node(dump: Dump, draw: random.Random, condition: Mapping[str, str]) -> Dump:
    damaged: Dump = json.loads(json.dumps(dump))
    body = draw.choice([body for body in damaged if body["kind"] == "Node"])
    body["status"]["conditions"][0].update(condition)
    return damaged


def add_old_copy(dump: Dump, draw: random.Random) -> Dump:
    """Add an older copy of a node, with other resources."""
    body = json.loads(json.dumps(draw.choice([body for body in dump if body["kind"] == "Node"])))
    body["status"]["allocatable"] = {**body["status"]["allocatable"], "cpu": "1"}
    return [*dump, body]


def add_pod(dump: Dump, draw: random.Random, **fields: Any) -> Dump:
    return [*dump, build_pod("new", fields.pop("on", draw.choice(NAMES)), "3", **fields)]


# Kinds without a file in the directory
UNREAD: Final[Mapping[str, list[str]]] = {
    "unread quotas": ["ResourceQuota"],
    "unread webhooks": ["MutatingWebhookConfiguration"],
}
DAMAGES: Final[Mapping[str, Callable[[Dump, random.Random], Dump]]] = {
    "no pods": remove_kind("Pod"),
    "pods of one namespace": select_namespace,
    "a node is missing": remove_node,
    "old": age_dump,
    "unread quotas": remove_kind("ResourceQuota"),
    "unread webhooks": lambda dump, _: dump,
    "a node is not ready": lambda dump, draw: change_node(dump, draw, {"status": "Unknown"}),
    "objects listed twice": add_old_copy,
    "a terminating pod": lambda dump, draw: add_pod(dump, draw, terminating=True),
    "a Pending pod": lambda dump, draw: add_pod(dump, draw, on="", phase="Pending"),
    "an autoscaler": lambda dump, draw: add_pod(
        dump, draw, owner=("Deployment", "cluster-autoscaler")
    ),
    "a descheduler": lambda dump, draw: add_pod(dump, draw, owner=("Deployment", "descheduler")),
}
# These are facts of the cluster, not gaps of the files: a certain pod may have another
# node with them.
FACTS: Final = ("an autoscaler", "a Pending pod", "a terminating pod")


def predict_pods(dump: Dump, unread_kinds: list[str]) -> dict[str, tuple[str | None, bool]]:
    """Return node and certainty of each pod."""
    reading = parse_kubectl_files([("n.json", print_objects(*dump))])
    reading.unread_kinds = list(unread_kinds)
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    text = (
        RACKS + build_workers(4) + OF_A + build_manifest("m", build_deployment("web", 1, cpu="8"))
    )
    result = require_success(plan(text, data_overrides=(values,)))
    rows = [row for row in result.plan.placements if row.kind == "pod" and "certain" in row.scores]
    return {
        row.object: (row.target.node if row.target else None, bool(row.scores["certain"]))
        for row in rows
    }


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", select_cases(range(10)))
def test_no_certain_pod_depends_on_missing_data(seed: int, damage: str) -> None:
    dump = build_dump(seed)
    whole = predict_pods(dump, [])
    assert any(is_certain for _, is_certain in whole.values())
    damaged = predict_pods(DAMAGES[damage](dump, random.Random(seed)), UNREAD.get(damage, []))
    wrong = {
        name: (node, whole.get(name))
        for name, (node, is_certain) in damaged.items()
        if is_certain and whole.get(name, ("", False))[0] != node
    }
    assert damage in FACTS or not wrong
    if damage in (
        "no pods",
        "pods of one namespace",
        "a node is missing",
        "old",
        "unread quotas",
        "unread webhooks",
        "objects listed twice",
        "a descheduler",
    ):
        assert not any(is_certain for _, is_certain in damaged.values())
