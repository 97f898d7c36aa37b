"""Tests of machine actions with the simulated provider: the next plan shows the changed machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """resource "nexus_site" "lab" {
  name = "lab"
}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index + 1}"
  machine_count = 4
}
resource "nexus_bare_metal_machine" "own" {
  rack_id     = nexus_rack.r[1].id
  name        = "own"
  slot        = 4
  machine_sku = "bom-1.7.3"
}
resource "nexus_kubernetes_cluster" "c" {
  name       = "c"
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.r, nexus_bare_metal_machine.own]
  control_plane {
    count       = 1
    vm_sku_name = "NC_P22_112_v1"
  }
  agent_pool "np" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""
ACTION = """resource "nexus_bare_metal_machine_action" "x" {
  machine_id      = "MACHINE"
  action          = "ACTION"
  run_id          = "RUN"
  allow_workloads = true
}
"""

Shell = Callable[..., str]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.chdir(tmp_path)

    def run_and_join_output(*words: str) -> str:
        code = run_command_line(list(words))
        captured = capsys.readouterr()
        said = " ".join((captured.out + captured.err).split())
        assert code == 0, said
        return said

    Path("main.nf.hcl").write_text(SITE)
    run_and_join_output("apply", "-auto-approve")
    return run_and_join_output


def run_action(nf: Shell, machine: str, action: str, run: str = "1") -> str:
    text = ACTION.replace("MACHINE", machine).replace("ACTION", action).replace("RUN", run)
    Path("action.nf.hcl").write_text(text)
    nf("apply", "-auto-approve")
    return nf("plan", "-detailed-exitcode", "-out=p.plan")


@pytest.mark.parametrize("machine", ["lab/r1/r1-bm01", "lab/r2/own"])
def test_machine_is_off_until_an_action_starts_it(machine: str, nf: Shell) -> None:
    shown = run_action(nf, machine, "PowerOff")
    assert "No changes." in shown
    assert "Out of service: 1 of 8 machines (1 Off)" in shown
    nf("show", "-report=json:plan.json", "p.plan")
    (status,) = json.loads(Path("plan.json").read_text())["out_of_service"]
    assert (status["machine"], status["power_state"], status["ready_state"]) == (
        machine.split("/")[2],
        "Off",
        "False",
    )
    for number, action in enumerate(("Restart", "Reimage", "Replace")):
        assert "Out of service" not in run_action(nf, machine, action), action
        assert "1 Off" in run_action(nf, machine, "PowerOff", str(number))
    Path("action.nf.hcl").unlink()
    assert "1 Off" in nf("apply", "-auto-approve"), "removing the block does nothing"


@pytest.mark.parametrize("machine", ["lab/r1/r1-bm02", "lab/r2/own"])
@pytest.mark.parametrize("first", ["", "PowerOff"])
@pytest.mark.parametrize("action", ["Cordon", "PowerOff", "Restart", "Reimage", "Replace"])
def test_plan_has_capacity_and_machines_after_its_actions(
    action: str, first: str, machine: str, nf: Shell
) -> None:
    if first:
        run_action(nf, machine, first)
    text = ACTION.replace("MACHINE", machine).replace("ACTION", action).replace("RUN", "2")
    Path("action.nf.hcl").write_text(text)
    nf("plan", "-report=json:plan.json")
    planned = json.loads(Path("plan.json").read_text())
    nf("apply", "-auto-approve")
    nf("plan", "-report=json:next.json")
    following = json.loads(Path("next.json").read_text())
    capacity, next_capacity = (
        document["decision"]["capacity"][0] for document in (planned, following)
    )
    assert capacity["after"] == next_capacity["before"]
    out_of_service, next_out_of_service = (
        [row["machine"] for row in document.get("out_of_service", [])]
        for document in (planned, following)
    )
    assert out_of_service == next_out_of_service
    # Nothing is missing if the machine takes no VM before the action, or none after it.
    is_missing = not first and action not in ("Cordon", "PowerOff")
    risks = [risk["risk"] for risk in planned["decision"]["risks"]]
    assert ("capacity-missing-meanwhile" in risks) is is_missing


@pytest.mark.parametrize("machine", ["lab/r1/r1-bm01", "lab/r2/own"])
def test_cordon_by_action_lasts_until_machine_is_changed(machine: str, nf: Shell) -> None:
    assert "Out of service: 1 of 8 machines (1 cordoned by nexusform)" in run_action(
        nf, machine, "Cordon"
    )
    assert "1 cordoned by nexusform" in run_action(nf, machine, "Restart")
    Path("action.nf.hcl").unlink()
    assert "1 cordoned by nexusform" in nf("apply", "-auto-approve")


def test_argument_ends_cordon_by_action(nf: Shell) -> None:
    run_action(nf, "lab/r2/own", "Cordon")
    cordoned = SITE.replace("  slot        = 4\n", "  slot        = 4\n  cordoned    = true\n")
    for text, is_cordoned in ((cordoned, True), (SITE, False)):
        Path("main.nf.hcl").write_text(text)
        nf("apply", "-auto-approve")
        assert ("1 cordoned by nexusform" in nf("plan", "-detailed-exitcode")) == is_cordoned


def test_new_vms_avoid_machine_after_action(nf: Shell) -> None:
    run_action(nf, "lab/r2/own", "PowerOff")
    Path("main.nf.hcl").write_text(SITE.replace("count       = 2", "count       = 7"))
    nf("apply", "-auto-approve")
    document = json.loads(Path("state/nexusform.nfstate").read_text())
    cluster = next(
        one for one in document["resources"] if one["type"] == "nexus_kubernetes_cluster"
    )
    new = [
        node
        for node in cluster["instances"][0]["attributes"]["nodes"].values()
        if node["number"] > 1
    ]
    assert len(new) == 5
    assert "own" not in {node["machine"] for node in new}
