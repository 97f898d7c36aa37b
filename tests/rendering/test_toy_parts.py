"""A risk and a report format are one file each, and one line in a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexusform.cli import report_flag
from nexusform.cli.main import run_command_line
from nexusform.plans.impact import risk_assessment
from tests.planning.harness import cluster
from tests.rendering.toy_format import render_addresses
from tests.rendering.toy_risk import find_friday_placements
from tests.worlds.small_worlds import build_racks


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    Path("main.nf.hcl").write_text(build_racks(2, 2) + cluster("a", count=3))


def test_new_risk_is_one_file_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "VMs are placed on a Friday"
    reports = [f"-report={name}:{name}.out" for name in ("markdown", "html", "json")]
    assert run_command_line(["plan", *reports]) == 0
    assert text not in capsys.readouterr().out
    monkeypatch.setitem(risk_assessment.RISK_FINDERS, "fridays", find_friday_placements)  # the line
    assert run_command_line(["plan", *reports]) == 0
    assert text in capsys.readouterr().out
    assert text in Path("markdown.out").read_text()
    assert text in Path("html.out").read_text()
    risks = json.loads(Path("json.out").read_text())["decision"]["risks"]
    assert text in json.dumps(risks)
    # The colour and the guard rails read the same records.
    assert "[!CAUTION]" in Path("markdown.out").read_text()


def test_new_report_format_is_one_file_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_command_line(["plan", "-report=addresses:out"]) == 1
    monkeypatch.setitem(report_flag.FORMATS, "addresses", render_addresses)  # the line
    assert run_command_line(["plan", "-report=addresses:out"]) == 0
    assert "nexus_kubernetes_cluster.a\n" in Path("out").read_text()
