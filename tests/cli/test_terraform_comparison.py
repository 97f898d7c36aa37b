"""Tests of unknown values through plan, apply and a second plan, as in `terraform`.

Every output is compared.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nexusform.cli.main import run_command_line
from tests.programs import find_program

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
  UM   = jsondecode("{\"a\":\"${timestamp()}\"}")
  UN   = jsondecode("${length(timestamp())}")
  UB   = timestamp() != ""
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
    "var.enabled ? local.UM : {}",
    "var.enabled ? { a = 1 } : local.UM",
    "!var.enabled ? { a = 1 } : local.UM",
    "(var.enabled ? local.UM : {}).a",
    '(var.enabled ? { a = "q" } : local.UM).a',
    "local.UB ? local.UM : {}",
    "local.UB ? {} : local.UM",
    "local.UB ? [] : [local.U]",
    "local.UB ? [1] : [local.U[0]]",
    "local.UB ? { a = 1 } : { a = local.UN }",
    "local.UB ? { a = 1 } : { b = local.UN }",
    "var.enabled ? { a = 1 } : { b = local.UN }",
    "var.enabled ? [1] : [local.UN, 2]",
    "[for k, v in local.UM : k]",
    "{ for k, v in local.UM : k => v }",
    "{ for k, v in local.UM : v => k... }",
    "length(local.UM)",
    "keys(local.UM)",
    "values(local.UM)",
    "merge(local.UM, { z = 1 })",
    "merge({ z = 1 }, local.UB ? {} : { b = 1 })",
    'lookup(local.UM, "a", "none")',
    'lookup(local.UM, "zz", "none")',
    "local.UM.a",
    'local.UM["a"]',
    'try(local.UM.zz, "none")',
    'try(local.UM.a, "none")',
    "can(local.UM.a)",
    'contains(local.U, "x")',
    "element(local.U, 0)",
    "element([local.U, 1], 1)",
    "local.U[0]",
    "[local.U, local.UM][1]",
    'zipmap(["a", "b"], [local.U, 1])',
    "zipmap(keys(local.UM), [1])",
    "concat([1], local.U, [2])",
    "length(concat([1], [local.U]))",
    "flatten([local.U, [1]])",
    'distinct(concat(local.U, ["x"]))',
    "sort(local.U)",
    "reverse(local.U)",
    "slice(local.U, 0, 1)",
    "tolist(local.U)",
    "toset(local.U)",
    "tomap(local.UM)",
    "tostring(local.U[0])",
    "tonumber(local.UN)",
    "local.UN + 1",
    'local.UN > 0 ? "big" : "small"',
    'local.UN == 20 ? ["a"] : []',
    'length(local.UN == 20 ? ["a"] : ["b"])',
    'length(local.UN == 20 ? tolist(["a"]) : tolist(["b"]))',
    'local.UN == 20 ? tolist(["a"]) : tolist(["b"])',
    '[for s in(local.UN == 20 ? tolist(["a"]) : tolist(["b"])) : "x"]',
    'coalesce(local.T, "x")',
    'coalesce("x", local.T)',
    'coalesce(local.U[0], "x")',
    "one(local.U)",
    "local.U == null",
    'local.U != null ? "there" : "not"',
    "local.T == null",
    '"${local.T}-x" == null',
    'formatlist("%s", local.U)',
    'formatlist("%v", [local.U, 1])',
    'format("%s", local.U[0])',
    'format("x-%s", local.T) == "y"',
    'startswith("x-${local.T}", "x")',
    'startswith("x-${local.T}", "y")',
    'endswith("${local.T}-x", "x")',
    'join(",", local.U)',
    'join(",", ["a", local.T])',
    'length(split("T", local.T))',
    'length(regexall("[0-9]{4}", local.T))',
    'regex("([0-9]{4})-[0-9]{2}", local.T)[0] == "x"',
    "jsonencode(local.UM)",
    "jsondecode(jsonencode(local.UM))",
    "yamlencode(local.UM)",
    'upper("x-${local.T}")',
    'length(upper("x-${local.T}"))',
    "max(1, local.UN)",
    "abs(local.UN)",
    "ceil(local.UN / 3)",
    "range(local.UN)",
    "length(range(local.UN))",
    "length(range(local.UN == 20 ? 3 : 3))",
    'cidrhost("10.0.0.0/24", local.UN)',
    'setunion(toset(local.U), ["x"])',
    'setproduct(local.U, ["x"])',
    'setproduct([local.T], ["x"])',
    "transpose({ a = [local.T] })",
    'chunklist([local.T, "a"], 1)',
    'matchkeys(["a"], ["k"], [local.T])',
    'index(["a", local.T], "a")',
    'sha1(local.T) == "x"',
    "length(sha1(local.T))",
    "substr(local.T, 0, 4)",
    "!local.UB",
    "-local.UN",
    '"%{ if local.UB }a%{ else }b%{ endif }"',
    '"%{ for s in local.U }${s}%{ endfor }"',
    '"%{ if var.enabled }a%{ else }${local.T}%{ endif }"',
    "[local.T][*]",
    "local.T[*]",
    "local.UN[*]",
    "local.UM[*].a",
    "[local.UM][*].a",
    "nonsensitive(sensitive(local.T))",
    "anytrue([local.UB, true])",
    "alltrue([local.UB, true])",
    "sum([local.UN, 1])",
    'try((var.extra == null ? {} : var.extra).owner, "none")',
    'formatlist("%v-x", local.USET)',
    '[for i, v in local.U : "${i}-${v}"]',
    "{ for i, v in local.U : i => v }",
    "{ for v in local.USET : v => 1 }",
    'length({ for v in local.USET : "k" => v... })',
    "[for v in local.USET : 1]",
    '"%{ for v in local.USET }x%{ endfor }"',
    "local.USET",
    "length(local.USET)",
    'contains(local.USET, "x")',
    'contains(local.USET, "zz")',
    'setintersection(local.USET, ["x"])',
    'setsubtract(local.USET, ["x"])',
    "toset([for s in local.USET : upper(s)])",
    "tolist(local.USET)",
    "one(toset([local.T]))",
    'one([for s in local.USET : s if s == "x"])',
    "element(tolist(local.USET), 0)",
    'zipmap(["a"], [local.T])',
    "{ (local.T) = 1 }",
    '{ "k-${local.T}" = 1, b = 2 }',
    'keys({ "k-${local.T}" = 1 })',
    "merge({ a = 1 }, { (local.T) = 2 })",
    'lookup({ (local.T) = 1 }, "a", 2)',
    "jsonencode([local.T, 1])",
    'jsonencode({ a = local.T }) == ""',
    "yamlencode([local.T])",
    "base64decode(base64encode(local.T))",
    "sha256(local.T) == local.T",
    'formatdate("YYYY", local.T)',
    'timeadd(local.T, "1h") == local.T',
    'timecmp(local.T, "2000-01-01T00:00:00Z")',
    'replace(local.T, "/[0-9]/", "")',
    'trimspace("  ${local.T} ")',
    "indent(2, local.T)",
    "chomp(local.T)",
    'substr("abc-${local.T}", 0, 3)',
    'strrev(local.T) == ""',
    'strcontains(local.T, "T")',
    'startswith(local.T, "2")',
    'length(local.T) > 5 ? "long" : "short"',
    'length("abcdefg-${local.T}") > 5 ? "long" : "short"',
    "local.UB ? 1 : 1",
    "local.UB ? tolist([]) : tolist([])",
    '(local.UB ? toset(["a"]) : toset(["b"]))',
    '(local.UB ? 5 : 7) > 4 ? "y" : "n"',
    "range(local.UB ? 2 : 2)",
    'sort(local.UB ? tolist(["b"]) : tolist(["a"]))',
    '(local.UB ? "a" : "b") != null',
    'local.UB ? { a = [1], b = "x" } : { a = [2], b = "y" }',
    '(local.UB ? { a = [1], b = "x" } : { a = [2], b = "y" }).a',
    'length((local.UB ? { a = [1], b = "x" } : { a = [2], b = "y" }).a)',
    '(local.UB ? [1, "a"] : [2, "b"])[1]',
    'element(local.UB ? [1, "a"] : [2, "b"], 3)',
    '[local.T, "a"][*]',
    '[{ a = local.T }, { a = "b" }][*].a',
    "local.UM[*]",
    "(local.UB ? tolist([{ a = 1 }]) : tolist([{ a = 2 }]))[*].a",
    'concat(local.UB ? tolist(["a"]) : tolist(["b"]), local.U)',
    'flatten([[local.T], [["x"]]])',
    'flatten([local.UB ? tolist(["a"]) : tolist(["b"]), "z"])',
    "distinct([local.T, local.T])",
    'compact([local.T, ""])',
    "coalesce(null, local.T)",
    'coalesce("", local.T, "x")',
    'coalescelist(local.UB ? tolist(["a"]) : tolist(["b"]), ["c"])',
    "chunklist(local.U, 1)",
    "index([local.T], local.T)",
    "transpose({ a = local.U })",
    "setproduct(local.U, local.U)",
    "sum([local.UN, 1, 2])",
    "min(local.UN, 5)",
    "floor(local.UN / 7)",
    "pow(local.UN, 2)",
    "signum(local.UN)",
    "parseint(tostring(local.UN), 10)",
    "log(local.UN, 10) > 1",
    'cidrsubnet("10.0.0.0/8", local.UN - 12, 1)',
    "tobool(local.UB)",
    "nonsensitive(sensitive(local.UN))",
    "issensitive(local.T)",
    "can(local.U[5])",
    "can(local.UM.zz)",
    'try(local.U[5], "x")',
    "try(tonumber(local.T), 7)",
    'try(local.UM["a"], local.T)',
)  # fmt: skip

_Command: TypeAlias = Callable[[list[str]], str]


def _run_plan_apply_plan(command: _Command, directory: Path, ending: str) -> dict[str, list[Any]]:
    """Return per output its planned value, its applied value, and its next change.

    The next change is that of the next plan.
    """
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

    def replace_timestamps(value: Any) -> Any:
        return json.loads(moment.sub("MOMENT", json.dumps(value)))

    return {
        text: [
            first[f"o{n}"].get("after"),
            _contains_unknown(first[f"o{n}"]["after_unknown"]),
            replace_timestamps(values[f"o{n}"]["type"]),
            replace_timestamps(values[f"o{n}"]["value"]),
            second[f"o{n}"]["actions"],
        ]
        for n, text in enumerate(_EXPRESSIONS)
    }


def _contains_unknown(part: Any) -> bool:
    if isinstance(part, Mapping):
        return any(map(_contains_unknown, part.values()))
    return any(map(_contains_unknown, part)) if isinstance(part, list) else bool(part)


@pytest.mark.skipif(find_program("terraform") is None, reason="terraform is not installed")
def test_unknown_values_are_as_in_terraform(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ours = tmp_path / "ours"
    theirs = tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    (tmp_path / "empty.tfrc").write_text("")
    environment = {
        **os.environ,
        "TF_CLI_CONFIG_FILE": str(tmp_path / "empty.tfrc"),
        "CHECKPOINT_DISABLE": "1",
    }

    def run_nexusform(arguments: list[str]) -> str:
        capfd.readouterr()
        code = run_command_line([f"-chdir={ours}", *arguments])
        captured = capfd.readouterr()
        assert code == 0, captured.out + captured.err
        return captured.out

    def run_terraform(arguments: list[str]) -> str:
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

    expected = _run_plan_apply_plan(run_terraform, theirs, ".tf")
    assert _run_plan_apply_plan(run_nexusform, ours, ".nf.hcl") == expected
