"""Tests of a tree of modules from the first apply to the last destroy, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

MAIN = """\
variable "regions" {
  type = map(list(string))
}
variable "secret" {
  default   = "hush"
  sensitive = true
}
provider "simulated" {
  alias   = "other"
  reality = "reality.json"
}
module "region" {
  source   = "./region"
  for_each = var.regions
  name     = each.key
  zones    = each.value
  secret   = var.secret
}
resource "nexus_site" "extra" {
  provider = simulated.other
  name     = "extra"
}
resource "nexus_rack" "late" {
  depends_on    = [module.region]
  site_id       = nexus_site.extra.id
  machine_count = 1
}
output "machines" {
  value = { for name, region in module.region : name => region.machines }
}
output "notes" {
  value = module.region["east"].notes
}
output "secret" {
  value     = module.region["east"].secret
  sensitive = true
}
"""
REGION = """\
variable "name" {}
variable "zones" {}
variable "secret" {}
resource "nexus_site" "s" {
  name = var.name
}
module "zone" {
  source = "./zone"
  count  = length(var.zones)
  site   = nexus_site.s.id
  zone   = var.zones[count.index]
}
output "machines" {
  value = sum(module.zone[*].machines)
}
output "secret" {
  value     = "${var.secret}-${var.name}"
  sensitive = true
}
output "notes" {
  value = [file("${path.module}/note.txt"), file("note.txt"), path.root, module.zone[0].path]
}
"""
ZONE = """\
variable "site" {}
variable "zone" {}
resource "nexus_rack" "r" {
  count         = 3
  site_id       = var.site
  name          = "z${var.zone}r${count.index}"
  machine_count = 2
}
output "machines" {
  value = sum(nexus_rack.r[*].machine_count)
}
output "path" {
  value = path.module
}
"""


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_VAR_regions", '{ east = ["a", "b"], west = ["c"] }')
    Path("region/zone").mkdir(parents=True)
    Path("main.nf.hcl").write_text(MAIN)
    Path("region/main.nf.hcl").write_text(REGION)
    Path("region/zone/main.nf.hcl").write_text(ZONE)
    Path("note.txt").write_text("root")
    Path("region/note.txt").write_text("region")


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def test_three_module_levels_are_applied_kept_and_destroyed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "Success!" in run_command(capsys, "validate")
    out = run_command(capsys, "apply", "-auto-approve")
    assert "Apply complete! Resources: 13 added, 0 changed, 0 destroyed." in out
    assert "hush" not in out
    lines = out.splitlines()
    late = next(i for i, line in enumerate(lines) if line.startswith("nexus_rack.late: Creating"))
    done = [
        i for i, line in enumerate(lines) if line.startswith("module.region") and "complete" in line
    ]
    assert len(done) == 11
    assert late > max(done)
    assert json.loads(run_command(capsys, "output", "-json", "machines")) == {"east": 12, "west": 6}
    assert json.loads(run_command(capsys, "output", "-json", "notes")) == [
        "region",
        "root",
        ".",
        "region/zone",
    ]
    assert json.loads(run_command(capsys, "output", "-json", "secret")) == "hush-east"
    assert [o["id"] for o in json.loads(Path("reality.json").read_text())] == ["extra"]
    assert "No changes." in run_command(capsys, "plan")
    assert "Destroy complete! Resources: 13 destroyed." in run_command(
        capsys, "destroy", "-auto-approve"
    )
    assert json.loads(Path("reality.json").read_text()) == []


def test_override_file_has_priority(capsys: pytest.CaptureFixture[str]) -> None:
    Path("region/zone/override.nf.hcl").write_text('resource "nexus_rack" "r" {\n  count = 1\n}\n')
    out = run_command(capsys, "plan")
    assert "Plan: 7 to add, 0 to change, 0 to destroy." in out
