"""Tests of prediction verification after applies.

The platforms have packing, random or rule-based placement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

MACHINES = [f"r{rack}-bm0{slot}" for rack in range(1, 5) for slot in range(1, 5)]
Platform = Callable[[str, int], str]


def build_site(seed: int = 8) -> str:
    racks = "".join(
        (
            f'resource "nexus_rack" "r{n}" {{\n  site_id       = nexus_site.s.id\n  machine_count '
            "= 4\n}\n"
        )
        for n in range(1, 5)
    )
    return (
        f'resource "nexus_site" "s" {{\n  scheduler {{\n    tie_break_seed = {seed}\n  }}\n}}\n'
        f"{racks}"
    )


def build_cluster(name: str) -> str:
    return f"""resource "nexus_kubernetes_cluster" "{name}" {{
  site_id            = nexus_site.s.id
  kubernetes_version = "v1.31"
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }}
  agent_pool "np" {{
    count       = 4
    vm_sku_name = "NC_P4_28_v1"
    mode        = "System"
  }}
}}
"""


class Operator:
    """Operator applying clusters while a platform decides the placement of their VMs."""

    def __init__(self, directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.capfd = capfd
        self.printed = ""
        directory.mkdir()
        (directory / "main.nf.hcl").write_text(build_site())
        assert self("apply", "-auto-approve") == 0

    def __call__(self, *words: str) -> int:
        code = run_command_line([f"-chdir={self.directory}", *words])
        captured = self.capfd.readouterr()
        self.printed = " ".join((captured.out + captured.err).replace("│", " ").split())
        return code

    def apply(self, number: int, platform: Platform) -> int:
        """Apply one more cluster with its nodes placed by the platform."""
        names = [f"c{number}-control-plane-0", *(f"c{number}-np-{node}" for node in range(4))]
        answers = [
            f'      "nodes[\\"{n}\\"].machine" = "{platform(n, at)}"\n'
            for at, n in enumerate(names)
        ]
        fault = f'    address   = "*.c{number}"\n    operation = "create"\n    answer = {{\n'
        block = f'provider "simulated" {{\n  fault {{\n{fault}{"".join(answers)}    }}\n  }}\n}}\n'
        (self.directory / "platform.nf.hcl").write_text(block)
        (self.directory / f"c{number}.nf.hcl").write_text(build_cluster(f"c{number}"))
        return self("apply", "-auto-approve", "-details")

    def state(self) -> dict[str, Any]:
        return json.loads((self.directory / "state/nexusform.nfstate").read_text())  # type: ignore[no-any-return]

    def record(self) -> Mapping[str, Mapping[str, list[float]]]:
        current = next(one for one in self.state()["resources"] if one["type"] == "nexus_site")
        return current["instances"][0]["private"]["forecasts"]  # type: ignore[no-any-return]


@pytest.fixture
def operator(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Operator:
    return Operator(tmp_path / "site", capfd)


def pack_nodes(_: str, at: int) -> str:
    return MACHINES[at // 4]


def test_packing_platform_breaks_certain_predictions_and_warns(operator: Operator) -> None:
    assert operator.apply(0, pack_nodes) == 2
    assert "Apply complete! Resources: 1 added" in operator.printed
    assert (
        "Warning: Wrong certain predictions 1 new VM of c0/np was predicted with certainty on "
        "rack r4, but 0 run there"
    ) in (operator.printed)
    assert operator.record()["rack_count"]["100"] == [0, 4, 4.0, 4.0]
    tainted = [
        one
        for resource in operator.state()["resources"]
        for one in resource["instances"]
        if one.get("status") == "tainted"
    ]
    assert not tainted
    # The observed placement is in the state.
    assert operator("plan", "-detailed-exitcode") == 0, operator.printed


def test_shares_are_lowered_to_measured_accuracy(operator: Operator) -> None:
    for number in range(6):
        operator.apply(number, pack_nodes)
    # Nothing is certain after the first wrong predictions, so only those 4 add a squared error
    # of 1 each.
    assert operator.record()["rack_count"]["100"][:3] == [0, 24, 4.0]
    (operator.directory / "platform.nf.hcl").unlink()
    (operator.directory / "next.nf.hcl").write_text(build_cluster("next"))
    assert operator("plan", "-out=next.nfplan") == 0
    assert " of 90 verified predictions correct, " in operator.printed
    assert "shares are lowered to the measured accuracy" in operator.printed, operator.printed
    assert operator("show", "-json", "next.nfplan") == 0
    plan = json.loads(operator.printed)
    assert {
        row["certainty"]["rack_count"] for row in plan["placement_changes"] if "np" in row["object"]
    } == {0.0}
    scores = plan["prediction_scores"][0]["predictions"]
    assert scores["verified"] == 6 * 15
    assert scores["certain_correct"] < scores["certain"] / 2
    assert scores["brier_score"] < scores["brier_score_by_chance"]


def test_random_platform_breaks_most_predictions(operator: Operator) -> None:
    draw = Random(1)
    codes = [operator.apply(number, lambda _, __: draw.choice(MACHINES)) for number in range(4)]
    assert codes[0] == 2
    held, broken = operator.record()["rack_count"]["100"][:2]
    assert broken > held


def test_rule_based_platform_keeps_certain_predictions(
    operator: Operator, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The platform breaks ties with another seed than the plan."""
    platform = Operator(tmp_path / "platform", capfd)
    (platform.directory / "main.nf.hcl").write_text(build_site(seed=4711))
    for number in range(4):
        (platform.directory / f"c{number}.nf.hcl").write_text(build_cluster(f"c{number}"))
        assert platform("apply", "-auto-approve") == 0
        nodes: dict[str, Any] = {}
        for resource in platform.state()["resources"]:
            for one in resource["instances"]:
                nodes |= one["attributes"].get("nodes") or {}
        assert operator.apply(number, lambda name, _, nodes=nodes: nodes[name]["machine"]) == 0  # type: ignore[misc]
    assert operator.record()["rack_count"]["100"][1] == 0
    assert operator("plan") == 0
    assert "lowered" not in operator.printed


def test_unread_predictions_stay_open(operator: Operator) -> None:
    (operator.directory / "c.nf.hcl").write_text(build_cluster("c"))
    assert operator("apply", "-auto-approve") == 0
    current = next(one for one in operator.state()["resources"] if one["type"] == "nexus_site")
    assert "private" not in current["instances"][0]
