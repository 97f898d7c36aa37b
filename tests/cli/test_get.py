from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run


def test_modules_are_listed_callers_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m" / "n").mkdir(parents=True)
    (tmp_path / "main.nf.hcl").write_text(
        'module "b" {\n  source = "./m"\n}\nmodule "a" {\n  source = "./m/n"\n}\n'
    )
    (tmp_path / "m" / "main.nf.hcl").write_text('module "inner" {\n  source = "./n"\n}\n')
    (tmp_path / "m" / "n" / "main.nf.hcl").write_text("locals {}\n")
    assert run(["get"]) == 0
    assert capsys.readouterr().out == "- b in m\n- b.inner in m/n\n- a in m/n\n"


def test_a_module_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text('module "b" {\n  source = "./m"\n}\n')
    assert run(["get"]) == 1
    assert 'The directory "m" cannot be read' in capsys.readouterr().err
