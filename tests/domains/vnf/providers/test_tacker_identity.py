"""Test of a first plan without a connection: it records the project of Tacker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

EXAMPLE = Path(__file__).parents[4] / "examples" / "openstack-tacker"
LOGIN = {
    "OS_AUTH_URL": "http://127.0.0.1:9/v3",
    "OS_USERNAME": "user",
    "OS_PASSWORD": "password",
    "OS_USER_DOMAIN_NAME": "domain",
    "OS_PROJECT_DOMAIN_NAME": "domain",
}


def test_first_plan_without_a_connection_is_bound_to_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "example"
    shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns("state", ".nexusform"))
    monkeypatch.chdir(directory)
    configuration = Path("main.nf.hcl")
    kept_lines = [
        line for line in configuration.read_text().splitlines() if "auth     =" not in line
    ]
    configuration.write_text("\n".join(kept_lines))
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OS_PROJECT_NAME", "first")
    assert run_command_line(["plan", "-refresh=false", "-out=p"]) == 0
    monkeypatch.setenv("OS_PROJECT_NAME", "second")
    assert run_command_line(["apply", "-confine=false", "p"]) == 1
    text = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "project is first in the state, and second here" in text
    assert not Path("state").exists() or not list(Path("state").glob("*.nfstate"))
