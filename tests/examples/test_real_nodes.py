"""Tests of the example real-nodes, run as in its README: kubectl output determines the result."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import commands

EXAMPLE = Path(__file__).parents[2] / "examples" / "real-nodes"
# Its nodes have no heartbeat that tells the age of the file.
NO_CHANGES = "No changes. What was read matches the configuration."


def run_nexusform(where: Path, *words: str) -> str:
    command = [*commands.nexusform(), *words]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.of_domains("fleet")
def test_existing_pods_leave_capacity_for_one_replica(tmp_path: Path) -> None:
    here = tmp_path / "real-nodes"
    shutil.copytree(EXAMPLE, here, ignore=shutil.ignore_patterns("state", ".nexusform"))
    planned = run_nexusform(here, "plan", "-no-color")
    assert (
        "upf-0                 -> rack1-bm02 (new; uncertain)\n  + upf-1                 stays "
        "Pending (new; uncertain)"
    ) in planned
    run_nexusform(here, "apply", "-auto-approve")
    shown = json.loads(run_nexusform(here, "output", "-json"))["node_of_each_replica"]["value"]
    assert shown["upf-0"] == "core-workers-1"
    assert shown["upf-1"].startswith("Pending: 0/3 nodes are available: 1 Insufficient cpu, ")
    assert NO_CHANGES in run_nexusform(here, "plan")


@pytest.mark.of_domains("fleet")
def test_simulations_count_running_pods_without_a_manifest(tmp_path: Path) -> None:
    here = tmp_path / "real-nodes"
    shutil.copytree(EXAMPLE, here, ignore=shutil.ignore_patterns("state", ".nexusform"))
    run_nexusform(here, "apply", "-auto-approve")
    for words in (["failure", "-machine=rack1-bm02"], ["runtime-upgrade"]):
        command = [*commands.nexusform(), "simulate", *words]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
        assert "core/Deployment/smf" in done.stdout, done.stdout + done.stderr
