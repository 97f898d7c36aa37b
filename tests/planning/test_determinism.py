"""Tests of determinism: plan files are byte-identical for every hash seed.

First applies give equal states.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.plans.plan import Plan
from nexusform.state.objects import EMPTY
from tests.planning.harness import (
    RACKS,
    agent_pool,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
)

PROGRAM = """
import sys
from nexusform.plans.saved.plan_file import write_plan_file
from tests.planning.test_determinism import plans
sys.stdout.buffer.write(b"".join(write_plan_file(p, {}) for p in plans(sys.argv[1])))
"""
TEXT = (
    RACKS
    + cluster(
        "a",
        arguments='kubernetes_version = "1.30"',
        count=3,
        pools=pool("p", 5, "NC_P46_224_v1", 'availability_zones = ["r2", "r0"]') + pool("q", 4),
    )
    + agent_pool("own", "nexus_kubernetes_cluster.a.id", 2, more='labels = { b = "1", a = "2" }')
    + cluster(
        "b", pools=pool("p", 3), arguments='for_each = toset(["x", "y", "z"])\n name = each.key'
    )
    + 'output "all" {\n value = toset([for n in nexus_kubernetes_cluster.a.nodes : n.machine])\n}\n'
)
TOO_MANY = TEXT.replace("count       = 5", "count       = 90")
EDITED = TEXT.replace('"1.30"\n', '"1.31"\n', 1).replace(
    "machine_count = 4", "machine_count = count.index == 1 ? 3 : 4"
)


def plans(directory: str) -> list[Plan]:
    state = build_state(TEXT)
    given = [(TEXT, EMPTY), (EDITED, state), ("", state)]
    found = [
        require_success(plan(text, before, samples=12, directory=directory))
        for text, before in given
    ]
    failed = plan(TOO_MANY, samples=3, suggested_fixes=True, directory=directory)
    return [result.plan for result in (*found, failed)]


def write_plans_in_subprocess(hash_seed: str, directory: Path) -> bytes:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)],
        env=environment,
        capture_output=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("others", [("1", "2")])
def test_plan_files_are_identical_for_every_hash_seed(
    others: tuple[str, ...], tmp_path: Path
) -> None:
    first = write_plans_in_subprocess("0", tmp_path)
    assert len(first) > 4000
    for seed in others:
        assert write_plans_in_subprocess(seed, tmp_path) == first


def test_two_first_applies_give_equal_states() -> None:
    assert build_state(TEXT) == build_state(TEXT)
