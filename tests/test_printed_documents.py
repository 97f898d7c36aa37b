"""Tests of printed documents: all are planned as printed (ten placements, a HOT and a VNFD)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

ROOT = Path(__file__).parents[1]
PLACEMENTS = ROOT / "examples" / "fleet" / "documents"
VNF = ROOT / "tests" / "domains" / "vnf" / "importers" / "cases" / "specification-both"
FLEET = """
variable "document" {}

resource "fleet_member_cluster" "member" {
  for_each = { cluster1 = "1", cluster2 = "2", cluster3 = "3" }
  name     = each.key

  labels = {
    region           = "east"
    environment      = "production"
    critical-allowed = "true"
    critical-level   = each.value
    updateDay        = "day-${each.value}"
  }

  properties = {
    "kubernetes-fleet.io/node-count" = "9"
  }
}

resource "fleet_cluster_resource_placement" "printed" {
  manifest = file(var.document)
  lenient  = true
}
"""
SITE = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count         = 2
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.lab.id
  machine_count = 8
}

resource "tacker_vnf" "printed" {
  for_each = {
    hot  = { base_hot = file("vnf/base_hot.yaml") }
    vnfd = { vnfd = file("vnf/vnfd.yaml") }
    both = { base_hot = file("vnf/base_hot.yaml"), vnfd = file("vnf/vnfd.yaml") }
  }
  name     = each.key
  site_id  = nexus_site.lab.id
  vnfd     = try(each.value.vnfd, null)
  base_hot = try(each.value.base_hot, null)

  vdu "masterNode" {
    vm_sku_name = "NC_G2_8_v1"
  }

  vdu "workerNode" {
    vm_sku_name = "NC_G2_8_v1"
  }

  depends_on = [nexus_rack.rack]
}
"""


def list_planned_resources(place: Path, *flags: str) -> set[str]:
    """Return the addresses of resources with placements in a plan."""
    assert (
        run_command_line(
            [f"-chdir={place}", "plan", "-samples=0", "-report=json:plan.json", *flags]
        )
        == 0
    )
    rows = json.loads((place / "plan.json").read_text())["placement_changes"]
    return {row["address"] for row in rows if row["action"] == "place"}


@pytest.mark.of_domains("fleet", "vnf")
def test_every_printed_document_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # -chdir leaves the directory.
    monkeypatch.chdir(tmp_path)
    fleet = tmp_path / "fleet"
    site = tmp_path / "site"
    for place, text in ((fleet, FLEET), (site, SITE)):
        place.mkdir()
        (place / "main.nf.hcl").write_text(text)
    documents = sorted(PLACEMENTS.glob("*.yaml"))
    assert len(documents) == 10
    # several have the same name, so each is planned alone.
    for document in documents:
        placed = list_planned_resources(fleet, f"-var=document={document}")
        assert placed == {"fleet_cluster_resource_placement.printed"}, document
    shutil.copytree(VNF, site / "vnf")
    assert list_planned_resources(site) == {
        f'tacker_vnf.printed["{name}"]' for name in ("hot", "vnfd", "both")
    }
