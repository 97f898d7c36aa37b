"""Tests of simulations of clusters from kubectl output: unmanaged pods hold their capacity."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.pods.importers.cluster_objects import build_node, build_pod, print_objects

EXAMPLE = Path(__file__).parents[4] / "examples" / "real-nodes"
FULL = build_pod("smf-1-x", "core-workers-0", "7500m", owner=("ReplicaSet", "smf-1"))
WORKERS = (build_node("core-workers-0"), build_node("core-workers-1"))
MEMBER = """
resource "fleet_member_cluster" "core" {
  name                  = "core"
  kubernetes_cluster_id = nexus_kubernetes_cluster.core.id
}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the example with one replica with a CPU request and no VFs."""
    for name in ("main.nf.hcl", "upf.yaml"):
        shutil.copy(EXAMPLE / name, tmp_path)
    yaml = (tmp_path / "upf.yaml").read_text()
    (tmp_path / "upf.yaml").write_text(yaml.replace(", intel.com/sriov_netdevice: 2", ""))
    main = (tmp_path / "main.nf.hcl").read_text()
    (tmp_path / "main.nf.hcl").write_text(main.replace("default     = 2", "default     = 1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class CommandRunner:
    """Run commands and return their output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.told = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        self.capsys.readouterr()
        assert run_command_line([*words]) == code, self.capsys.readouterr()
        out, self.told = self.capsys.readouterr()
        return out

    def read_rows(self, name: str, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """Return the rows of a section of an answer; [] without the section."""
        answer = json.loads(self("simulate", *words, "-format=json", code=code))
        return [
            row
            for section in answer["sections"]
            if section["name"] == name
            for row in section["tables"][0]["rows"]
        ]


@pytest.fixture
def command_runner(capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(capsys)


def build_upf_pod(name: str) -> dict[str, Any]:
    """Return a pod of the Deployment in the example."""
    found = build_pod(f"upf-1-{name}", f"core-workers-{name[-1]}", owner=("ReplicaSet", "upf-1"))
    found["metadata"] |= {"namespace": "core", "labels": {"app": "upf", "pod-template-hash": "1"}}
    asked = {"requests": {"cpu": "1", "memory": "1Gi"}}
    found["spec"]["containers"] = [
        {"name": "upf", "image": "registry.example.com/upf:2.3", "resources": asked}
    ]
    return found


def write_objects(lab: Path, *objects: dict[str, Any]) -> None:
    (lab / "nodes.json").write_bytes(print_objects(*WORKERS, *objects))


def read_places(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["was_on"], row["new_node"].removesuffix(" *")) for row in rows]


# The machine of core-workers-1.
LOSS = ("failure", "-rack=rack1")


def test_unmanaged_pods_use_capacity(lab: Path, command_runner: CommandRunner) -> None:
    write_objects(lab, FULL)
    command_runner("plan", "-out=p")
    for words in (LOSS, (*LOSS, "-plan=p")):
        if "-plan=p" not in words:
            command_runner("apply", "-auto-approve")
        [pod] = command_runner.read_rows("pods", *words, code=2)
        assert read_places([pod]) == [("core-workers-1", "none")]
        assert "1 Insufficient cpu" in pod["reason"]
    assert "1 Insufficient cpu" in command_runner("simulate", "runtime-upgrade", code=2)
    write_objects(lab)
    assert read_places(command_runner.read_rows("pods", *LOSS, code=2)) == [
        ("core-workers-1", "core-workers-0")
    ]


def test_observed_nodes_of_pods_hold_until_a_plan_changes_them(
    lab: Path, command_runner: CommandRunner
) -> None:
    write_objects(lab)
    command_runner("apply", "-auto-approve")
    # It has moved to the other node since then: no pod is on rack1.
    write_objects(lab, build_upf_pod("a0"))
    assert command_runner.read_rows("workloads", *LOSS, code=2) == []
    # A plan keeps one of three observed pods.
    write_objects(lab, build_upf_pod("a1"), build_upf_pod("b1"), build_upf_pod("c1"))
    command_runner("plan", "-out=p")
    [workload] = command_runner.read_rows("workloads", *LOSS, code=2)
    assert workload["ran"] == 3
    [workload] = command_runner.read_rows("workloads", *LOSS, "-plan=p", code=2)
    assert workload["ran"] == 1


@pytest.mark.parametrize(
    ("stated", "held"),
    # With two pods and minAvailable 1, one may be evicted unless the controller reports one
    # as not ready.
    [
        ({}, False),
        ({"disruptionsAllowed": 1, "expectedPods": 2}, False),
        ({"disruptionsAllowed": 0}, True),
    ],
)
def test_drain_respects_disruptions_allowed_by_budget(
    lab: Path, command_runner: CommandRunner, stated: dict[str, Any], held: bool
) -> None:
    main = (lab / "main.nf.hcl").read_text()
    (lab / "main.nf.hcl").write_text(main.replace("default     = 1", "default     = 2"))
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "upf", "namespace": "core"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "upf"}}},
        "status": stated,
    }
    write_objects(lab, build_upf_pod("a0"), build_upf_pod("b1"), budget)
    command_runner("plan", "-out=p")
    command_runner("apply", "-auto-approve")
    for words in ((), ("-plan=p",)):
        answer = json.loads(
            command_runner("simulate", "runtime-upgrade", *words, "-format=json", code=2)
        )
        [workloads] = [each for each in answer["sections"] if each["name"] == "workloads"]
        is_blocking = "core/upf cannot be respected" in " ".join(workloads["lines"])
        assert is_blocking is held, words
    # Budgets do not apply to pods of a lost machine.
    assert command_runner.read_rows("blocking_budgets", *LOSS, code=2) == []


