"""Tests of -json-into: text for users, and the events for programs in a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

CONFIGURATION = """\
resource "nexus_site" "s" {
}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 2
}
output "site" {
  value = nexus_site.s.id
}
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    return tmp_path


def read_events(text: str) -> list[dict[str, Any]]:
    """Return the events without their times."""
    events = [json.loads(line) for line in text.splitlines()]
    return [
        {name: part for name, part in event.items() if name != "@timestamp"} for event in events
    ]


def list_types(text: str) -> list[str]:
    return [event["type"] for event in read_events(text)]


def test_plan_prints_text_and_writes_the_events_of_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan"]) == 0
    text = capfd.readouterr().out
    assert run_command_line(["plan", "-json"]) == 0
    events = read_events(capfd.readouterr().out)
    # A second run replaces the file.
    for _ in range(2):
        assert run_command_line(["plan", "-json-into=events.jsonl"]) == 0
        assert capfd.readouterr().out == text
        assert read_events(Path("events.jsonl").read_text()) == events


def test_report_on_stdout_leaves_the_events(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-report=markdown:-", "-json-into=events.jsonl"]) == 0
    assert capfd.readouterr().out.startswith("### nexusform")
    assert list_types(Path("events.jsonl").read_text()).count("planned_change") == 2


def test_apply_and_destroy_write_events(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["apply", "-auto-approve", "-json-into=events.jsonl"]) == 0
    assert "Apply complete! Resources: 2 added" in capfd.readouterr().out
    types = list_types(Path("events.jsonl").read_text())
    assert [types.count(name) for name in ("apply_start", "apply_complete")] == [2, 2]
    assert types[-1] == "outputs"
    assert run_command_line(["destroy", "-auto-approve", "-json-into=events.jsonl"]) == 0
    assert list_types(Path("events.jsonl").read_text()).count("apply_complete") == 2


def test_errors_are_in_both(capfd: pytest.CaptureFixture[str]) -> None:
    Path("main.nf.hcl").write_text('output "o" {\n  value = local.none\n}\n')
    assert run_command_line(["plan", "-json-into=events.jsonl"]) == 1
    assert "Reference to undeclared local value" in capfd.readouterr().err
    diagnostics = [
        event["diagnostic"]["id"]
        for event in read_events(Path("events.jsonl").read_text())
        if event["type"] == "diagnostic"
    ]
    assert diagnostics == ["reference-to-undeclared-local-value"]


def test_events_can_be_read_from_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    assert run_command_line(["plan", f"-json-into=/dev/fd/{writer}"]) == 0
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert "change_summary" in list_types(pipe.read())
    assert "Plan: 2 to add" in capfd.readouterr().out


def test_apply_goes_on_without_a_reader_of_its_events(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexusform.cli.json_reporter import JsonReporter

    def fail(*_arguments: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(JsonReporter, "report_step_start", fail)
    assert run_command_line(["apply", "-auto-approve", "-json-into=events.jsonl"]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    notice = '-json-into: "events.jsonl" cannot be written: Broken pipe. Its events end here.'
    assert printed.count(notice) == 1
    assert "Apply complete! Resources: 2 added" in printed


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-json-into=main.nf.hcl"], "is an input and is not overwritten"),
        (["-json-into=none/events"], "No such file or directory"),
        (["-json", "-json-into=events"], "-json and -json-into cannot be combined"),
    ],
)
def test_unusable_files_are_rejected(
    capfd: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    assert run_command_line(["plan", *flags]) == 1
    assert words in " ".join(capfd.readouterr().err.split())
    assert Path("main.nf.hcl").read_text() == CONFIGURATION
