"""Tests of hover texts of placements."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.editor import placement_preview
from nexusform.domains.editor.placement_preview import build_saved_preview
from nexusform.files.regular_files import OutsideConfinement

TEXT = """
resource "nexus_site" "lab" {{}}
resource "nexus_rack" "r" {{
  count         = 4
  site_id       = nexus_site.lab.id
  name          = "r${{count.index + 1}}"
  machine_count = 4
}}
resource "nexus_kubernetes_cluster" "core" {{
  site_id = nexus_site.lab.id
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }}
  agent_pool "workers" {{
    count       = {count}
    vm_sku_name = "NC_P10_56_v1"
  }}
  depends_on = [nexus_rack.r]
}}
"""


def test_pending_change_keeps_zones_of_unchanged_vms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(TEXT.format(count=4))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    Path("main.nf.hcl").write_text(TEXT.format(count=5))
    text = build_saved_preview(str(tmp_path)).texts["nexus_kubernetes_cluster.core", "workers"]
    assert text.startswith("core/workers: 5 VMs on zones r1, r2, r3, r4;")


def test_confined_editor_has_a_wall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that checks nothing stops there."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "main.nf.hcl").write_text(TEXT.format(count=2))
    secret = tmp_path / "secret"
    secret.write_text("canary")
    texts: list[str] = []
    monkeypatch.setattr(
        placement_preview, "_plan_saved_files", lambda _context: texts.append(secret.read_text())
    )
    monkeypatch.setenv("NF_CONFINE", "true")
    with pytest.raises(OutsideConfinement):
        build_saved_preview(str(tree))
    monkeypatch.setenv("NF_CONFINE", "false")
    build_saved_preview(str(tree))
    assert texts == ["canary"]
