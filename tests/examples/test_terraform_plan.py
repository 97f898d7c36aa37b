"""Tests of the example terraform-plan, as in its README: with `predict` and a configuration."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("azure")
EXAMPLE = Path(__file__).parents[2] / "examples" / "terraform-plan"


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "e", ignore=shutil.ignore_patterns("state", ".nexusform"))
    monkeypatch.chdir(tmp_path / "e")


def read_machines(report: str) -> dict[str, Any]:
    changes = json.loads(Path(report).read_text())["placement_changes"]
    return {row["object"]: row["to"] for row in changes}


PREDICT = ("predict", "-terraform-plan=plan.json", "-inventory=export", "-samples=0")


def test_both_ways_predict_the_same_machines() -> None:
    assert run_command_line([*PREDICT, "-report=json:predicted.json"]) == 0
    assert run_command_line(["plan", "-samples=0", "-report=json:planned.json"]) == 0
    assert read_machines("predicted.json") == read_machines("planned.json")
    assert len(read_machines("planned.json")) == 17


def test_capacity_gate_passes_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*PREDICT, "-fail-on=capacity:10", "-report=markdown:comment.md"]) == 0
    assert "17" in Path("comment.md").read_text()
    assert run_command_line([*PREDICT, "-fail-on=capacity:18"]) == 1
    assert "lab has capacity for 17 more NC_P46_224_v1 after this plan" in capsys.readouterr().err
