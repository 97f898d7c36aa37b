from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run

# Racks are filled evenly, so the small one takes as many VMs as the large one.
UNEVEN = """
resource "nexus_site" "s" {}
resource "nexus_rack" "small" {
  site_id       = nexus_site.s.id
  machine_count = 3
}
resource "nexus_rack" "large" {
  site_id       = nexus_site.s.id
  machine_count = 8
}
resource "nexus_kubernetes_cluster" "c" {
  site_id = nexus_site.s.id
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "w" {
    count       = 5
    vm_sku_name = "NC_G12_56_v1"
  }
  depends_on = [nexus_rack.small, nexus_rack.large]
}
"""


def test_that_other_racks_have_machines_left_is_not_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(UNEVEN)
    assert run(["plan", "-details"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "shared-machine" in told
    assert "A rack is chosen before a machine, and in the racks chosen no machine" in told
