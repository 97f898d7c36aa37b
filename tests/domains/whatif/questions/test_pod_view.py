"""What-ifs over clusters as kubectl printed them: what runs there besides holds its room."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.pods.importers.cluster_objects import node, pod, printed

EXAMPLE = Path(__file__).parents[4] / "examples" / "real-nodes"
FULL = pod("smf-1-x", "core-workers-0", "7500m", owner=("ReplicaSet", "smf-1"))
WORKERS = (node("core-workers-0"), node("core-workers-1"))
MEMBER = """
resource "fleet_member_cluster" "core" {
  name                  = "core"
  kubernetes_cluster_id = nexus_kubernetes_cluster.core.id
}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example with one replica that asks for a CPU, and for no VFs."""
    for name in ("main.nf.hcl", "upf.yaml"):
        shutil.copy(EXAMPLE / name, tmp_path)
    yaml = (tmp_path / "upf.yaml").read_text()
    (tmp_path / "upf.yaml").write_text(yaml.replace(", intel.com/sriov_netdevice: 2", ""))
    main = (tmp_path / "main.nf.hcl").read_text()
    (tmp_path / "main.nf.hcl").write_text(main.replace("default     = 2", "default     = 1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Asked:
    """Runs commands, and gives what they say."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.told = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        self.capsys.readouterr()
        assert run_command_line([*words]) == code, self.capsys.readouterr()
        out, self.told = self.capsys.readouterr()
        return out

    def workload(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The one workload that loses pods, and where its only pod goes."""
        answer = json.loads(self("simulate", *words, "-format=json", code=code))
        answer = answer.get("failure", answer)
        [left] = answer["workloads"]
        assert isinstance(left, dict)
        return left


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(capsys)


def upf_on(name: str) -> dict[str, Any]:
    """A pod of the example's Deployment."""
    found = pod(f"upf-1-{name}", f"core-workers-{name[-1]}", owner=("ReplicaSet", "upf-1"))
    found["metadata"] |= {"namespace": "core", "labels": {"app": "upf", "pod-template-hash": "1"}}
    asked = {"requests": {"cpu": "1", "memory": "1Gi"}}
    found["spec"]["containers"] = [{"name": "upf", "image": "registry.example.com/upf:2.3", "resources": asked}]
    return found


def see(lab: Path, *objects: dict[str, Any]) -> None:
    (lab / "nodes.json").write_bytes(printed(*WORKERS, *objects))


def places(left: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(move["from"], move["to"]) for move in left["pods"]]


LOSS = ("failure", "-rack=rack1")  # on which core-workers-1 stands


def test_what_runs_there_takes_room(lab: Path, ask: Asked) -> None:
    see(lab, FULL)
    ask("plan", "-out=p")
    for words in (LOSS, (*LOSS, "-plan=p")):
        if "-plan=p" not in words:
            ask("apply", "-auto-approve")
        left = ask.workload(*words, code=2)
        assert places(left) == [("core-workers-1", None)]
        assert "1 Insufficient cpu" in left["pods"][0]["reason"]
    assert "1 Insufficient cpu" in ask("simulate", "runtime-upgrade", code=2)
    see(lab)
    assert places(ask.workload(*LOSS, code=2)) == [("core-workers-1", "core-workers-0")]


def test_pods_are_where_they_were_seen_until_a_plan_says_otherwise(lab: Path, ask: Asked) -> None:
    see(lab)
    ask("apply", "-auto-approve")
    # Since then it came to the other node: no pod is on rack1.
    see(lab, upf_on("a0"))
    assert json.loads(ask("simulate", *LOSS, "-format=json", code=2))["workloads"] == []
    # Of three that were seen, a plan leaves one.
    see(lab, upf_on("a1"), upf_on("b1"), upf_on("c1"))
    ask("plan", "-out=p")
    assert ask.workload(*LOSS, code=2)["before"] == 3
    assert ask.workload(*LOSS, "-plan=p", code=2)["before"] == 1


@pytest.mark.parametrize(
    ("stated", "held"),
    # Two pods of which one has to stay let one go, unless their controller says that one is not ready.
    [({}, False), ({"disruptionsAllowed": 1, "expectedPods": 2}, False), ({"disruptionsAllowed": 0}, True)],
)
def test_a_drain_asks_a_budget_what_it_lets_go(lab: Path, ask: Asked, stated: dict[str, Any], held: bool) -> None:
    main = (lab / "main.nf.hcl").read_text()
    (lab / "main.nf.hcl").write_text(main.replace("default     = 1", "default     = 2"))
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "upf", "namespace": "core"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "upf"}}},
        "status": stated,
    }
    see(lab, upf_on("a0"), upf_on("b1"), budget)
    ask("plan", "-out=p")
    ask("apply", "-auto-approve")
    for words in ((), ("-plan=p",)):
        answer = json.loads(ask("simulate", "runtime-upgrade", *words, "-format=json", code=2))
        [workload] = answer["sites"][0]["workloads"]
        assert workload["budgets"] == (["core/upf"] if held else []), words
    # Whoever loses a machine asks nobody.
    assert ask.workload(*LOSS, code=2)["budgets"] == []


