import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

CONFIGURATION = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  name          = "r"
  machine_count = 2
}
resource "nexus_virtual_machine" "v" {
  name       = "v"
  site_id    = nexus_site.lab.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 20
  depends_on = [nexus_rack.r]
}
"""
STATE = Path("state/nexusform.nfstate")


@pytest.fixture(autouse=True)
def applied_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()


def write_cells(cells: list[int]) -> None:
    document = json.loads(STATE.read_text())
    for resource in document["resources"]:
        for instance in resource["instances"]:
            if "cells" in instance["attributes"]:
                instance["attributes"]["cells"] = cells
    STATE.write_text(json.dumps(document))


def test_consistent_state_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "verify"]) == 0
    assert capsys.readouterr().out == "The state is consistent.\n"


def test_missing_cell_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write_cells([7])
    assert run_command_line(["state", "verify"]) == 2
    assert "has no cell 7" in capsys.readouterr().out
    assert run_command_line(["plan"]) == 0
    assert "has no cell 7" in capsys.readouterr().out


def test_contradiction_is_reported_and_blocks_plan_and_apply(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_cells([0, 0])
    before = STATE.read_bytes()
    assert run_command_line(["state", "verify"]) == 2
    assert "is recorded twice in one cell" in " ".join(capsys.readouterr().err.split())
    for command in (["plan"], ["apply", "-auto-approve"], ["destroy", "-auto-approve"]):
        assert run_command_line(command) == 1
        assert "Inconsistent state" in capsys.readouterr().err
    assert STATE.read_bytes() == before


@pytest.mark.parametrize("colon", [": ", ":", " : "])
def test_duplicate_keys_are_reported_and_block_plan_and_apply(
    colon: str, capsys: pytest.CaptureFixture[str]
) -> None:
    STATE.write_text(STATE.read_text().replace('"serial":', f'"serial"{colon}0, "serial":', 1))
    before = STATE.read_bytes()
    for command in (
        ["state", "verify"],
        ["plan"],
        ["apply", "-auto-approve"],
        ["destroy", "-auto-approve"],
        # Only one of the values would be shown, or stay in a new document.
        ["state", "list"],
        ["state", "pull"],
        ["state", "rm", "nexus_rack.r"],
    ):
        assert run_command_line(command) == 1
        said = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert 'contains duplicate keys in one object: "serial"' in said
    assert STATE.read_bytes() == before


def test_dependencies_on_removed_objects_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the VM on a missing machine is reported."""
    assert run_command_line(["state", "rm", "nexus_rack.r"]) == 0
    assert run_command_line(["state", "verify"]) == 2
    captured = capsys.readouterr()
    told = " ".join((captured.out + captured.err).replace("│", " ").split())
    assert told.count("Warning:") == 1
    assert "No rack or machine of the state offers r-bm" in told
    assert 'VM "v" of nexus_virtual_machine.v' in told


def test_differences_between_site_and_state_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reality = 'provider "simulated" {\n  reality = "site.json"\n}\n'
    Path("main.nf.hcl").write_text(CONFIGURATION + reality)
    STATE.unlink()
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["state", "verify"]) == 0
    objects = json.loads(Path("site.json").read_text())
    (machine,) = [one for one in objects if one["type"] == "nexus_virtual_machine"]
    machine["attributes"]["provenance"] = "observed"
    kept = [one for one in objects if one["type"] != "nexus_rack"]
    Path("site.json").write_text(json.dumps(kept))
    capsys.readouterr()
    before = STATE.read_bytes()
    assert run_command_line(["state", "verify"]) == 2
    told = capsys.readouterr()
    said = " ".join((told.out + told.err).replace("│", " ").split())
    assert "The site differs from the state" in said
    assert "- nexus_rack.r no longer exists" in said
    assert "- nexus_virtual_machine.v: provenance" in said
    assert STATE.read_bytes() == before
    assert run_command_line(["state", "verify", "-refresh=false"]) == 0


def test_invalid_provider_configuration_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("main.nf.hcl").write_text(
        CONFIGURATION + 'provider "simulated" {\n  reality = var.site\n}\n'
    )
    assert run_command_line(["state", "verify"]) == 1
    assert "var.site" in capsys.readouterr().err
    assert run_command_line(["state", "verify", "-refresh=false"]) == 0


def test_verify_without_state_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert run_command_line(["state", "verify"]) == 1
    assert "No state file was found!" in capsys.readouterr().err