def test_node_re_created_by_plan_is_empty(lab: Path, command_runner: CommandRunner) -> None:
    write_objects(lab, FULL)
    command_runner("apply", "-auto-approve")
    command_runner("plan", "-replace=nexus_kubernetes_cluster.core:core-workers-0", "-out=p")
    assert read_places(command_runner.read_rows("pods", *LOSS, "-plan=p", code=2)) == [
        ("core-workers-1", "core-workers-0")
    ]


def test_unreadable_nodes_are_reported(lab: Path, command_runner: CommandRunner) -> None:
    write_objects(lab, FULL)
    command_runner("apply", "-auto-approve")
    (lab / "nodes.json").unlink()
    assert read_places(command_runner.read_rows("pods", *LOSS, code=2)) == [
        ("core-workers-1", "core-workers-0")
    ]
    assert "Nodes not counted" in command_runner.told
    assert "are not counted" in " ".join(command_runner.told.replace("│", " ").split())
    # A question about machines alone does not need them.
    command_runner("simulate", "capacity")
    assert command_runner.told == ""


def test_plan_can_be_queried_from_another_directory(
    lab: Path, command_runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_objects(lab, FULL)
    command_runner("plan", "-out=p")
    (lab / "elsewhere").mkdir()
    monkeypatch.chdir(lab / "elsewhere")
    assert read_places(command_runner.read_rows("pods", *LOSS, "-plan=../p", code=2)) == [
        ("core-workers-1", "core-workers-0")
    ]
    assert "with data.kubernetes_nodes.core" in command_runner.told
    assert "nexusform-plan-" not in command_runner.told


def test_nodes_with_unknown_capacity_are_named(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command_runner = CommandRunner(capsys)
    (lab / "nodes.json").write_bytes(
        print_objects(*WORKERS, build_node("other-1"), build_node("other-2"))
    )
    command_runner("apply", "-auto-approve")
    command_runner("plan", "-out=p.nfplan")
    for words in ((), ("-plan=p.nfplan",)):
        command_runner("simulate", "capacity", "-format=json", *words)
        warning = " ".join(command_runner.told.replace("│", " ").split())
        assert (
            '2 nodes of the cluster "lab/core" (other-1, other-2) match no VM by name or provider '
            "id"
        ) in warning
    command_runner("simulate", *LOSS, "-format=json", code=2)
    assert "match no VM by name or provider id. Their pods and capacity" in " ".join(
        command_runner.told.replace("│", " ").split()
    )
    (lab / "nodes.json").write_bytes(print_objects(*WORKERS))
    command_runner("simulate", "capacity", "-format=json")
    assert command_runner.told == ""
