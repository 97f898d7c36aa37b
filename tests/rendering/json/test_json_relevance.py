"""Tests of `relevant_attributes` against Terraform 1.11.

Terraform runs with terraform_data in the same configuration.

`relevant_attributes/expected.json` is its output, with terraform_data read as nexus_vm_sku and
`input` as `disk_gib`.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

CASES = Path(__file__).with_name("relevant_attributes")
EXPECTED: dict[str, Any] = json.loads((CASES / "expected.json").read_text())
ARGUMENTS = {
    "first": (),
    "no change": (),
    "all change": ("-var=n=2",),
    "one more": ("-var=bs=3",),
    "destroy": ("-destroy",),
    "refresh only": ("-refresh-only",),
}


@pytest.fixture(scope="module")
def applied_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the configuration directory after an apply."""
    directory = tmp_path_factory.mktemp("stands") / "it"
    shutil.copytree(CASES, directory)
    before = Path.cwd()
    os.chdir(directory)
    try:
        assert run_command_line(["apply", "-auto-approve"]) == 0
    finally:
        os.chdir(before)
    return directory


@pytest.mark.parametrize("name", EXPECTED)
def test_relevant_attributes_equal_terraform(
    name: str,
    applied_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(applied_directory, tmp_path / "it")
    monkeypatch.chdir(tmp_path / "it")
    if name == "first":
        shutil.rmtree("state")
    assert run_command_line(["plan", "-out=p", *ARGUMENTS[name]]) == 0
    capsys.readouterr()
    assert run_command_line(["show", "-json", "p"]) == 0
    assert json.loads(capsys.readouterr().out)["relevant_attributes"] == EXPECTED[name]
