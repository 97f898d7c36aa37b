"""Drains evict the pods of placements, planned and existing, for members of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.pods.importers import cluster_objects

CONFIGURATION = """
resource "fleet_member_cluster" "k0" {
  MEMBER
}
data "kubernetes_nodes" "k0" {
  files      = ["k0.json"]
  cluster_id = "CLUSTER"
}
resource "fleet_hub_manifest" "h" {
  yaml_body = file("hub.yaml")
}
resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type = "PickAll"
  }
}
"""
LABELS = {"app": "a"}
# Members without a cluster of their own: with a name alone, and with figures.
MEMBERS = {
    "name": ('name = "k0"', "k0"),
    "figures": ('resources {\n    total = { cpu = "12" }\n  }', "k0"),
}


def build_objects(minimum: int) -> list[dict[str, Any]]:
    """Return two pods that fill a node each, and a budget with this minAvailable."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    metadata = {"name": "a", "namespace": "web"}
    selector = {"matchLabels": LABELS}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": 2, "selector": selector, "template": template},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"minAvailable": minimum, "selector": selector},
        },
    ]


@pytest.fixture
def write_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes a project with one member of three nodes."""
    monkeypatch.chdir(tmp_path)

    def write_files(member: str, cluster: str, minimum: int = 1) -> None:
        text = CONFIGURATION.replace("MEMBER", member).replace("CLUSTER", cluster)
        Path("main.nf.hcl").write_text(text)
        Path("hub.yaml").write_text("\n---\n".join(map(json.dumps, build_objects(minimum))))
        nodes = [cluster_objects.build_node(f"n{number}", "4") for number in range(3)]
        proxy = cluster_objects.build_pod("proxy", "n2", "0", owner=("DaemonSet", "proxy"))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        Path("k0.json").write_bytes(cluster_objects.print_objects(*nodes, proxy, namespace))

    return write_files


def drain_each_node(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    """Return the evicted pods and the blocking budgets of the drain of each node."""
    drains: dict[str, Any] = {}
    for node in ("n0", "n1", "n2"):
        run_command_line(["simulate", "failure", f"-node={node}", "-format=json", *flags])
        document = json.loads(capsys.readouterr().out)
        rows = {section["name"]: section["tables"][0]["rows"] for section in document["sections"]}
        moves = rows.get("pods", ())
        budgets = [row["poddisruptionbudget"] for row in rows.get("blocking_budgets", ())]
        drains[node] = (sorted(move["pod"] for move in moves), budgets)
    return drains


@pytest.mark.parametrize(("member", "cluster"), MEMBERS.values(), ids=MEMBERS)
def test_drain_evicts_planned_and_applied_pods_of_a_placement(
    member: str, cluster: str, write_project: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(member, cluster)
    assert run_command_line(["plan", "-out=p.plan"]) == 0
    capsys.readouterr()
    planned = drain_each_node(capsys, "-plan=p.plan")
    pods = sorted(pod for names, _ in planned.values() for pod in names)
    assert pods == ["a-0", "a-1"]
    assert all(budgets == [] for _, budgets in planned.values())
    assert run_command_line(["apply", "p.plan"]) == 0
    capsys.readouterr()
    assert drain_each_node(capsys) == planned


def test_budget_blocks_the_drain_of_a_placement(
    write_project: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(*MEMBERS["name"], minimum=2)
    assert run_command_line(["plan", "-out=p.plan"]) == 0
    capsys.readouterr()
    drains = drain_each_node(capsys, "-plan=p.plan")
    assert [budgets for names, budgets in drains.values() if names] == [["web/a"], ["web/a"]]


@pytest.mark.parametrize(("member", "cluster"), MEMBERS.values(), ids=MEMBERS)
def test_explained_pod_with_a_node_has_known_nodes(
    member: str, cluster: str, write_project: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(member, cluster)
    assert run_command_line(["plan", "-out=p.plan"]) == 0
    capsys.readouterr()
    address = "fleet_cluster_resource_placement.p"
    assert run_command_line(["explain", "-plan=p.plan", address, "a-0"]) == 0
    output = capsys.readouterr()
    assert "runs on n" in output.out
    assert "odes unknown" not in output.out + output.err
