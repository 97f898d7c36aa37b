"""Tests that an inventory older than that of the last apply is rejected."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

EXAMPLE = Path(__file__).parents[4] / "examples" / "inventory"
REAL_SITE = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "sites-163"
RECORDED = "2026-02-28T06:00:00Z"
OLDER = "2026-02-27T06:00:00Z"
NEWER = "2026-03-01T06:00:00Z"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function for commands on the example; its export of RECORDED is applied."""
    shutil.copytree(EXAMPLE, tmp_path / "lon1", ignore=shutil.ignore_patterns("state"))
    monkeypatch.chdir(tmp_path / "lon1")
    # Two days after the newest export.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1772500000")

    def run_command(*arguments: str) -> tuple[int, str]:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).replace("│", " ").split())

    code, text = run_command("apply", "-auto-approve")
    assert code == 0, text
    return run_command


def change_export(time: str) -> None:
    Path("export/exported_at").write_text(f"{time}\n")


def read_exports() -> dict[str, str]:
    exports: dict[str, str] = json.loads(Path("state/nexusform.nfstate").read_text())["exports"]
    return exports


def read_recorded_time() -> str:
    return read_exports()["data.nexus_inventory.lon1"]


def test_older_export_is_an_error_with_both_dates(run: Run) -> None:
    change_export(OLDER)
    code, text = run("plan", "-out=p")
    assert code == 1
    assert f"data.nexus_inventory.lon1: the export is from {OLDER}" in text
    assert f"older than that of the last apply from {RECORDED}." in text
    assert run("apply", "-auto-approve")[0] == 1
    assert run("apply", "p")[0] == 1


def test_older_export_in_another_directory_is_an_error(run: Run) -> None:
    shutil.copytree("export", "cached")
    Path("cached/exported_at").write_text(f"{OLDER}\n")
    file = Path("main.nf.hcl")
    file.write_text(file.read_text().replace("/export", "/cached"))
    code, text = run("plan")
    assert code == 1
    assert RECORDED in text


def test_newest_change_is_no_time_of_an_export(run: Run) -> None:
    # The newest change goes back if the changed object is deleted.
    Path("export/exported_at").unlink()
    code, text = run("plan")
    assert code == 0, text


def test_newest_change_beside_a_dated_inventory_is_no_time_of_an_export(run: Run) -> None:
    shutil.copytree("export", "undated")
    Path("undated/exported_at").unlink()
    file = Path("main.nf.hcl")
    data = 'data "nexus_inventory" "undated" {\n  directory = "${path.module}/undated"\n}\n'
    # An apply without changes writes no state.
    file.write_text(f'{file.read_text()}\n{data}\noutput "new" {{\n  value = 1\n}}\n')
    assert run("apply", "-auto-approve")[0] == 0
    assert list(read_exports()) == ["data.nexus_inventory.lon1"]


def test_removed_inventory_is_forgotten(run: Run) -> None:
    shutil.copytree("export", "other")
    file = Path("main.nf.hcl")
    text = file.read_text()
    data = 'data "nexus_inventory" "other" {\n  directory = "${path.module}/other"\n}\n'
    times = {"data.nexus_inventory.lon1": RECORDED}
    # An apply without changes writes no state.
    for number, content in enumerate((f"{text}\n{data}", text)):
        file.write_text(f'{content}\noutput "new" {{\n  value = {number}\n}}\n')
        assert run("apply", "-auto-approve")[0] == 0
        others = {"data.nexus_inventory.other": RECORDED} if number == 0 else {}
        assert read_exports() == {**times, **others}


@pytest.mark.parametrize("time", [RECORDED, NEWER])
def test_same_or_newer_export_is_planned(time: str, run: Run) -> None:
    change_export(time)
    code, text = run("plan")
    assert code == 0, text


@pytest.fixture
def run_on_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function for commands on a real site, captured but not imported."""
    shutil.copytree(REAL_SITE, tmp_path / "export")
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str]:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).replace("│", " ").split())

    return run_command


def test_import_records_the_time_of_its_export(run_on_import: Run) -> None:
    change_export(RECORDED)
    assert run_on_import("import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    assert run_on_import("plan")[0] == 0
    change_export(OLDER)
    code, text = run_on_import("plan")
    assert code == 1
    sentence = f"the export is from {OLDER}, older than that of the last apply from {RECORDED}"
    assert sentence in text
    # Reconciliation writes what it observes to the state.
    before = Path("state/nexusform.nfstate").read_bytes()
    code, text = run_on_import("reconcile", "-from=export")
    assert code == 1
    assert sentence in text
    assert Path("state/nexusform.nfstate").read_bytes() == before
    code, text = run_on_import("reconcile", "-from=export", "-allow-older-export")
    # It has no list of clusters.
    assert (code, "No VM was compared; the site was not read completely." in text) == (2, True), (
        text
    )
    assert run_on_import("plan")[0] == 0


def test_import_of_an_older_export_keeps_the_newer_time(run_on_import: Run) -> None:
    change_export(RECORDED)
    path = Path("export/bare_metal_machines.json")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({"value": document["value"][:-1]}))
    assert run_on_import("import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    path.write_text(json.dumps(document))
    change_export(OLDER)
    code, text = run_on_import("import", "-from=export", "-generate-config-out=new.nf.hcl")
    assert code == 0, text
    code, text = run_on_import("plan")
    assert code == 1
    assert f"older than that of the last apply from {RECORDED}" in text


def test_newest_change_of_an_imported_site_is_no_time_of_an_export(run_on_import: Run) -> None:
    """Azure deletes the machine that changed last."""
    path = Path("export/bare_metal_machines.json")
    document = json.loads(path.read_text())
    for day, body in enumerate(document["value"], 10):
        body["systemData"] = {"lastModifiedAt": f"2026-02-{day}T00:00:00Z"}
    path.write_text(json.dumps(document))
    assert run_on_import("import", "-from=export", "-generate-config-out=site.nf.hcl")[0] == 0
    document["value"].pop()
    path.write_text(json.dumps(document))
    code, text = run_on_import("plan")
    assert "older than" not in text
    assert code == 0, text


def test_older_export_can_be_accepted_and_is_then_the_recorded_one(run: Run) -> None:
    assert read_recorded_time() == RECORDED
    change_export(OLDER)
    file = Path("main.nf.hcl")
    file.write_text(file.read_text() + 'output "new" {\n  value = 1\n}\n')
    code, text = run("plan", "-allow-older-export", "-out=p")
    assert code == 0, text
    code, text = run("apply", "-verify=replan", "p")
    assert code == 0, text
    assert read_recorded_time() == OLDER
    assert run("plan")[0] == 0


@pytest.mark.of_domains("whatif")
def test_answers_from_a_state_give_the_age_of_its_inventory(run: Run) -> None:
    age = "2 days old"
    assert f"inventory {age})" in run("simulate", "capacity")[1]
    run("plan", "-out=p")
    assert f"after plan p, inventory {age})" in run("simulate", "capacity", "-plan=p")[1]


def test_time_in_the_future_is_unknown_and_not_recorded(run: Run) -> None:
    change_export("2030-01-01T00:00:00Z")
    file = Path("main.nf.hcl")
    file.write_text(f'{file.read_text()}\noutput "new" {{\n  value = 1\n}}\n')
    code, text = run("apply", "-auto-approve")
    assert code == 0, text
    assert "in the future" in text
    assert "0 min old" not in text
    assert "of unknown age" in text
    assert read_recorded_time() == RECORDED
    # An export with a correct time is no older one.
    change_export(NEWER)
    code, text = run("plan")
    assert code == 0, text
