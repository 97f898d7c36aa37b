"""The example hardware-aware, run as its README says: two servers, two workers, a server group or none."""

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
def here(tmp_path: Path) -> Path:
    target = tmp_path / "hardware-aware"
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns("state", ".nexusform"))
    return target


def nexusform(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*commands.nexusform(), *words], cwd=where, capture_output=True, text=True, check=False
    )


def applied(where: Path, *words: str) -> dict[str, Any]:
    """The outputs that an apply leaves in state."""
    done = nexusform(where, "apply", "-auto-approve", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((where / "state" / "nexusform.nfstate").read_text())
    return {name: output["value"] for name, output in document["outputs"].items()}


def test_the_group_keeps_the_workers_on_two_servers(here: Path) -> None:
    outputs = applied(here)
    servers = outputs["server_of_each_worker"]
    assert sorted(servers.values()) == ["Compute01", "Compute02"]
    assert outputs["labels"] == {
        name: {"CIS-node": server, "kubernetes.io/zone": server, "topology.kubernetes.io/zone": "rack1"}
        for name, server in servers.items()
    }
    assert NO_CHANGES in nexusform(here, "plan").stdout


def test_without_the_group_both_may_share_until_one_is_healed(here: Path) -> None:
    shared = {"vnf-a-workerNode-0": "Compute01", "vnf-a-workerNode-1": "Compute01"}
    assert applied(here, *BEFORE, *MAINTENANCE)["server_of_each_worker"] == shared
    assert applied(here, *BEFORE)["server_of_each_worker"] == shared
    assert applied(here, HEAL)["server_of_each_worker"] == shared | {"vnf-a-workerNode-1": "Compute02"}


def test_the_group_refuses_what_cannot_be_kept_apart(here: Path) -> None:
    done = nexusform(here, "plan", "-no-color", *MAINTENANCE)
    assert done.returncode == 1
    text = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    assert "not on the same machine as the other VMs of srvgroup (base_hot:13)" in text
    assert not (here / "state" / "nexusform.nfstate").exists()


# --- the pods ----------------------------------------------------------------------------------

HOSTNAME = ("-var", "topology_key=kubernetes.io/hostname")


def said(where: Path, *words: str, form: str = "-details") -> str:
    """What a plan says, in full by default, as one line."""
    done = nexusform(where, "plan", "-no-color", form, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).replace("│", " ").split())


def test_the_two_plans_of_the_readme_differ_as_it_says(here: Path) -> None:
    before = said(here, *BEFORE, *MAINTENANCE, *HOSTNAME)
    after = said(here)
    short = said(here, *BEFORE, *MAINTENANCE, *HOSTNAME, form="-samples=0")
    readme = (here / "README.md").read_text()
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


def test_the_label_on_one_server_leaves_a_replica_pending_unless_preferred(here: Path) -> None:
    required = said(here, *BEFORE, *MAINTENANCE)
    assert "redis-cache-0 -> vnf-a-workerNode-1 / Compute01 / zone rack1 (new; or vnf-a-workerNode-0 at another tie)" in required
    assert "redis-cache-1 stays Pending (new)" in required
    assert "2 node(s) didn't match pod anti-affinity rules" in required
    preferred = said(here, *BEFORE, *MAINTENANCE, "-var", "preferred=true")
    assert "redis-cache-0..1 -> Compute01: 2 (new; uncertain)" in preferred
    assert "Pending" not in preferred


def test_pods_follow_a_worker_that_is_healed(here: Path) -> None:
    assert applied(here, *BEFORE, *MAINTENANCE, *HOSTNAME)["server_of_each_replica"] == {
        "redis-cache-0": "Compute01",
        "redis-cache-1": "Compute01",
    }
    assert NO_CHANGES in nexusform(here, "plan", *BEFORE, *MAINTENANCE, *HOSTNAME).stdout
    servers = applied(here, *BEFORE, *HOSTNAME, HEAL)["server_of_each_replica"]
    assert sorted(servers.values()) == ["Compute01", "Compute02"]
    assert NO_CHANGES in nexusform(here, "plan", *BEFORE, *HOSTNAME).stdout


def test_places_of_vnfcs_are_called_decided_by_every_report(here: Path) -> None:
    reports = ("-report=markdown:c.md", "-report=html:p.html")
    done = nexusform(here, "plan", "-no-color", "-fail-on=certainty:1", *reports)
    assert done.returncode == 0, done.stdout + done.stderr
    details = nexusform(here, "plan", "-no-color", "-details").stdout
    assert "VM placement on lab (decided by nexusform):" in done.stdout
    assert "Confidence:  exact; nexusform decides every location\n" in done.stdout
    assert "Decided by nexusform and sent to the sites." in details
    assert "> Confidence:  exact; nexusform decides every location\n" in (here / "c.md").read_text()
    page = (here / "p.html").read_text()
    assert "nexusform decides the placements and sends them to the sites." in page
    assert "Placements are predicted" not in page
