"""Tests of module calls: their arguments and outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.planning.harness import build_state, list_actions, list_errors, plan

_VARIABLE = 'variable "size" {\n  type     = string\n  nullable = false\n%s}\n'
_MODULE = f'{_VARIABLE}output "size" {{\n  value = var.size\n}}\n'
_CALL = (
    'module "m" {\n  source = "./m"\n  size   = null\n}\noutput "size" {\n  value = '
    "module.m.size\n}\n"
)


def _plan_call(directory: Path, default: str) -> int:
    (directory / "m").mkdir()
    (directory / "m" / "main.nf.hcl").write_text(_MODULE % default)
    (directory / "main.nf.hcl").write_text(_CALL)
    return run_command_line(["plan", "-no-color"])


def test_null_for_non_nullable_variable_is_an_error_at_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _plan_call(tmp_path, "") == 1
    error = capsys.readouterr().err
    assert "Required variable not set" in error
    assert 'on main.nf.hcl line 3, in module "m"' in error


def test_null_selects_default_of_non_nullable_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _plan_call(tmp_path, '  default = "small"\n') == 0
    assert '+ size = "small"' in capsys.readouterr().out


@pytest.mark.parametrize("source", ['"./nowhere"', "null", '"registry/module"'])
def test_unreadable_module_gives_exactly_one_error(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(
        f'module "m" {{\n  source = {source}\n}}\noutput "size" {{\n  value = module.m.size\n}}\n'
    )
    assert run_command_line(["plan", "-no-color"]) == 1
    error = capsys.readouterr().err
    assert error.count("Error:") == 1
    assert "on main.nf.hcl line 2" in error


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_error_in_a_module_with_several_readers_is_reported_once(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "main.nf.hcl").write_text(
        'variable "x" {\n}\noutput "o" {\n  value = tonumber("q${var.x}")\n}\n'
    )
    (tmp_path / "b" / "main.nf.hcl").write_text(
        'variable "y" {\n  type = string\n  validation {\n'
        '    condition     = length(var.y) > tonumber("q")\n    error_message = "no"\n  }\n}\n'
        'output "p" {\n  value = var.y\n}\n'
    )
    calls = ['module "a" {\n  source = "./a"\n  x = 1\n}\n']
    calls += [
        f'module "{name}" {{\n  source = "./b"\n  y = {value}\n}}\n'
        for name, value in (("b", "module.a.o"), ("c", "module.b.p"))
    ]
    (tmp_path / "main.nf.hcl").write_text("".join(calls))
    assert run_command_line([command, "-no-color"]) == 1
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert text.count('cannot convert "q1" to number') == 1
    assert text.count('cannot convert "q" to number') == 1


# --- prevent_destroy of removed instances --------------------------------------------------------

PROTECTED = """
variable "name" {
  type = string
}
variable "protected" {
  type = bool
}
locals {
  protected = var.protected && nexusform.workspace == "default"
}
resource "nexus_site" "s" {
  name = var.name
  lifecycle {
    prevent_destroy = PROTECTION
  }
}
"""
CALL = """
module "m" {
  source    = "./inner"
  REPETITION
  name      = "site-${KEY}"
  protected = KEY == PROTECTED_KEY
}
"""


@pytest.mark.parametrize("protection", ["var.protected", "local.protected"])
@pytest.mark.parametrize(
    ("before", "after", "key", "protected_key", "other_key"),
    [
        ('for_each = toset(["x", "y"])', 'for_each = toset(["x"])', "each.value", '"y"', '"z"'),
        ("for_each = { x = 1, y = 2 }", "for_each = { x = 1 }", "each.key", '"y"', '"z"'),
        ("count = 2", "count = 1", "count.index", "1", "7"),
    ],
)
def test_prevent_destroy_of_a_removed_module_instance_is_known(
    protection: str, before: str, after: str, key: str, protected_key: str, other_key: str
) -> None:
    def build_files(repetition: str, protected: str) -> dict[str, str]:
        call = CALL.replace("PROTECTED_KEY", protected).replace("KEY", key)
        return {
            "main.nf.hcl": call.replace("REPETITION", repetition),
            "inner/main.nf.hcl": PROTECTED.replace("PROTECTION", protection),
        }

    state = build_state(build_files(before, other_key))
    (error,) = list_errors(plan(build_files(after, protected_key), state))
    assert error.id == "prevented-destroy"
    free = plan(build_files(after, other_key), state)
    assert list_errors(free) == []
    assert sorted(list_actions(free).values()) == ["delete"]


def test_unknown_prevent_destroy_of_a_removed_instance_names_the_way_out() -> None:
    def build_files(repetition: str) -> dict[str, str]:
        call = CALL.replace("KEY == PROTECTED_KEY", "each.value").replace("KEY", "each.key")
        return {
            "main.nf.hcl": call.replace("REPETITION", repetition),
            "inner/main.nf.hcl": PROTECTED.replace("PROTECTION", "var.protected"),
        }

    state = build_state(build_files("for_each = { x = false, y = false }"))
    (error,) = list_errors(plan(build_files("for_each = { x = false }"), state))
    assert error.id == "invalid-prevent-destroy"
    assert """`nexusform apply -destroy -target='module.m["y"].nexus_site.s'`""" in error.detail
