"""Tests of the reports of 2026: each row of the table is run, and beside Terraform if it can."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_public_issues import translate_to_terraform
from tests.programs import find_program
from tests.run_rows import check_row

_DATA = Path(__file__).parent / "issues_of_2026.toml"
ISSUES: list[dict[str, Any]] = tomllib.loads(_DATA.read_text(encoding="utf-8"))["issue"]


def get_name(row: dict[str, Any]) -> str:
    return str(row["address"].removeprefix("https://github.com/"))


def test_table_has_forty_reports() -> None:
    addresses = [row["address"] for row in ISSUES]
    assert len(addresses) == len(set(addresses))
    assert len(addresses) >= 40
    assert all(row["title"] and row["answer"] for row in ISSUES)


@pytest.mark.parametrize("row", ISSUES, ids=get_name)
def test_answer_is_that_of_the_table(
    row: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    check_row(row, tmp_path, monkeypatch, capfd)


@pytest.mark.skipif(find_program("terraform") is None, reason="terraform is not installed")
@pytest.mark.parametrize("row", [row for row in ISSUES if "terraform" in row], ids=get_name)
def test_terraform_answers_the_same(row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "empty.tfrc").write_text("")
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(tmp_path / "empty.tfrc")}

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            ["terraform", *words, "-no-color"],
            cwd=tmp_path / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).replace("│", " ").split())

    for name, text in row["files"].items():
        path = tmp_path / "work" / name.replace(".nf.hcl", ".tf").replace(".nftest.", ".tftest.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(translate_to_terraform(text).replace("nexusform {", "terraform {"))
    for command in row.get("before", ()):
        directory = [word for word in command if word.startswith("-chdir=")]
        run(*directory, "init")
        words = [word.replace("state/nexusform.nfstate", "terraform.tfstate") for word in command]
        assert run(*words)[0] == 0
    code, printed = run("init", "-backend=false")
    # What init rejects has the errors of init.
    if code == 0 and row["command"][0] != "init":
        code, printed = run(*[word for word in row["command"] if word != "-details"])
    assert (code, row["terraform"] in printed) == (row["code"], True), printed
