"""Tests of questions to all sites: answers are the same for each engine.

They do not depend on the number of parts either.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.sites.types.site_tasks import SiteQuestionFinding, SiteResult, SiteStatus
from nexusform.domains.sites.workflow import fleet_tasks
from tests.domains.azure.captured_site import write_site_export
from tests.domains.pods.importers.cluster_objects import (
    DEFAULT_NAMESPACE,
    build_node,
    build_pod,
    print_objects,
)
from tests.domains.sites.conftest import SITE

Command = Callable[..., tuple[int, str, str]]
Fleet = Callable[..., None]
Golden = Callable[[str, str], None]
STATE = Path(__file__).parents[3] / "state" / "nexus-document.nfstate"


@pytest.fixture
def lose_racks(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs `nexusform simulate failure ...`.

    It returns exit code, stdout and stderr.
    """

    def run_simulation(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command_line(["simulate", "failure", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_simulation


def read_answers(command: Command, *words: str) -> dict[str, Any]:
    _, out, err = command(*words, "-format=json")
    assert out, err
    document: dict[str, Any] = json.loads(out)
    return document


def test_merged_sample_parts_equal_the_plan(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet()
    monkeypatch.setattr(fleet_tasks, "RUNS_PER_PART", 20)
    _, out, err = command("status", "-samples=100", "-site=par1", "-json")
    assert err == ""
    document = json.loads(out)
    monkeypatch.chdir("site")
    assert (
        run_command_line(["plan", "-var=name=par1", "-samples=100", "-report=json:../p.json"]) == 0
    )
    plan = json.loads(Path("../p.json").read_text())
    in_plan = {
        row["object"]: [
            round(100 * row["certainty"][share]) for share in ("machine", "rack", "rack_count")
        ]
        for row in plan["placement_changes"]
        if row.get("certainty")
    }
    in_parts = {
        each["name"].partition(":")[2]: [each["machine"], each["rack"], each["rack_count"]]
        for each in document["certainty"][0]["findings"]
    }
    assert in_parts == in_plan
    assert in_plan


def test_text_output(fleet: Fleet, command: Command, lose_racks: Command, golden: Golden) -> None:
    fleet({"par1": {}, "par2": {"workers": 3}, "par3": {"wokers": 3}})
    code, certainty, err = command("status", "-samples=50")
    assert (code, err) == (1, "")
    code, before, _ = lose_racks("-site=par?")
    assert code == 1
    fleet({"par1": {}, "par2": {"workers": 3}})
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites")[0] == 0
    code, failure, _ = lose_racks("-site=*")
    assert code == 2
    golden("questions.txt", f"{certainty}\n{before}\n{failure}")


def test_certainty_of_applied_sites_says_that_no_vm_is_to_be_placed(
    fleet: Fleet, command: Command
) -> None:
    fleet({"par1": {}})
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites")[0] == 0
    code, text, err = command("status", "-samples=10")
    assert (code, err) == (0, "")
    assert "No VM to place. Certainty is computed for VMs to place" in text
    assert "0 to place" in text


def test_racks_are_distributed_and_merged_in_order(
    fleet: Fleet, command: Command, lose_racks: Command
) -> None:
    fleet({"par1": {"racks": 5}})
    command("plan", "-out=f.nfsites")
    command("apply", "f.nfsites")
    document = read_answers(lose_racks, "-site=par*")
    assert [each["name"] for each in document["sites"][0]["findings"]] == [
        f"par1/rack{number}" for number in range(1, 6)
    ]
    assert lose_racks("-workers=2", "-site=par*", "-report=json:two.json")[0] == 2
    assert json.loads(Path("two.json").read_text()) == document


def test_old_inventory_of_a_state_is_a_warning(
    fleet: Fleet, command: Command, lose_racks: Command
) -> None:
    nodes = """
data "kubernetes_nodes" "edge" {
  files      = ["${path.module}/nodes.json"]
  cluster_id = nexus_kubernetes_cluster.edge.id
}
"""
    fleet({"par1": {}, "par2": {}}, site=SITE + nodes)
    node = build_node("edge")
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2020-01-01T00:00:00Z"}
    node["status"]["conditions"] = [ready]
    Path("site", "nodes.json").write_bytes(print_objects(node))
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites")[0] == 0
    text = " ".join(lose_racks("-site=par*")[1].split())
    assert "par1, par2: The inventory is 2,192 days old" in text
    for site in read_answers(lose_racks, "-site=par*")["sites"]:
        assert site["warnings"][-1] == "The inventory is 2,192 days old."
        assert any("match no VM by name" in warning for warning in site["warnings"])


def test_pods_of_node_files_are_counted(
    fleet: Fleet, command: Command, lose_racks: Command
) -> None:
    nodes = """
data "kubernetes_nodes" "edge" {
  files      = ["${path.module}/nodes.json"]
  cluster_id = nexus_kubernetes_cluster.edge.id
}
"""
    fleet({"par1": {}})
    command("plan", "-out=f.nfsites")
    assert command("apply", "f.nfsites")[0] == 0
    Path("site", "nodes.nf.hcl").write_text(nodes)
    names = ["par1-workers-0", "par1-workers-1"]
    pods = [build_pod(f"web-{name}", name, owner=("ReplicaSet", f"web-{name}")) for name in names]
    listed = [build_node(name) for name in names]
    Path("site", "nodes.json").write_bytes(print_objects(DEFAULT_NAMESPACE, *listed, *pods))
    [site] = read_answers(lose_racks, "-site=par*")["sites"]
    texts = [text for finding in site["findings"] for text in finding["texts"]]
    assert len(texts) == 2
    assert all("no pod of " in text for text in texts)


def test_flags_of_single_site_are_rejected_for_many(fleet: Fleet, lose_racks: Command) -> None:
    fleet()
    code, _, err = lose_racks("-site=*", "-plan=p")
    assert (code, "need one site, not -site=*" in err) == (1, True)
    code, _, err = lose_racks("-site=par1", "-workers=2")
    assert (code, "-engine, -workers and -allow-source need -site=*" in err) == (1, True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_cluster_engine_gives_same_answers(fleet: Fleet, command: Command) -> None:
    distributed = pytest.importorskip("distributed")
    fleet({"par1": {}, "par2": {"workers": 3}})
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
    }
    with distributed.LocalCluster(host="127.0.0.1", **options) as cluster:
        engine = f"-engine={cluster.scheduler_address.replace('tcp', 'dask')}"
        of_dask = command("status", "-samples=300", engine, "-json")
    assert of_dask == command("status", "-samples=300", "-workers=1", "-json")
    assert of_dask[0] == 0


def test_incomplete_or_inconsistent_parts_give_no_answer() -> None:
    part = SiteResult(
        "par1", SiteStatus.PLANNED, digest="a", findings=(SiteQuestionFinding("vm", {"runs": 100}),)
    )
    whole = fleet_tasks.merge_site_results
    assert whole("par1", {0: part}, 2).status is SiteStatus.SKIPPED
    other = SiteResult("par1", SiteStatus.PLANNED, digest="b")
    assert "Run the command again" in whole("par1", {0: part, 1: other}, 2).reason
    rejected = SiteResult("par1", SiteStatus.REJECTED, "why")
    assert whole("par1", {0: part, 1: rejected}, 2) == rejected
    assert whole("par1", {0: part, 1: part}, 2).findings[0].figures == {"runs": 200}


def test_errors_in_questions(fleet: Fleet, command: Command) -> None:
    fleet()
    code, _, err = command("status", "-samples=150")
    assert (code, "a multiple of it" in err) == (1, True)
    code, _, err = command("replay")
    assert (code, "No source given" in err) == (1, True)
    command("plan", "-out=f.nfsites")
    command("apply", "f.nfsites")
    code, out, _ = command("replay", "-from=exports/SITE", "-site=par1")
    assert (code, "exports/par1" in " ".join(out.split())) == (1, True)


def test_replay_equals_reconcile_and_writes_nothing(
    fleet: Fleet,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet({"par1": {}})
    write_site_export(json.loads(STATE.read_text()), Path("exports", "par1"))
    Path("states").mkdir()
    shutil.copy(STATE, "states/par1.nfstate")
    before = Path("states/par1.nfstate").read_bytes()
    document = read_answers(command, "replay", "-from=exports/SITE", "-site=par1")
    code, out, _ = command("replay", "-from=exports/SITE", "-site=par1")
    assert code == 0
    assert "VMs (100.0 %) are where the rule places them" in " ".join(out.split())
    assert Path("states/par1.nfstate").read_bytes() == before
    vms = Path("exports/par1/virtual_machines.json")
    vms.unlink()
    code, out, _ = command("replay", "-from=exports/SITE", "-site=par1")
    assert (code, "Nothing could be checked." in out) == (2, True)
    vms.write_text("[]")
    Path("own").mkdir()
    shutil.copy(STATE, "own/s.nfstate")
    Path("own/main.nf.hcl").write_text("")
    monkeypatch.chdir("own")
    capsys.readouterr()
    run_command_line(
        ["reconcile", "-from=../exports/par1", "-replay", "-format=json", "-state=s.nfstate"]
    )
    known = json.loads(capsys.readouterr().out)["replays"]
    assert [
        [each["hits"], each["verified"], each["certain_hits"]]
        for each in document["sites"][0]["findings"]
    ] == [[each["hits"], each["verified"], each["certain_hits"]] for each in known]
