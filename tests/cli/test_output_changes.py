"""Tests of changed outputs in -details: null, maps and sets as Terraform prints them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.programs import find_program

CONFIGURATION = """\
variable "n" {
  type    = number
  default = null
}
output "o" {
  value = { a = var.n, b = 1, c = null }
}
output "m" {
  value = tomap({ x = var.n, y = 1, "a b" = 2 })
}
output "l" {
  value = [{ a = var.n }]
}
output "s" {
  value = toset(concat(["a", "b", "c"], var.n == null ? [] : ["d"]))
}
output "e" {
  value = { for k in (var.n == null ? [] : ["k"]) : k => { z = null } }
}
"""
CREATED = """\
  + m = {
      + "a b" = 2
      + x     = null
      + y     = 1
    }
  + o = {
      + a = null
      + b = 1
      + c = null
    }
"""
CHANGED = """\
Changes to Outputs:
  ~ e = {
      + k = {
          + z = null
        }
    }
  ~ l = [
      ~ {
          ~ a = null -> 2
        },
    ]
  ~ m = {
      ~ x     = null -> 2
        # (2 unchanged attributes hidden)
    }
  ~ o = {
      ~ a = null -> 2
        # (2 unchanged attributes hidden)
    }
  ~ s = [
        # (2 unchanged elements hidden)
        "c",
      + "d",
    ]
"""


def test_outputs_are_compared_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run_command_line(["plan", "-details"]) == 0
    assert CREATED in capsys.readouterr().out
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert run_command_line(["plan", "-details", "-var=n=2"]) == 0
    assert CHANGED in capsys.readouterr().out


@pytest.mark.skipif(find_program("terraform") is None, reason="terraform is not installed")
def test_terraform_prints_the_same(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(CONFIGURATION)
    (tmp_path / "empty.tfrc").write_text("")
    texts = [
        subprocess.run(
            ["terraform", *words, "-no-color"],
            cwd=tmp_path,
            env={**os.environ, "TF_CLI_CONFIG_FILE": str(tmp_path / "empty.tfrc")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for words in (["init"], ["plan"], ["apply", "-auto-approve"], ["plan", "-var=n=2"])
    ]
    assert CREATED in texts[1]
    assert CHANGED in texts[3]
