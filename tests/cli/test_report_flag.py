from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from nexusform.cli.main import run_command_line
from nexusform.cli.report_flag import find_code_origin
from nexusform.rendering.report.report_tree import CodeOrigin

CHECK = """
variable "x" {
  default = 1
}

check "c" {
  assert {
    condition     = var.x == 2
    error_message = "No."
  }
}
"""


def build_github_environment(clone: Path) -> dict[str, str]:
    return {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_SHA": "0123",
        "GITHUB_WORKSPACE": str(clone),
    }


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sites" / "lab").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "sites" / "lab")
    return tmp_path


def test_github_environment_gives_directory_and_commit(lab: Path) -> None:
    assert find_code_origin("", build_github_environment(lab)) == CodeOrigin(
        "https://github.com/o/r/blob/0123", "sites/lab", "0123"
    )


def test_gitlab_environment_gives_directory_and_commit(lab: Path) -> None:
    said = {
        "CI_PROJECT_URL": "https://gl/g/p",
        "CI_COMMIT_SHA": "4567",
        "CI_PROJECT_DIR": str(lab / "sites"),
    }
    assert find_code_origin("", said) == CodeOrigin("https://gl/g/p/-/blob/4567", "lab", "4567")


def test_flag_overrides_address_and_keeps_commit(lab: Path) -> None:
    assert find_code_origin("https://h/x", build_github_environment(lab)) == CodeOrigin(
        "https://h/x", "", "0123"
    )
    assert find_code_origin("https://h/x", {}) == CodeOrigin("https://h/x")


def test_no_links_outside_of_the_clone(lab: Path) -> None:
    assert find_code_origin("", build_github_environment(lab / "elsewhere")) == CodeOrigin(
        commit="0123"
    )
    assert find_code_origin("", {}) == CodeOrigin()


def test_invalid_address_is_rejected() -> None:
    with pytest.raises(click.UsageError, match="-source-url"):
        find_code_origin("javascript:alert(1)", {})


@pytest.mark.usefixtures("lab")
def test_invalid_address_is_rejected_before_planning(capsys: pytest.CaptureFixture[str]) -> None:
    Path("main.nf.hcl").write_text('resource "nexus_site" "s" {}\n')
    for command in (["plan", "-out=p"], ["apply", "-auto-approve"]):
        assert run_command_line([*command, "-source-url=ftp://h"]) == 1
        assert "-source-url" in capsys.readouterr().err
    assert [file.name for file in Path().iterdir()] == ["main.nf.hcl"]


@pytest.mark.usefixtures("lab")
def test_comment_links_to_address_of_flag() -> None:
    Path("main.nf.hcl").write_text(CHECK)
    assert run_command_line(["plan", "-source-url=https://h/x", "-report=markdown:comment.md"]) == 0
    assert "(https://h/x/main.nf.hcl#L8)" in Path("comment.md").read_text()


def test_stdout_has_only_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('output "x" {\n  value = 1\n}\n')
    for command in (["plan"], ["apply", "-auto-approve"]):
        assert run_command_line([*command, "-lock=false", "-report=json:-"]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["format_version"] == "1.2"
        assert "Warning: Unlocked state" in said.err
