"""Tests of module calls: their arguments and outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

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
