"""Tests of `simulate placement`: the answer equals that of a plan.

The plan has the placement in the configuration.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.fleet.planning.test_feasibility import SITE
from tests.domains.fleet.workload_texts import build_deployment
from tests.domains.pods.importers import cluster_objects

MEMBERS = SITE[: SITE.index('resource "fleet_hub_manifest"')].replace("MACHINES", "3")
OPENSTACK_EXPORT = Path(__file__).parents[4] / "examples" / "every-type" / "documents" / "openstack"
OPENSTACK = """
data "openstack_inventory" "o" { directory = "openstack" }
resource "openstack_site" "o" { inventory = data.openstack_inventory.o }
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(MEMBERS)
    return tmp_path


def run_placement(
    capsys: Capture, *flags: str, replicas: int, cpu: int = 4
) -> tuple[int, dict[str, Any]]:
    Path("pods.yaml").write_text(build_deployment("payments", replicas, cpu))
    capsys.readouterr()
    code = run_command_line(["simulate", "placement", "-f=pods.yaml", "-format=json", *flags])
    return code, json.loads(capsys.readouterr().out)


def read_clusters(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the selected clusters."""
    [section] = [each for each in answer["sections"] if each["name"] == "clusters"]
    rows: list[dict[str, Any]] = section["tables"][0]["rows"]
    return rows


@pytest.mark.parametrize("replicas", [2, 9])
def test_answer_equals_plan_of_configured_placement(replicas: int, capsys: Capture) -> None:
    code, answer = run_placement(capsys, "-clusters=west", replicas=replicas)
    (simulated,) = read_clusters(answer)
    written = SITE.replace("MACHINES", "3").replace("CLUSTERS", '"west"')
    Path("main.nf.hcl").write_text(written)
    Path("payments.yaml").write_text(Path("pods.yaml").read_text())
    assert run_command_line(["plan", "-details", "-report=json:plan.json"]) == 0
    (planned,) = json.loads(Path("plan.json").read_text())["feasibility"]
    fields = ("cluster", "result", "missing_nodes", "pool", "reason")
    assert [simulated[name] for name in fields] == [planned[name] for name in fields]
    assert simulated["replicas"] == planned["replicas_requested"] == replicas
    assert simulated["at_most"] == planned["replicas_max"]
    assert code == (0 if planned["result"] == "runs" else 2)


def test_answer_names_selected_and_rejected_clusters(capsys: Capture) -> None:
    _, answer = run_placement(capsys, "-pick=1", replicas=2)
    assert [row["cluster"] for row in read_clusters(answer)] == ["west"]
    [rejected] = [each for each in answer["sections"] if each["name"] == "rejected_clusters"]
    assert [line.partition(":")[0] for line in rejected["lines"]] == ["south"]


def test_missing_clusters_are_counted(capsys: Capture) -> None:
    code, answer = run_placement(capsys, "-pick=9", replicas=1)
    assert code == 2
    assert answer["verdict"].startswith("7 of 9 requested clusters are missing; ")
    assert run_command_line(["simulate", "placement", "-f=pods.yaml", "-pick=9"]) == 2
    assert "7 of 9 requested clusters are missing; runs on " in " ".join(
        capsys.readouterr().out.split()
    )
    code, answer = run_placement(capsys, "-clusters=west,nowhere", replicas=1)
    assert code == 2
    assert answer["verdict"].startswith("not selected: nowhere; ")


def test_pods_of_configured_placements_count(capsys: Capture) -> None:
    _, alone = run_placement(capsys, "-clusters=west", replicas=4)
    assert read_clusters(alone)[0]["result"] == "runs"
    Path("main.nf.hcl").write_text(SITE.replace("MACHINES", "3").replace("CLUSTERS", '"west"'))
    Path("payments.yaml").write_text(build_deployment("payments", 4, 4))
    Path("orders.yaml").write_text(build_deployment("orders", 4, 4))
    capsys.readouterr()
    command = ["simulate", "placement", "-f=orders.yaml", "-clusters=west", "-format=json"]
    assert run_command_line(command) == 2
    answer = json.loads(capsys.readouterr().out)
    results = [row["result"] for row in read_clusters(answer)]
    others = [each for each in answer["sections"] if each["name"] == "other_placements"]
    assert "runs_after" in results or "runs_after" in others[0]["lines"][0]


def test_tested_cluster_count_is_suggested(capsys: Capture) -> None:
    _, answer = run_placement(capsys, "-clusters=west", replicas=9)
    (row,) = read_clusters(answer)
    [fixes] = [each for each in answer["sections"] if each["name"] == "suggested_fixes"]
    [fix] = fixes["lines"]
    count = 2 + row["missing_nodes"]
    assert f"{count}" in fix
    assert run_command_line(["simulate", "placement", "-f=pods.yaml", "-clusters=west"]) == 2
    printed = " ".join(capsys.readouterr().out.split())
    assert "Suggested fix (tested) for simulated-placement on west: " in printed
    flags = ("-clusters=west", f"-var=workers={count}")
    assert read_clusters(run_placement(capsys, *flags, replicas=9)[1])[0]["result"] == "runs"


def test_files_without_pods_are_named(capsys: Capture) -> None:
    member = 'resource "fleet_member_cluster" "dumped" {\n  kubernetes_cluster_id = "dumped"\n}\n'
    data = (
        'data "kubernetes_nodes" "dumped" {\n  files      = ["nodes.json"]\n  cluster_id = '
        '"dumped"\n}\n'
    )
    Path("dumped.nf.hcl").write_text(member + data)
    Path("nodes.json").write_bytes(cluster_objects.print_objects(cluster_objects.build_node("n0")))
    _, answer = run_placement(capsys, "-clusters=dumped", replicas=1)
    (row,) = read_clusters(answer)
    assert (row["result"], row["reason"]) == ("unknown", "the files list no pods")
    assert any("list no pods" in warning for warning in answer["warnings"])
    assert answer["verdict"].startswith("As far as it was read: ")
    run_command_line(["simulate", "placement", "-f=pods.yaml", "-clusters=dumped"])
    assert "list no pods" in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.of_domains("openstack")
def test_answer_claims_only_what_was_read(capsys: Capture) -> None:
    """Facts of the plan that nexusform did not read may change any answer."""
    shutil.copytree(OPENSTACK_EXPORT, "openstack")
    Path("openstack.nf.hcl").write_text(OPENSTACK)
    answers = {}
    for name in ("placement", "rebalance"):
        command = ["simulate", name, "-format=json", *(["-f=pods.yaml"] * (name == "placement"))]
        Path("pods.yaml").write_text(build_deployment("payments", 1, 4))
        run_command_line(command)
        answers[name] = json.loads(capsys.readouterr().out)["verdict"]
    Path("openstack/compute_nodes.json").unlink()
    for name, verdict in answers.items():
        assert not verdict.startswith("As far")
        command = ["simulate", name, "-format=json", *(["-f=pods.yaml"] * (name == "placement"))]
        run_command_line(command)
        answer = json.loads(capsys.readouterr().out)
        assert answer["verdict"] == f"As far as it was read: {verdict}"
        assert answer["warnings"][0].startswith("Not read: failed_builds of 3 hosts")


def test_placement_without_replicas_runs_anywhere(capsys: Capture) -> None:
    code, answer = run_placement(capsys, "-clusters=south", replicas=0)
    assert (code, read_clusters(answer)[0]["result"]) == (0, "runs")
    assert (
        read_clusters(run_placement(capsys, "-clusters=south", replicas=1)[1])[0]["result"]
        == "unknown"
    )


def test_simulation_changes_nothing(capsys: Capture) -> None:
    run_placement(capsys, "-clusters=west", replicas=9)
    assert sorted(path.name for path in Path().iterdir()) == ["main.nf.hcl", "pods.yaml"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no manifest"),
        ("a: [", "Unreadable manifest"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: kube-system}\n",
            "is in a reserved namespace",
        ),
        (
            (
                "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\n"
                "metadata: {name: a}\n"
            ),
            "is an object of the hub",
        ),
    ],
)
def test_unusable_manifests_are_rejected(text: str, reason: str, capsys: Capture) -> None:
    Path("pods.yaml").write_text(text)
    assert run_command_line(["simulate", "placement", "-f=pods.yaml"]) == 1
    printed = capsys.readouterr()
    assert reason in " ".join((printed.out + printed.err).replace("│", " ").split())


def test_expressions_in_manifest_are_text(capsys: Capture) -> None:
    pods = build_deployment("payments", 2, 4)
    pods = pods.replace("registry.example.com/api:1", "'registry.example.com/${api}:%{1}'")
    Path("pods.yaml").write_text(pods)
    assert run_command_line(["simulate", "placement", "-f=pods.yaml", "-clusters=west"]) == 0
    assert "runs on 1 of 1" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [[], ["-f=pods.yaml", "-pick=1", "-clusters=west"]])
def test_wrong_flags_are_usage_errors(flags: list[str]) -> None:
    assert run_command_line(["simulate", "placement", *flags]) == 1
