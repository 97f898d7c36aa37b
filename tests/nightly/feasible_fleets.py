"""Random fleets with pods.

Members have dumped or derived nodes, and placements have small workloads.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from nexusform.domains.fleet.planning.fleet_phases import PlannedFleet, find_planned_fleet
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from nexusform.resources.address import AddressPattern
from tests.domains.fleet.workload_texts import MEMBER, PLACEMENT
from tests.domains.pods.importers import cluster_objects
from tests.nightly.live_cluster import Body
from tests.nightly.pod_worlds import NODE_INFO
from tests.planning.harness import plan, require_success

_HOST = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SITE = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "rack" {
  count         = RACKS
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.lab.id
  machine_count = 6
}
"""
_SMALL_POOL = """agent_pool "small" {
    count       = 1
    vm_sku_name = "NC_P4_28_v1"
  }"""
_DUMPED = """
resource "fleet_member_cluster" "NAME" {
  kubernetes_cluster_id = "NAME"
}
data "kubernetes_nodes" "NAME" {
  files      = ["NAME.json"]
  cluster_id = "NAME"
}
"""
_MANIFEST = """
resource "fleet_hub_manifest" "NAME" {
  yaml_body = <<-EOT
TEXT
EOT
}
"""


class Fleet(Struct):
    """Configuration of a fleet.

    `objects` are the nodes and pods of dumped members, `workloads` those of each placement.
    """

    text: str
    objects: dict[str, list[Body]]
    workloads: dict[str, list[Body]]

    def plan(self, *variables: str, **options: Any) -> PlanResult:
        """Return the plan of the fleet."""
        kind = "kubernetes_nodes"
        values = tuple(
            ValueOverride(
                AddressPattern((), "data", kind, name), kind, {"objects": _encode(objects)}
            )
            for name, objects in self.objects.items()
        )
        return require_success(
            plan(self.text, data_overrides=values, variables=variables, **options)
        )


def get_fleet(result: PlanResult) -> PlannedFleet:
    """Return the planned fleet of a plan."""
    fleet = find_planned_fleet(result)
    assert fleet is not None
    return fleet


def _encode(objects: Sequence[Body]) -> bytes:
    # Files without pods would count as an empty list of pods.
    setup = cluster_objects.build_pod("setup", "", phase="Succeeded")
    return parse_kubectl_files(
        [
            (
                "n.json",
                cluster_objects.print_objects(cluster_objects.DEFAULT_NAMESPACE, *objects, setup),
            )
        ]
    ).encode()


def build_fleet(seed: int) -> Fleet:
    """Return a random fleet of 2 to 4 members and 1 to 4 placements."""
    draw = random.Random(seed)
    members = ["west", "east", "south", "north"][: draw.randint(2, 4)]
    dumped = {name for name in members if draw.random() < 0.5}
    parts = [_SITE.replace("RACKS", str(draw.randint(2, 3)))]
    for name in members:
        text = (
            _DUMPED
            if name in dumped
            else MEMBER.replace("MORE", _SMALL_POOL).replace("COUNT", str(draw.randint(1, 2)))
        )
        parts.append(text.replace("NAME", name))
    workloads: dict[str, list[Body]] = {}
    for number in range(draw.randint(1, 4)):
        name = f"p{number}"
        workloads[name] = [
            _build_workload(draw, name, f"w{index}") for index in range(draw.choice((1, 1, 2)))
        ]
        text = "\n---\n".join(
            json.dumps(body) for body in (build_namespace(name), *workloads[name])
        )
        policy = _choose_policy(draw, members)
        parts.append(
            (_MANIFEST + PLACEMENT)
            .replace("NAME", name)
            .replace("TEXT", text)
            .replace("POLICY", policy)
        )
    objects = {name: _build_objects(draw) for name in members if name in dumped}
    return Fleet("".join(parts), objects, workloads)


def build_namespace(name: str) -> Body:
    """Build a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _choose_policy(draw: random.Random, members: Sequence[str]) -> str:
    kind = draw.random()
    if kind < 0.3:
        return 'placement_type = "PickAll"'
    if kind < 0.6:
        return f'placement_type     = "PickN"\n    number_of_clusters = {draw.randint(1, 2)}'
    names = ", ".join(f'"{name}"' for name in draw.sample(members, draw.randint(1, 2)))
    return f'placement_type = "PickFixed"\n    cluster_names  = [{names}]'


def _build_objects(draw: random.Random) -> list[Body]:
    """Return the nodes of a member in two pools, and pods running on them."""
    nodes = [_build_node(draw, number) for number in range(draw.randint(2, 4))]
    pods = [
        _build_pod(draw, number, draw.choice(nodes)["metadata"]["name"])
        for number in range(draw.choice((0, 0, 1, 2)))
    ]
    return [*nodes, *pods]


def _build_node(draw: random.Random, number: int) -> Body:
    pool = number % 2
    amounts = {"cpu": str((4, 8)[pool]), "memory": "32Gi", "pods": "110"}
    labels = {_HOST: f"n{number}", "agentpool": f"pool{pool}", "disk": ("hdd", "ssd")[pool]}
    taints = (
        [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        if pool and draw.random() < 0.3
        else []
    )
    return build_node(f"n{number}", labels, taints, amounts)


def build_node(
    name: str, labels: dict[str, str], taints: list[Body], amounts: dict[str, str]
) -> Body:
    """Build a ready node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**cluster_objects.PLATFORM_LABELS, **labels}},
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


def _build_pod(draw: random.Random, number: int, node: str) -> Body:
    resources = {"requests": {"cpu": f"{draw.choice((500, 1000))}m", "memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"old-{number}", "namespace": "default", "labels": {"app": "old"}},
        "spec": {
            "containers": [{"name": "c", "image": "img:1", "resources": resources}],
            "nodeName": node,
        },
        "status": {"phase": "Running"},
    }


def _build_workload(draw: random.Random, namespace: str, name: str) -> Body:
    labels = {"app": name}
    requests = {
        "cpu": f"{draw.choice((500, 1000, 2000, 2000, 3000, 5000))}m",
        "memory": f"{draw.choice((1, 2, 8))}Gi",
    }
    spec: Body = {
        "containers": [{"name": "c", "image": "img:1", "resources": {"requests": requests}}]
    }
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": _HOST}
    kind = draw.random()
    if kind < 0.15:
        spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [term]}}
    elif kind < 0.25:
        spec["topologySpreadConstraints"] = [
            {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ]
    elif kind < 0.45:
        spec["nodeSelector"] = {"disk": draw.choice(("hdd", "ssd"))}
    if draw.random() < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    template = {"metadata": {"labels": labels}, "spec": spec}
    body: Body = {
        "replicas": draw.randint(0, 8),
        "selector": {"matchLabels": labels},
        "template": template,
    }
    workload = draw.choice(("Deployment", "Deployment", "StatefulSet", "ReplicaSet"))
    if workload == "StatefulSet":
        body |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": workload, "metadata": metadata, "spec": body}
