from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

# Racks are filled evenly, so the small rack gets as many VMs as the large rack.
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


def test_detail_is_limited_to_selected_racks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(UNEVEN)
    assert run_command_line(["plan", "-details"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "shared-machine" in told
    assert "In the selected racks, no machine" in told


ONE_MACHINE_LEFT = """
resource "nexus_site" "s" {}
resource "nexus_rack" "left" {
  site_id       = nexus_site.s.id
  machine_count = 1
}
resource "nexus_rack" "right" {
  site_id       = nexus_site.s.id
  machine_count = 2
}
resource "nexus_kubernetes_cluster" "c" {
  site_id = nexus_site.s.id
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
    availability_zones = ZONES
  }
  depends_on = [nexus_rack.left, nexus_rack.right]
}
"""


@pytest.mark.parametrize(("zones", "lost"), [('["left"]', True), ('["left", "right"]', False)])
def test_quorum_loss_with_one_machine_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    zones: str,
    *,
    lost: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    workers = (
        'agent_pool "w" {\n    count       = 4\n    vm_sku_name = "NC_G12_56_v1"\n  }\n  depends_on'
    )
    text = ONE_MACHINE_LEFT.replace("ZONES", zones).replace("depends_on", workers)
    (tmp_path / "main.nf.hcl").write_text(text)
    assert run_command_line(["plan", "-details"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "shared-machine" in told
    assert (
        "runs 3 of the 3 control-plane VMs: losing it breaks the quorum of the control plane"
        in told
    ) == lost
