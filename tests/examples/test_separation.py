"""Tests of the example separation, run as in its README.

Its tenants share machines, or have dedicated racks.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import commands

EXAMPLE = Path(__file__).parents[2] / "examples" / "separation"


@pytest.fixture
def example_directory(tmp_path: Path) -> Path:
    target = tmp_path / "separation"
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns("state", ".nexusform"))
    return target


def run_plan(where: Path, *words: str, code: int) -> str:
    done = subprocess.run(
        [*commands.nexusform(), "plan", "-no-color", *words],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).replace("│", " ").split())


def read_quoted_text(where: Path, number: int) -> str:
    """Return the n-th text block of the README as one line."""
    block = (where / "README.md").read_text().split("```text\n")[number + 1]
    return " ".join(block[: block.index("```")].split())


def test_tenants_on_shared_machines_are_rejected(example_directory: Path) -> None:
    text = run_plan(example_directory, "-report=json:plan.json", code=1)
    assert read_quoted_text(example_directory, 0) in text
    (rule,) = json.loads((example_directory / "plan.json").read_text())["separation_rules"]
    assert (rule["address"], rule["enforcement"]) == ("nexus_separation_rule.tenants", "deny")
    assert rule["holds"] == "never"
    assert rule["violations"]
    assert all(v["machine"] in text for v in rule["violations"])


def test_dedicated_racks_separate_tenants_in_every_outcome(example_directory: Path) -> None:
    text = run_plan(example_directory, "-var", "apart=true", "-report=json:plan.json", code=0)
    assert read_quoted_text(example_directory, 1) in text
    (rule,) = json.loads((example_directory / "plan.json").read_text())["separation_rules"]
    assert (rule["holds"], rule["violations"]) == ("always", [])
