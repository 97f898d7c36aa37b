"""What apply says when something comes out otherwise than planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexusform.cli.main import run

# Two moments may turn out to be one: what is said of their number in the plan comes out otherwise.
_TWO = "[for moment in toset([timestamp(), timestamp()]) : moment]"

_VM = """
provider "simulated" {
  fault {
    address   = "nexus_virtual_machine.v"
    operation = "create"
    answer    = { machine = "r0-bm01" }
  }
}
resource "nexus_site" "s" {
}
resource "nexus_rack" "r0" {
  site_id       = nexus_site.s.id
  machine_count = 2
}
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 50
}
locals {
  place = "at ${nexus_virtual_machine.v.machine}"
}
"""


def _apply(directory: Path, text: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    (directory / "main.nf.hcl").write_text(text)
    code = run([f"-chdir={directory}", "apply", "-auto-approve", "-no-color"])
    captured = capfd.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


def _outputs(directory: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert run([f"-chdir={directory}", "output", "-json"]) == 0
    return {name: each["value"] for name, each in json.loads(capfd.readouterr().out).items()}


def test_an_output_that_comes_out_otherwise_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = _apply(tmp_path, f'output "n" {{\n  value = length({_TWO})\n}}\n', capfd)
    assert code == 1
    assert 'Output "n" was known in the plan and came out otherwise. It was planned as 2 and is 1.' in said
    assert _outputs(tmp_path, capfd) == {}


def test_a_sensitive_output_is_only_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = f'output "n" {{\n  value     = "secret ${{length({_TWO})}}"\n  sensitive = true\n}}\n'
    code, said = _apply(tmp_path, text, capfd)
    assert code == 1
    assert 'Output "n" was known' in said
    assert "secret " not in said


def test_an_argument_that_comes_out_otherwise_is_an_error_before_anything_is_done(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = f'resource "nexus_site" "s" {{\n  name = "s${{length({_TWO})}}"\n}}\n'
    code, said = _apply(tmp_path, text, capfd)
    assert code == 1
    assert '"name" of nexus_site.s was known in the plan' in said
    assert 'It was planned as "s2" and is "s1".' in said
    assert "Creating" not in said


def test_outputs_known_only_after_apply_are_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = 'resource "nexus_site" "s" {\n}\noutput "at" {\n  value = timestamp()\n}\n'
    assert _apply(tmp_path, text, capfd)[0] == 0
    assert str(_outputs(tmp_path, capfd)["at"]).startswith("20")


def test_outputs_follow_a_missed_prediction(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (
        _VM
        + 'output "where" {\n  value = local.place\n}\n'
        + 'output "hush" {\n  value     = local.place\n  sensitive = true\n}\n'
        + 'output "site" {\n  value = nexus_site.s.name\n}\n'
    )
    code, said = _apply(tmp_path, text, capfd)
    assert code == 0
    assert "1 prediction missed" in said
    assert "nexus_virtual_machine.v: machine was predicted as r0-bm02, and is r0-bm01" in said
    assert "output: where was predicted as at r0-bm02, and is at r0-bm01" in said
    assert "output: hush was predicted as (sensitive value)" in said
    assert _outputs(tmp_path, capfd) == {"where": "at r0-bm01", "hush": "at r0-bm01", "site": "s"}
    assert run([f"-chdir={tmp_path}", "plan", "-detailed-exitcode"]) == 0


@pytest.mark.parametrize(
    ("value", "planned"),
    [
        ('length(var.enabled ? [for s in toset([timestamp(), "x"]) : s if s != ""] : [])', 2),
        ('var.enabled ? ["a"] : jsondecode(timestamp())', ["a"]),
    ],
)
def test_what_is_unknown_early_is_right_after_apply(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], value: str, planned: object
) -> None:
    text = f'variable "enabled" {{\n  default = true\n}}\noutput "o" {{\n  value = {value}\n}}\n'
    assert _apply(tmp_path, text, capfd)[0] == 0
    assert _outputs(tmp_path, capfd) == {"o": planned}


@pytest.mark.parametrize(
    "text",
    [
        "locals {\n  tags = var.extra == null ? {} : var.extra\n  owner = local.tags.owner\n}\n",
        'locals {\n  zone = (var.zones != null ? var.zones : ["1"])[1]\n}\n',
        "locals {\n  name = (var.on ? var.sites : {}).a.name\n}\n",
    ],
)
def test_validate_does_not_guess_types(tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str) -> None:
    variables = "".join(f'variable "{n}" {{\n  type = any\n}}\n' for n in ("extra", "zones", "sites"))
    (tmp_path / "main.nf.hcl").write_text(variables + 'variable "on" {\n  type = bool\n}\n' + text)
    assert run([f"-chdir={tmp_path}", "validate"]) == 0
    capfd.readouterr()
