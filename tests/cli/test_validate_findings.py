from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """
resource "nexus_site" "s" {
}
resource "nexus_rack" "r" {
  count         = 4
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 2
}
resource "nexus_kubernetes_cluster" "k" {
  site_id = nexus_site.s.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "p" {
    count              = 4
    vm_sku_name        = "NC_G6_28_v1"
    availability_zones = ["r0", "r1"]
  }
}
"""


def _validate(text: str, directory: Path, *flags: str) -> int:
    (directory / "main.nf.hcl").write_text(text)
    return run_command_line([f"-chdir={directory}", "validate", *flags])


def test_validate_reports_findings_from_literals(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _validate(SITE, tmp_path) == 0
    captured = capfd.readouterr()
    assert "zones-pinned" in captured.out + captured.err
    assert "no-surge-capacity" not in captured.out + captured.err


def test_variable_without_value_disables_findings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _validate(SITE + 'variable "x" {\n  type = string\n}\n', tmp_path) == 0
    captured = capfd.readouterr()
    assert "zones-pinned" not in captured.out + captured.err


def test_portable_names_syntax_unreadable_for_hcl2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _validate("locals {\n  x = !!true\n}\n", tmp_path, "-portable") == 0
    captured = capfd.readouterr()
    told = captured.out + captured.err
    assert "Not readable with hcl2" in told
    assert "main.nf.hcl line 2" in told


def test_invalid_count_and_exposed_secret_are_errors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
variable "secret" {
  type      = string
  sensitive = true
}
resource "nexus_site" "a" {
  count = -1
  name  = "a${count.index}"
}
output "shown" {
  value = var.secret
}
"""
    assert _validate(text, tmp_path) == 1
    captured = capfd.readouterr()
    assert "Invalid count argument" in captured.err + captured.out
    assert "Output refers to sensitive values" in captured.err + captured.out


def test_failed_precondition_hides_no_problem_from_validate(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A plan reports the precondition instead; validate reports no result of conditions."""
    text = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = local.n - 5
  lifecycle {
    precondition {
      condition     = local.n > 5
      error_message = "n is too small."
    }
  }
}
locals {
  n = 1
}
"""
    assert _validate(text, tmp_path) == 1
    assert "must be between 0 and 256, not -4" in capfd.readouterr().err
