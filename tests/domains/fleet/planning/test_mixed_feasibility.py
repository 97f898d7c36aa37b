"""Tests of feasibility if nodes of one pool are not enough: a mix of pools, or `unknown`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.domains.pods.scheduling import assumptions
from nexusform.plans.plan import Feasibility, FeasibilityResult
from tests.nightly.feasible_fleets import Fleet, build_namespace, build_node
from tests.nightly.live_cluster import Body

CONFIGURATION = """
resource "fleet_member_cluster" "west" {
  kubernetes_cluster_id = "west"
}
data "kubernetes_nodes" "west" {
  files      = ["west.json"]
  cluster_id = "west"
}
resource "fleet_hub_manifest" "p" {
  yaml_body = <<-EOT
TEXT
EOT
}
resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "p"
  }
  policy {
    placement_type = "PickAll"
  }
  depends_on = [fleet_hub_manifest.p]
}
"""
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def make_node(name: str, pool: str, cpu: int, **labels: str) -> Body:
    amounts = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}
    return build_node(name, {HOST: name, "agentpool": pool, **labels}, [], amounts)


def make_deployment(name: str, replicas: int, cpu: int, **spec: Any) -> Body:
    labels = {"app": name}
    container = {"name": "c", "image": "img:1", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": "p", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": body}


def compute_feasibility(
    nodes: list[Body], *workloads: Body, pods: tuple[Body, ...] = ()
) -> Feasibility:
    text = "\n---\n".join(json.dumps(body) for body in (build_namespace("p"), *workloads))
    fleet = Fleet(
        CONFIGURATION.replace("TEXT", text), {"west": [*nodes, *pods]}, {"p": list(workloads)}
    )
    (row,) = fleet.plan().plan.workloads.feasibility
    return row


def test_mix_of_pools_has_fewest_nodes_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assumptions, "_MOST_SAMPLES", assumptions._FEWEST_SAMPLES)
    nodes = [make_node("a", "blue", 4), make_node("b", "red", 8)]
    workloads = [
        make_deployment("w0", 6, 2, nodeSelector={"agentpool": "blue"}),
        make_deployment("w1", 5, 5, nodeSelector={"agentpool": "red"}),
    ]
    row = compute_feasibility(nodes, *workloads)
    assert row.result is FeasibilityResult.RUNS_AFTER
    assert (row.missing_by_pool, row.missing_nodes, row.pool) == ({"blue": 2, "red": 4}, 6, "")
    enough = [make_node(f"a{number}", "blue", 4) for number in range(3)]
    enough += [make_node(f"b{number}", "red", 8) for number in range(5)]
    assert compute_feasibility(enough, *workloads).result is FeasibilityResult.RUNS
    for fewer in (enough[1:], enough[:-1]):
        assert compute_feasibility(fewer, *workloads).result is FeasibilityResult.RUNS_AFTER


def test_insufficient_tested_node_counts_are_unknown() -> None:
    nodes = [make_node("a", "blue", 4, zone="1"), make_node("b", "blue", 4, zone="2")]
    row = compute_feasibility(nodes, make_deployment("w0", 6, 2, nodeSelector={"zone": "2"}))
    assert (row.result, row.replicas_max, row.missing_nodes) == (FeasibilityResult.UNKNOWN, 2, None)
    assert row.reason.startswith("not enough: up to 6 more nodes per pool; 0/2 nodes are available")
    assert not row.is_certain
    assert row.is_waiting


def test_pool_without_ready_nodes_gets_ready_ones() -> None:
    node = make_node("a", "blue", 4)
    node["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }
    row = compute_feasibility([node], make_deployment("w0", 3, 2))
    assert (row.result, row.missing_nodes, row.pool) == (FeasibilityResult.RUNS_AFTER, 2, "blue")


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "nvme"}},
        {
            "affinity": {
                "podAffinity": {
                    REQUIRED: [
                        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}
                    ]
                }
            }
        },
        {"schedulingGates": [{"name": "wait"}]},
    ],
)
def test_pods_without_a_fitting_pool_cannot_run(spec: dict[str, Any]) -> None:
    nodes = [make_node("a", "blue", 4), make_node("b", "red", 8)]
    row = compute_feasibility(
        nodes, make_deployment("w0", 2, 2), make_deployment("w1", 1, 1, **spec)
    )
    assert row.result is FeasibilityResult.CANNOT_RUN


def test_maximum_count_with_ties_of_other_pods_is_not_certain() -> None:
    nodes = [make_node("a", "blue", 4), make_node("b", "blue", 4, disk="ssd")]
    idle = make_deployment("w0", 0, 2, nodeSelector={"disk": "ssd"})
    assert compute_feasibility(nodes, idle).is_certain
    text = "\n---\n".join(json.dumps(body) for body in (build_namespace("p"), idle))
    other = "\n---\n".join(
        json.dumps(body).replace('"p"', '"q"')
        for body in (build_namespace("p"), make_deployment("w1", 1, 2))
    )
    block = CONFIGURATION.replace("TEXT", text)
    second = CONFIGURATION[CONFIGURATION.index('resource "fleet_hub_manifest"') :].replace(
        "TEXT", other
    )
    second = second.replace('"p"', '"q"').replace("manifest.p", "manifest.q")
    fleet = Fleet(block + second, {"west": nodes}, {"p": [idle]})
    rows = {row.placement.name: row for row in fleet.plan().plan.workloads.feasibility}
    assert (rows["p"].result, rows["p"].is_certain) == (FeasibilityResult.RUNS, False)
