"""Tests of `lifecycle { enabled = expr }` for resources and modules.

Plans are as by OpenTofu 1.12.6.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

CONFIGURATION = """
variable "on" { default = true }
resource "nexus_site" "s" {
  lifecycle { enabled = var.on }
}
module "m" {
  source = "./m"
  lifecycle { enabled = var.on }
}
output "whole" { value = nexus_site.s }
output "name" { value = try(nexus_site.s.name, "off") }
output "module" { value = module.m == null ? "off" : module.m.name }
"""
MISTAKES = """
resource "nexus_site" "a" {
  count = 1
  lifecycle { enabled = true }
}
resource "nexus_site" "b" {
  lifecycle { enabled = null }
}
resource "nexus_site" "c" {
  lifecycle { enabled = "x" }
}
resource "nexus_site" "d" {
  lifecycle { enabled = sensitive(true) }
}
resource "nexus_site" "e" {
  lifecycle { enabled = uuid() == "x" }
}
"""


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    Path("m/main.nf.hcl").write_text(
        'resource "nexus_site" "t" {}\noutput "name" {\n  value = nexus_site.t.name\n}\n'
    )


def test_disabled_block_has_no_instance_and_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    Path("main.nf.hcl").write_text(CONFIGURATION)

    def run(*words: str) -> str:
        code = run_command_line([*words])
        captured = capsys.readouterr()
        assert code == 0, captured.out + captured.err
        return captured.out

    assert "2 added" in run("apply", "-auto-approve")
    assert json.loads(run("output", "-json"))["name"]["value"] == "s"
    assert "enabled is false" in run("plan", "-var=on=false")
    assert "2 destroyed" in run("apply", "-auto-approve", "-var=on=false")
    outputs = json.loads(run("output", "-json"))
    assert [outputs.get(name, {}).get("value") for name in ("whole", "name", "module")] == [
        None,
        "off",
        "off",
    ]


def test_invalid_enabled_arguments_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    Path("main.nf.hcl").write_text(MISTAKES.partition('resource "nexus_site" "b"')[0])
    assert run_command_line(["validate"]) == 1
    assert '"count" and "enabled" are mutually exclusive' in capsys.readouterr().err
    Path("main.nf.hcl").write_text(
        'resource "nexus_site" "b"' + MISTAKES.partition('resource "nexus_site" "b"')[2]
    )
    assert run_command_line(["plan"]) == 1
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert said.count("Invalid enabled argument") == 3
    assert said.count("Unknown enabled argument") == 1