def test_a_node_that_a_plan_makes_anew_is_empty(lab: Path, ask: Asked) -> None:
    see(lab, FULL)
    ask("apply", "-auto-approve")
    ask("plan", "-replace=nexus_kubernetes_cluster.core:core-workers-0", "-out=p")
    assert places(ask.workload(*LOSS, "-plan=p", code=2)) == [("core-workers-1", "core-workers-0")]


def test_nodes_that_cannot_be_read_are_told(lab: Path, ask: Asked) -> None:
    see(lab, FULL)
    ask("apply", "-auto-approve")
    (lab / "nodes.json").unlink()
    assert places(ask.workload(*LOSS, code=2)) == [("core-workers-1", "core-workers-0")]
    assert "Nodes not counted" in ask.told
    assert "are not counted" in " ".join(ask.told.replace("│", " ").split())
    # A question about machines alone goes without them.
    ask("simulate", "capacity")
    assert ask.told == ""


def test_a_plan_is_asked_elsewhere(lab: Path, ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    see(lab, FULL)
    ask("plan", "-out=p")
    (lab / "elsewhere").mkdir()
    monkeypatch.chdir(lab / "elsewhere")
    assert places(ask.workload(*LOSS, "-plan=../p", code=2)) == [("core-workers-1", "core-workers-0")]
    assert "with data.kubernetes_nodes.core" in ask.told
    assert "nexusform-plan-" not in ask.told


def test_a_fleet_counts_what_runs_on_its_members(lab: Path, ask: Asked) -> None:
    with (lab / "main.nf.hcl").open("a") as file:
        file.write(MEMBER)
    see(lab, FULL)
    ask("apply", "-auto-approve")
    for objects, cpu in (((FULL,), "11500m"), ((), "19")):
        see(lab, *objects)
        answer = json.loads(ask("simulate", "fleet", "-label=core:a=b", "-format=json"))
        [member] = answer["members"]
        assert member["before"]["available"]["cpu"] == cpu


def test_capacity_names_nodes_whose_room_it_cannot_count(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = Asked(capsys)
    (lab / "nodes.json").write_bytes(printed(*WORKERS, node("other-1"), node("other-2")))
    ask("apply", "-auto-approve")
    ask("plan", "-out=p.nfplan")
    for words in ((), ("-plan=p.nfplan",)):
        ask("simulate", "capacity", "-format=json", *words)
        warning = " ".join(ask.told.replace("│", " ").split())
        assert ('2 nodes of the cluster "lab/core" (other-1, other-2) match no VM by name or provider id') in warning
    (lab / "nodes.json").write_bytes(printed(*WORKERS))
    ask("simulate", "capacity", "-format=json")
    assert ask.told == ""
