"""Tests of plans for several sites with clusters of one name: rows and losses name the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITES = """
variable "vms" {
  type    = map(number)
  default = { lon = 4, par = 4 }
}
variable "planes" {
  type    = map(number)
  default = { lon = 3, par = 3 }
}
module "site" {
  for_each = var.vms
  source   = "./site"
  name     = each.key
  workers  = each.value
  plane    = var.planes[each.key]
}
"""
SITE = """
variable "name" {}
variable "workers" {}
variable "plane" {}
resource "nexus_site" "this" {
  name = var.name
}
resource "nexus_rack" "r" {
  count         = 3
  site_id       = nexus_site.this.id
  name          = "r${count.index}"
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "core" {
  site_id    = nexus_site.this.id
  depends_on = [nexus_rack.r]
  control_plane {
    count       = var.plane
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "w" {
    count       = var.workers
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""


@pytest.fixture(autouse=True)
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apply two sites with a cluster `core` each."""
    monkeypatch.chdir(tmp_path)
    Path("site").mkdir()
    Path("site/main.nf.hcl").write_text(SITE)
    Path("main.nf.hcl").write_text(SITES)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()


def plan_sites(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_command_line(["plan", *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_rows_name_the_site(capsys: pytest.CaptureFixture[str]) -> None:
    text = plan_sites(capsys, "-var=vms={lon=6,par=5}", "-report=markdown:plan.md")
    assert "+ lon/core-w-4..5 ->" in text
    assert "+ par/core-w-4 ->" in text
    comment = Path("plan.md").read_text()
    for name in ("lon/core-w-4", "lon/core-w-5", "par/core-w-4"):
        assert f"`{name}` →" in comment


def test_equal_rows_of_several_sites_name_none(capsys: pytest.CaptureFixture[str]) -> None:
    text = plan_sites(capsys, "-var=vms={lon=5,par=5}")
    assert "lon, par, each: + core-w-4 ->" in text


def test_losses_name_the_site(capsys: pytest.CaptureFixture[str]) -> None:
    text = plan_sites(capsys, "-var=planes={lon=1,par=3}", "-report=markdown:plan.md")
    assert "- lon/core/control-plane: 2 of 3 VMs removed from" in text
    assert (
        "lon/core keeps 1 of 3 control-plane VMs; losing one breaks etcd quorum"
        in Path("plan.md").read_text()
    )
