"""Tests of `const = true`: variables in module sources, as in Terraform 1.15 (modules/sources, "const")."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

ROOT = """
variable "kind" {
  type  = string
  const = true
}
variable "other" {
  default = "a"
}
locals {
  directory = "./modules/${var.kind}"
}
module "m" {
  source = local.directory
  part   = "part"
}
output "text" {
  value = module.m.text
}
"""
MODULE = """
variable "part" {
  const = true
}
module "part" {
  source = "./${var.part}"
}
output "text" {
  value = module.part.text
}
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "main.nf.hcl").write_text(ROOT)
    for kind in ("a", "b"):
        part = tmp_path / "modules" / kind / "part"
        part.mkdir(parents=True)
        (part.parent / "main.nf.hcl").write_text(MODULE)
        (part / "main.nf.hcl").write_text(f'output "text" {{\n  value = "{kind}"\n}}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run_command_line([*arguments])
    text = capsys.readouterr()
    return code, text.out + text.err


def test_constant_selects_the_module(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert '+ text = "b"' in run(capsys, "plan", "-var", "kind=b", "-out=b.nfplan")[1]
    assert run(capsys, "apply", "b.nfplan")[0] == 0
    assert '~ text = "b" -> "a"' in run(capsys, "plan", "-var", "kind=a")[1]
    assert (directory / "b.nfplan").exists()


def test_show_config_prints_selected_modules(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `tofu show -config -json`."""
    code, text = run(capsys, "show", "-config", "-json", "-var", "kind=b")
    assert code == 0
    calls = json.loads(text)["root_module"]["module_calls"]
    assert calls["m"]["source"] == "./modules/b"
    assert calls["m"]["module"]["outputs"] == {
        "text": {"expression": {"references": ["module.part.text", "module.part"]}}
    }
    assert run(capsys, "show", "-config", "-json")[0] == 1
    assert run(capsys, "show", "-config")[0] == 1
    assert directory.exists()


def test_missing_value_is_one_error(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("plan", "validate"):
        code, text = run(capsys, command)
        assert code == 1
        assert text.count("Error: ") == 1, text
        assert "No value for required variable" in text
    assert directory.exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("${var.kind}", "${var.other}", 'var.other is not constant. Add "const = true" to its variable block.'),
        ("${var.kind}", "${path.module}", "Only constant variables, and locals of these, may be used here."),
        ("const = true", "const = true\n  sensitive = true", "var.kind is sensitive: its value would be shown."),
        ('"part"', "var.other", "var.other is not constant"),
        ("./modules/${var.kind}", "${local.directory}", "cannot use its own result"),
    ],
)
def test_other_values_are_no_constants(
    directory: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    (directory / "main.nf.hcl").write_text(ROOT.replace(old, new))
    code, text = run(capsys, "plan", "-var", "kind=a")
    assert code == 1
    assert message in text
    assert text.count("Error: ") == 1, text


def test_run_block_cannot_change_a_constant(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "one.nftest.hcl").write_text('run "r" {\n  variables {\n    kind = "b"\n  }\n}\n')
    assert "modules were read with another value" in run(capsys, "test", "-var", "kind=a")[1]
