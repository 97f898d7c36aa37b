"""Unknown values through plan, apply and a second plan: every output as `terraform` has it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nexusform.cli.main import run

_HEAD = r"""
variable "enabled" {
  default = true
}
variable "extra" {
  type    = any
  default = null
}
variable "zones" {
  type    = any
  default = ["1", "2"]
}
variable "sites" {
  type    = any
  default = { a = { name = "n" } }
}
locals {
  T    = timestamp()
  USET = toset([timestamp(), "x"])
  U    = jsondecode("[\"${timestamp()}\"]")
}
module "m" {
  source = "./m"
  a      = local.U
  b      = true ? local.U : []
  c      = { x = local.U, y = [local.U] }
}
"""

_MODULE = """
variable "a" {}
variable "b" {
  type = any
}
variable "c" {
  type = object({ x = any, y = list(any) })
}
output "a" {
  value = var.a
}
output "b" {
  value = var.b
}
output "c" {
  value = var.c
}
output "d" {
  value = var.a == null ? [] : var.a
}
"""

_EXPRESSIONS = (
    'length(var.enabled ? [for s in local.USET : s if s != ""] : [])',
    'var.enabled ? [for s in local.USET : s if s != ""] : []',
    '!var.enabled ? [for s in local.USET : s if s != ""] : []',
    "(var.extra == null ? {} : var.extra)",
    '(var.extra == null ? { owner = "me" } : var.extra).owner',
    '(var.zones != null ? var.zones : ["1"])[1]',
    "(var.enabled ? var.sites : {}).a.name",
    'true ? ["a"] : local.U',
    "false ? [] : local.U",
    "length(true ? [] : local.U)",
    'local.T != "" ? ["a"] : local.U',
    'local.T != "" ? local.U : ["a"]',
    'length(local.T != "" ? [] : local.U)',
    "false ? null : local.U",
    'local.T == "" ? null : local.U',
    'formatlist("%v", local.U)',
    'length(formatlist("%s-%s", ["a", "b"], local.T))',
    "[for s in local.U : s]",
    '{ for s in ["a"] : s => local.U }',
    "local.U[*]",
    "[local.U, 1][*]",
    "{ a = local.U, b = 1 }.b",
    "module.m.a",
    "module.m.b",
    "module.m.c",
    "length(module.m.c.y)",
    "length(module.m.d)",
    'merge({ a = 1 }, local.U[0] == "x" ? {} : { b = 2 })',
    'concat(["a"], local.U)',
    'flatten([["a"], local.U])',
    'try(local.U.x, "none")',
    "can(local.U.x)",
    "coalescelist([], local.U)",
    "lookup({ a = 1 }, local.T, 2)",
    'length(tolist([local.U[0], "a"]))',
    'length(toset([local.T, "a"]))',
    "jsonencode(local.U)",
    "local.U != null ? 1 : 0",
    "length(local.U) > 0 ? 1 : 0",
    "length(local.USET) > 0 ? 1 : 0",
    'startswith("a-${local.T}", "a-")',
    '"a-${local.T}" == "" ? 1 : 2',
    'setunion(local.USET, ["b"])',
    'setproduct(local.USET, ["b"])',
    'contains(["a", local.T], "a")',
    "one([local.U])",
    'sort(["b", local.T])',
    "tomap({ a = local.U })",
    "true ? [1] : local.U",
    "coalesce(1, local.U[0])",
    "toset([1, 10, 2, local.U[0]])",
    "true ? toset([1, 10, 2]) : toset(local.U)",
    'local.T == "" ? tolist(["a"]) : tolist(["b"])',
    '"a-${local.T}"[*]',
    'coalescelist(local.T == "" ? tolist(["a"]) : tolist([]), tolist(["c"]))',
    'matchkeys(["a"], ["b"], local.U)',
)  # fmt: skip

_Command: TypeAlias = Callable[[list[str]], str]


def _journey(command: _Command, directory: Path, ending: str) -> dict[str, list[Any]]:
    """Of every output: what the plan knows, what it is, and what the next plan does to it."""
    outputs = [f'output "o{n}" {{\n  value = {text}\n}}\n' for n, text in enumerate(_EXPRESSIONS)]
    (directory / f"main{ending}").write_text(_HEAD + "".join(outputs))
    (directory / "m").mkdir()
    (directory / "m" / f"main{ending}").write_text(_MODULE)
    command(["init"])
    command(["validate"])
    command(["plan", "-out=first"])
    first = json.loads(command(["show", "-json", "first"]))["output_changes"]
    command(["apply", "first"])
    values = json.loads(command(["output", "-json"]))
    command(["plan", "-out=second"])
    second = json.loads(command(["show", "-json", "second"]))["output_changes"]
    moment = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

    def shown(value: Any) -> Any:
        return json.loads(moment.sub("MOMENT", json.dumps(value)))

    return {
        text: [
            first[f"o{n}"].get("after"),
            _any_unknown(first[f"o{n}"]["after_unknown"]),
            shown(values[f"o{n}"]["type"]),
            shown(values[f"o{n}"]["value"]),
            second[f"o{n}"]["actions"],
        ]
        for n, text in enumerate(_EXPRESSIONS)
    }


def _any_unknown(part: Any) -> bool:
    if isinstance(part, Mapping):
        return any(map(_any_unknown, part.values()))
    return any(map(_any_unknown, part)) if isinstance(part, list) else bool(part)


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_unknown_values_are_as_terraform_has_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    (tmp_path / "empty.tfrc").write_text("")
    environment = {
        **os.environ,
        "TF_CLI_CONFIG_FILE": str(tmp_path / "empty.tfrc"),
        "CHECKPOINT_DISABLE": "1",
    }

    def nexusform(arguments: list[str]) -> str:
        capfd.readouterr()
        code = run([f"-chdir={ours}", *arguments])
        captured = capfd.readouterr()
        assert code == 0, captured.out + captured.err
        return captured.out

    def terraform(arguments: list[str]) -> str:
        done = subprocess.run(
            ["terraform", f"-chdir={theirs}", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    expected = _journey(terraform, theirs, ".tf")
    assert _journey(nexusform, ours, ".nf.hcl") == expected
