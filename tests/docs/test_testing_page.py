"""Tests of docs/testing.md: its configuration and test file print the documented output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.docs.documented_domains import of_documented_domains

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```hcl\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
PRINTED = re.findall(r"```console\n\$ nexusform test\n(.*?)```", PAGE, re.DOTALL)


@of_documented_domains
def test_example_of_the_page_prints_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sorted(FILES) == ["main.nf.hcl", "tests/spread.nftest.hcl"]
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    assert run_command_line(["fmt", "-check", "-recursive"]) == 0
    assert run_command_line(["test"]) == 0
    assert [capsys.readouterr().out] == PRINTED


@of_documented_domains
def test_every_argument_of_run_blocks_is_documented() -> None:
    from nexusform.domains.testing.configuration.test_file_blocks import FILE_SCHEMA, RUN_SCHEMA

    names = {*FILE_SCHEMA.blocks, *RUN_SCHEMA.attributes, *RUN_SCHEMA.blocks} - {
        "test",
        "state_key",
    }
    assert [name for name in sorted(names) if name not in PAGE] == []
