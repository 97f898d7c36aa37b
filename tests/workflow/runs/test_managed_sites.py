"""Tests of the warning about sites that another workspace manages."""

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = 'resource "nexus_site" "s" {\n  name = "NAME"\n}\n'


def read_output(capfd: pytest.CaptureFixture[str]) -> str:
    captured = capfd.readouterr()
    return " ".join((captured.out + captured.err).replace("│", " ").split())


def test_new_workspace_warns_about_a_managed_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE.replace("NAME", "lab"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert "manages site" not in read_output(capfd)
    assert run_command_line(["workspace", "new", "staging"]) == 0
    assert run_command_line(["plan", "-details"]) == 0
    output = read_output(capfd)
    assert 'The workspace "default" manages site lab' in output
    assert "nexusform workspace select default" in output
    Path("main.nf.hcl").write_text(SITE.replace("NAME", "other"))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert "manages site" not in read_output(capfd)
