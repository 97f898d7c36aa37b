"""Tests of simulations of a site with a machine down, and of a state with an unfinished apply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.applying.apply_recorder import ApplyRecorder
from nexusform.cli.main import run_command_line
from nexusform.state.journal import InstanceOutcome

# The control plane has a node on each of m1, m3 and m5.
MAIN = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  for_each      = toset(["r1", "r2", "r10"])
  site_id       = nexus_site.lab.id
  name          = each.key
  machine_count = 0
}

resource "nexus_bare_metal_machine" "m" {
  for_each    = { m1 = "r1", m2 = "r1", m3 = "r2", m4 = "r2", m5 = "r10", m6 = "r10" }
  rack_id     = nexus_rack.r[each.value].id
  name        = each.key
  slot        = tonumber(substr(each.key, 1, 1))
  machine_sku = "bom-1.7.3"
  power_state = "On"
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  name    = "a"

  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "p" {
    count       = 6
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""
DOWN = MAIN.replace('= "On"', '= each.key == "m5" ? "Off" : "On"')


@pytest.fixture
def simulate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Apply the site with the machine m5 off.

    Return a runner of simulations with JSON answers.
    """
    monkeypatch.chdir(tmp_path)
    for text in (MAIN, DOWN):
        Path("main.nf.hcl").write_text(text)
        assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()

    def run_simulation(*words: str, code: int) -> dict[str, Any]:
        assert run_command_line(["simulate", *words, "-format=json"]) == code, capsys.readouterr()
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run_simulation


def test_nodes_on_machines_down_do_not_count_for_the_quorum(simulate: Any) -> None:
    failure = simulate("failure", "-rack=r1", code=2)
    losses = failure["sections"][0]
    pools, _, vms = (table["rows"] for table in losses["tables"])
    assert [(pool["pool"], pool["down"], pool["up"]) for pool in pools] == [
        ("control-plane", 1, 1),
        ("p", 2, 3),
    ]
    assert not any("m5" in vm["re_created_on"] for vm in vms)
    upgrade = simulate("runtime-upgrade", code=2)
    [pools] = [section for section in upgrade["sections"] if section["name"] == "pools"]
    verdicts = {row["pool"]: row for row in pools["tables"][0]["rows"]}
    assert {name: (row["min_up"], row["verdict"]) for name, row in verdicts.items()} == {
        "control-plane": (1, "quorum lost (needs 2)"),
        "p": (3, "kept"),
    }
    assert "loses etcd quorum" in upgrade["verdict"]


def test_report_names_machines_down_before(
    simulate: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    del simulate
    assert run_command_line(["simulate", "failure", "-rack=r1"]) == 2
    assert "1 other machine is down already, with all VMs: m5." in capsys.readouterr().out


def test_upgrade_counts_nodes_down_until_they_are_replaced(simulate: Any) -> None:
    upgrade = simulate("kubernetes-upgrade", "a", code=0)
    plane, _ = (section for section in upgrade["sections"] if section["name"] == "batches")
    assert [row["up"] for row in plane["tables"][0]["rows"]] == [2, 2, 3]


def test_unfinished_apply_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(MAIN)
    add_record = ApplyRecorder.add_record

    def die_after_cluster(self: ApplyRecorder, record: Any) -> None:
        if (
            isinstance(record, InstanceOutcome)
            and record.address.type == "nexus_kubernetes_cluster"
        ):
            self.flush()
            raise KeyboardInterrupt
        add_record(self, record)

    with monkeypatch.context() as patched:
        patched.setattr(ApplyRecorder, "add_record", die_after_cluster)
        assert run_command_line(["apply", "-auto-approve"]) != 0
    capsys.readouterr()
    assert run_command_line(["simulate", "capacity"]) == 0
    assert "The last apply did not finish: 1 step remains." in " ".join(
        capsys.readouterr().out.split()
    )
    assert run_command_line(["apply", "-resume"]) == 0
    capsys.readouterr()
    assert run_command_line(["simulate", "capacity"]) == 0
    assert "did not finish" not in capsys.readouterr().out
