"""Tests of the example hardware-aware, run as in its README.

It places two workers on two servers, with or without a server group.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import commands

pytestmark = pytest.mark.of_domains("fleet", "vnf")
EXAMPLE = Path(__file__).parents[2] / "examples" / "hardware-aware"
NO_CHANGES = "No changes. Your infrastructure matches the configuration."
BEFORE = ("-var", "server_group=false")
MAINTENANCE = ("-var", "maintenance=true")
HEAL = "-replace=tacker_vnf.a:vnf-a-workerNode-1"


@pytest.fixture
def example_directory(tmp_path: Path) -> Path:
    target = tmp_path / "hardware-aware"
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns("state", ".nexusform"))
    return target


def run_nexusform(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*commands.nexusform(), *words], cwd=where, capture_output=True, text=True, check=False
    )


def apply_and_read_outputs(where: Path, *words: str) -> dict[str, Any]:
    """Return the outputs in state after an apply."""
    done = run_nexusform(where, "apply", "-auto-approve", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((where / "state" / "nexusform.nfstate").read_text())
    return {name: output["value"] for name, output in document["outputs"].items()}


def test_group_separates_workers_on_two_servers(example_directory: Path) -> None:
    outputs = apply_and_read_outputs(example_directory)
    servers = outputs["server_of_each_worker"]
    assert sorted(servers.values()) == ["Compute01", "Compute02"]
    assert outputs["labels"] == {
        name: {
            "CIS-node": server,
            "kubernetes.io/zone": server,
            "topology.kubernetes.io/zone": "rack1",
        }
        for name, server in servers.items()
    }
    assert NO_CHANGES in run_nexusform(example_directory, "plan").stdout


def test_workers_without_group_may_share_a_server_until_heal(example_directory: Path) -> None:
    shared = {"vnf-a-workerNode-0": "Compute01", "vnf-a-workerNode-1": "Compute01"}
    assert (
        apply_and_read_outputs(example_directory, *BEFORE, *MAINTENANCE)["server_of_each_worker"]
        == shared
    )
    assert apply_and_read_outputs(example_directory, *BEFORE)["server_of_each_worker"] == shared
    assert apply_and_read_outputs(example_directory, HEAL)["server_of_each_worker"] == shared | {
        "vnf-a-workerNode-1": "Compute02"
    }


def test_group_rejects_plan_without_second_server(example_directory: Path) -> None:
    done = run_nexusform(example_directory, "plan", "-no-color", *MAINTENANCE)
    assert done.returncode == 1
    text = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    assert "not on the same machine as the other VMs of srvgroup (base_hot:13)" in text
    assert not (example_directory / "state" / "nexusform.nfstate").exists()


# --- the pods ----------------------------------------------------------------------------------

HOSTNAME = ("-var", "topology_key=kubernetes.io/hostname")


def read_plan_text(where: Path, *words: str, form: str = "-details") -> str:
    """Return the text of a plan as one line, with details by default."""
    done = run_nexusform(where, "plan", "-no-color", form, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).replace("│", " ").split())


def test_two_plans_of_readme_differ_as_described(example_directory: Path) -> None:
    before = read_plan_text(example_directory, *BEFORE, *MAINTENANCE, *HOSTNAME)
    after = read_plan_text(example_directory)
    short = read_plan_text(example_directory, *BEFORE, *MAINTENANCE, *HOSTNAME, form="-samples=0")
    readme = (example_directory / "README.md").read_text()
    block = readme[readme.index("before:") : readme.index("```", readme.index("before:"))]
    told, _, then = block.partition("after:")
    for text, lines in ((before + short, told), (after, then)):
        for line in [line.strip() for line in lines.splitlines() if line.startswith("  ")]:
            assert " ".join(line.split()) in text, line
    assert "run on machine Compute01" in before
    assert "topologyKey: CIS-node" in before
    assert "Pods share machine" not in after
    for text in (before, after):
        assert "maxUnavailable: 1" in text
        assert "matchLabelKeys: [pod-template-hash]" in text


def test_server_label_leaves_replica_pending_unless_preferred(example_directory: Path) -> None:
    required = read_plan_text(example_directory, *BEFORE, *MAINTENANCE)
    assert (
        "redis-cache-0 -> vnf-a-workerNode-1 / Compute01 / zone rack1 (new; or vnf-a-workerNode-0 "
        "at another tie)"
    ) in required
    assert "redis-cache-1 stays Pending (new)" in required
    assert "2 node(s) didn't match pod anti-affinity rules" in required
    preferred = read_plan_text(example_directory, *BEFORE, *MAINTENANCE, "-var", "preferred=true")
    assert "redis-cache-0..1 -> Compute01: 2 (new; uncertain)" in preferred
    assert "Pending" not in preferred


def test_pods_follow_healed_worker(example_directory: Path) -> None:
    assert apply_and_read_outputs(example_directory, *BEFORE, *MAINTENANCE, *HOSTNAME)[
        "server_of_each_replica"
    ] == {"redis-cache-0": "Compute01", "redis-cache-1": "Compute01"}
    assert (
        NO_CHANGES
        in run_nexusform(example_directory, "plan", *BEFORE, *MAINTENANCE, *HOSTNAME).stdout
    )
    servers = apply_and_read_outputs(example_directory, *BEFORE, *HOSTNAME, HEAL)[
        "server_of_each_replica"
    ]
    assert sorted(servers.values()) == ["Compute01", "Compute02"]
    assert NO_CHANGES in run_nexusform(example_directory, "plan", *BEFORE, *HOSTNAME).stdout


def test_every_report_calls_vnfc_placement_decided(example_directory: Path) -> None:
    reports = ("-report=markdown:c.md", "-report=html:p.html")
    done = run_nexusform(example_directory, "plan", "-no-color", "-fail-on=certainty:1", *reports)
    assert done.returncode == 0, done.stdout + done.stderr
    details = run_nexusform(example_directory, "plan", "-no-color", "-details").stdout
    assert "VM placement on lab (by the grants of nexusform):" in done.stdout
    text = "exact, if Tacker takes every location from the grants of nexusform"
    assert f"Confidence:  {text}\n" in done.stdout
    assert "Tacker takes them from the grants of nexusform, if it asks for them." in details
    comment = (example_directory / "c.md").read_text()
    assert f"> - **Confidence**:\n>   - {text}\n" in comment
    page = (example_directory / "p.html").read_text()
    assert "Tacker takes the placements from the grants of nexusform, if it asks for them." in page
    assert "Placements are predicted" not in page
