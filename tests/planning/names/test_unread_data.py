"""Tests of unreadable data: the error is reported once, not again at each use."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

USING = """
data "nexus_inventory" "i" {
  directory = "nowhere"
}
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  for_each      = data.nexus_inventory.i.racks
  site_id       = nexus_site.s.id
  name          = each.key
  machine_count = 1
}
"""


@pytest.mark.of_domains("azure")
def test_values_from_unreadable_data_give_no_further_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(USING)
    assert run_command_line(["plan"]) == 1
    told = capsys.readouterr().err
    assert "Unreadable file" in told
    assert "Invalid for_each argument" not in told
    (tmp_path / "main.nf.hcl").write_text(
        USING.replace("data.nexus_inventory.i.racks", "toset([timestamp()])")
        .replace("data", "# data", 1)
        .replace('  directory = "nowhere"\n}', "")
    )
    assert run_command_line(["plan"]) == 1
    assert "Invalid for_each argument" in capsys.readouterr().err
