"""Test of the cost of a pin to availability zones."""

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """
resource "nexus_site" "s" {}

resource "nexus_rack" "r" {
  count             = 2
  site_id           = nexus_site.s.id
  name              = "r${count.index + 1}"
  availability_zone = "${count.index + 1}"
  machine_count     = 1
}

resource "nexus_kubernetes_cluster" "c" {
  name       = "c"
  site_id    = nexus_site.s.id
  depends_on = [nexus_rack.r]

  control_plane {
    count       = 1
    vm_sku_name = "NC_G2_8_v1"
  }

  agent_pool "p" {
    count              = 3
    vm_sku_name        = "NC_G2_8_v1"
    availability_zones = ["1"]
  }
}
"""


def test_pin_costs_nothing_if_machines_are_shared_without_it_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE)
    run_command_line(["advise"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "It costs nothing in this plan: no more machines run two VMs of c" in text
