"""The example separation, run as its README says: tenants on shared machines, and on racks of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import commands

EXAMPLE = Path(__file__).parents[2] / "examples" / "separation"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    target = tmp_path / "separation"
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns("state", ".nexusform"))
    return target


def plan(where: Path, *words: str, code: int) -> str:
    done = subprocess.run(
        [*commands.nexusform(), "plan", "-no-color", *words],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).replace("│", " ").split())


def told(where: Path, number: int) -> str:
    """What the n-th text block of the README quotes, as one line."""
    block = (where / "README.md").read_text().split("```text\n")[number + 1]
    return " ".join(block[: block.index("```")].split())


def test_tenants_that_share_machines_are_refused(here: Path) -> None:
    text = plan(here, "-report=json:plan.json", code=1)
    assert told(here, 0) in text
    (rule,) = json.loads((here / "plan.json").read_text())["separation_rules"]
    assert (rule["address"], rule["enforcement"]) == ("nexus_separation_rule.tenants", "deny")
    assert rule["holds"] == "never"
    assert rule["violations"]
    assert all(v["machine"] in text for v in rule["violations"])


def test_racks_of_their_own_keep_tenants_apart_in_every_outcome(here: Path) -> None:
    text = plan(here, "-var", "apart=true", "-report=json:plan.json", code=0)
    assert told(here, 1) in text
    (rule,) = json.loads((here / "plan.json").read_text())["separation_rules"]
    assert (rule["holds"], rule["violations"]) == ("always", [])
