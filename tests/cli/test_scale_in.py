"""A scale-in whose VMs the platform chooses: ranges, and no names of machines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.planning.harness import RACKS, cluster, pool

BEFORE = RACKS + cluster("a", pools=pool("p", 5), count=3)


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a command in a directory with the cluster; return stdout."""
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(BEFORE)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capfd.readouterr()

    def run_command(*arguments: str) -> str:
        assert run_command_line(list(arguments)) == 0
        return capfd.readouterr().out

    return run_command


def test_reports_show_ranges_and_no_machines(nf: Callable[..., str]) -> None:
    Path("main.nf.hcl").write_text(RACKS + cluster("a", pools=pool("p", 3), count=3))
    text = nf("plan", "-report=markdown:c.md", "-report=json:p.json", "-out=p.nfplan")
    line = "- a/p: 2 of 5 VMs removed from r0, r1, r2 (scale_in; Azure chooses which)"
    assert line in " ".join(text.split())
    assert re.search(r"a +p +NC_G6_28_v1 +3 +r0\.\.2 +0\.\.2$", text, re.MULTILINE)
    assert not re.search(r"r\d-bm\d\d", text)
    comment = Path("c.md").read_text()
    assert "`a/p: 2 of 5 VMs` removed from r0, r1, r2" in comment
    assert not re.search(r"r\d-bm\d\d", comment.partition("<details>")[0])
    tables = json.loads(Path("p.json").read_text())["placement_tables"]
    [table] = [table for table in tables if table["pool"] == "p"]
    counts = table["possible_vms_per_rack"]
    # Five VMs on three racks: 2, 2 and 1. Any two may go.
    assert sorted(counts.values()) == [[0, 1], [0, 2], [0, 2]]
    assert nf("show", "p.nfplan").count("Azure chooses which") >= 1


@pytest.mark.parametrize("count", [0, 5, 6])
def test_plan_without_a_choice_shows_no_ranges(nf: Callable[..., str], count: int) -> None:
    """All VMs of the pool leave, or none does."""
    Path("main.nf.hcl").write_text(RACKS + cluster("a", pools=pool("p", count), count=3))
    text = nf("plan", "-report=json:p.json")
    assert "chooses which" not in text
    tables = json.loads(Path("p.json").read_text())["placement_tables"]
    assert not any("possible_vms_per_rack" in table for table in tables)


SHOP = """
resource "fleet_hub_manifest" "shop" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-YAML
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: shop, namespace: default}
    spec:
      replicas: 2
      selector: {matchLabels: {app: shop}}
      template:
        metadata: {labels: {app: shop}}
        spec:
          nodeSelector: {kubernetes.io/hostname: a-p-0}
          containers: [{name: shop, image: shop}]
  YAML
}
"""


@pytest.mark.of_domains("fleet", "pods")
@pytest.mark.parametrize(("count", "is_certain"), [(5, True), (3, False)])
def test_new_pods_depend_on_the_nodes_that_stay(
    nf: Callable[..., str], count: int, is_certain: bool
) -> None:
    Path("main.nf.hcl").write_text(RACKS + cluster("a", pools=pool("p", count), count=3) + SHOP)
    text = " ".join(nf("plan").split())
    assert ("2 depend on the nodes that Azure removes" in text) is not is_certain
    assert ("2 of 2 pods certain" in text) is is_certain
