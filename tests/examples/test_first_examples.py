"""Tests of the examples quickstart, nexus-document and inventory, run as in their READMEs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import commands

EXAMPLES = Path(__file__).parents[2] / "examples"
NO_CHANGES = "No changes. Your infrastructure matches the configuration."
NO_CHANGES_SINCE_EXPORT = "No changes. What was read matches the configuration."


def run_nexusform(where: Path, *words: str) -> str:
    done = subprocess.run(
        [*commands.nexusform(), *words], cwd=where, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_outputs(where: Path) -> dict[str, Any]:
    """Return the outputs in the state after an apply."""
    document = json.loads((where / "state" / "nexusform.nfstate").read_text())
    return {name: output["value"] for name, output in document["outputs"].items()}


@pytest.fixture
def example(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    target = tmp_path / request.param
    shutil.copytree(
        EXAMPLES / request.param, target, ignore=shutil.ignore_patterns("state", ".nexusform")
    )
    return target


def build_counts(count: int, *racks: int) -> dict[str, int]:
    return {f"rack{rack}": count for rack in racks or range(1, 9)}


@pytest.mark.parametrize("example", ["nexus-document"], indirect=True)
def test_document_step_by_step(example: Path) -> None:
    run_nexusform(example, "apply", "-auto-approve", "-var", "step=empty")
    run_nexusform(example, "apply", "-auto-approve", "-var", "step=half-full")
    run_nexusform(example, "apply", "-auto-approve")
    rows = read_outputs(example)["vms_per_rack"]
    spread = {
        (cluster[-1], pool): racks
        for cluster, pools in rows.items()
        for pool, racks in pools.items()
    }
    assert spread["a", "pool1"] == build_counts(3)
    assert sorted(spread["a", "pool2"].values()) == [1] * 6
    assert spread["b", "pool1"] == build_counts(6)
    assert spread["b", "pool2"] == build_counts(3)
    assert spread["c", "pool1"] == build_counts(6, 1, 4)
    assert spread["d", "pool1"] == build_counts(12, 7, 8)
    assert spread["d", "pool2"] == build_counts(3)
    assert spread["e", "pool1"] == build_counts(4, 1, 2, 4, 5) | build_counts(
        5, 3, 6
    ) | build_counts(3, 7, 8)
    for cluster, count in {"a": 3, "b": 5, "c": 3, "d": 5, "e": 5}.items():
        assert sorted(spread[cluster, "control-plane"].values()) == [1] * count
    assert len(read_outputs(example)["machines_with_two_vms_of_a_cluster"]["cluster-d"]) == 6
    assert NO_CHANGES in run_nexusform(example, "plan")


@pytest.mark.of_domains("azure")
@pytest.mark.parametrize("example", ["inventory"], indirect=True)
def test_inventory_uses_remaining_machines(example: Path) -> None:
    run_nexusform(example, "apply", "-auto-approve")
    outputs = read_outputs(example)
    machines = {node["machine"] for node in outputs["nodes"].values()}
    assert len(outputs["nodes"]) == 9
    assert set(outputs["machines_that_take_no_new_vms"]) == {"x01lon1c2co03", "x01lon1c3co04"}
    assert not machines & set(outputs["machines_that_take_no_new_vms"])
    assert all("co" in machine for machine in machines)
    assert sum(len(vms) for vms in outputs["already_there"].values()) == 9
    assert NO_CHANGES_SINCE_EXPORT in run_nexusform(example, "plan")


@pytest.mark.parametrize("example", ["quickstart"], indirect=True)
def test_quickstart_grows_without_moving_vms(example: Path) -> None:
    run_nexusform(example, "apply", "-auto-approve")
    before = read_outputs(example)["machine_of_each_node"]
    assert len(before) == 7
    text = (example / "main.nf.hcl").read_text()
    (example / "main.nf.hcl").write_text(text.replace("count       = 4", "count       = 6"))
    run_nexusform(example, "apply", "-auto-approve")
    after = read_outputs(example)["machine_of_each_node"]
    assert len(after) == 9
    assert before.items() <= after.items()
