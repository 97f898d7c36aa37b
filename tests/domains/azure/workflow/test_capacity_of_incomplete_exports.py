"""Spare capacity is unknown if the export lacks lists of clusters or VMs.

A guard rail on it fails.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

EXAMPLE = Path(__file__).parents[4] / "examples" / "terraform-plan"
LISTS = ("kubernetes_clusters.json", "virtual_machines.json")


def predict(tmp_path: Path, missing: tuple[str, ...]) -> tuple[int, dict[str, object]]:
    shutil.copytree(EXAMPLE, tmp_path / "site")
    for name in missing:
        (tmp_path / "site" / "export" / name).unlink()
    words = [
        "predict",
        "-terraform-plan=site/plan.json",
        "-inventory=site/export",
        "-fail-on=capacity:1",
    ]
    code = run_command_line([*words, "-report=json:p.json"])
    return code, json.loads((tmp_path / "p.json").read_text())["decision"]


@pytest.fixture(autouse=True)
def _in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_complete_export_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, decision = predict(tmp_path, ())
    assert code == 0
    assert [(rail["result"], rail["value"]) for rail in decision["guard_rails"]] == [("passed", 17)]
    assert {upgrade["result"] for upgrade in decision["upgrades"]} == {"sufficient"}
    assert "passed capacity:1" in capsys.readouterr().out


@pytest.mark.parametrize("missing", [LISTS, LISTS[:1], LISTS[1:]])
def test_missing_list_is_unknown_and_fails(
    tmp_path: Path, missing: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, decision = predict(tmp_path, missing)
    assert code == 1
    assert [(rail["result"], rail["value"]) for rail in decision["guard_rails"]] == [
        ("unknown", None)
    ]
    assert [row["after"] for row in decision["capacity"]] == [None]
    confidence = decision["confidence"]
    assert (confidence["exact_rack_counts"], confidence["exact_machines"]) == (0, 0)
    assert {upgrade["result"] for upgrade in decision["upgrades"]} == {"unknown"}
    text = capsys.readouterr().out
    assert "Capacity:    lab at most 32 -> 17 x " in text
    assert "Confidence:  low; Azure picks rack and machine; data is missing" in text
