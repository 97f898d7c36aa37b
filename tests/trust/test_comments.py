"""Tests of comments at a code host: no line is a bot command, and no word mentions a user."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.rendering.pull_request.markdown_parts import (
    Markdown,
    disable_bot_commands,
    escape_text,
    format_code,
    format_code_block,
    format_summary,
)

TESTS = Path(__file__).parent.parent
COMMAND = re.compile(r"^\s*(/[a-z]|bors |@)", re.MULTILINE)
REFERENCE = re.compile(r"(?<![\w/])(?:[#!]\d|gh-\d)|(?<!\w)@\w", re.IGNORECASE | re.ASCII)

HOSTILE = [
    "/approve",
    "/merge",
    "  /merge",
    "\t/label ~x",
    "/close",
    "/assign @root",
    "/lgtm cancel",
    "/rebase\n/merge",
    "a\n/approve\nb",
    "a\n\n/approve",
    "a\r/approve",
    "a\r\n/approve",
    "a\u2028/approve",
    "a\x0b/approve",
    "bors r+",
    "x\nbors try",
    "@octocat",
    "x\n@dependabot merge",
    "@org/team",
    "`@all",
    "a ` @all `@all",
    "\u00e9@all",
    "\u65e5\u672c@all",
    "\u00e9gh-7",
    "#1",
    "owner/repo#12",
    "GH-7",
    "gh-7",
    "!3",
    "a !3 b",
    "```\n/approve\n```",
    "~~~\n/approve\n~~~",
    "````\n/approve",
    "</details>\n\n/approve",
    "<br>\n/approve",
    "<!--\n/approve\n-->",
    "> x\n/approve",
    "- x\n/approve",
    "1. x\n@all",
    "| x |\n/approve",
    "\\\n/approve",
    "\u200b\n/approve",
    "\u202e/approve\n/merge",
    "[x](y)\n/approve",
    "atlantis apply",
    "x\natlantis apply -p prod",
    "nexusform explain a",
    "recheck",
    "ok to test",
    "r+",
]


def extract_text(markdown: str) -> str:
    """Return the text outside of code.

    A code block in a quote ends at the first line without its `>`.
    """
    outside = re.sub(r"(?m)^> *(`{3,})[^`\n]*\n(?:>[^\n]*\n)*?> *\1$", "", markdown)
    outside = re.sub(r"(?ms)^ *(`{3,})[^\n]*\n.*?^ *\1$", "", outside)
    return re.sub(r"(`+)[^\n]*?\1", "", outside)


def check_comment(markdown: str) -> None:
    assert COMMAND.search(markdown) is None, COMMAND.search(markdown)
    assert REFERENCE.search(extract_text(markdown)) is None, REFERENCE.search(
        extract_text(markdown)
    )


@pytest.mark.parametrize(
    ("markdown", "has_reference"),
    [
        ("> ```text\n> @all\n> ```", False),
        ("> ```text\n@all\n> ```", True),
        ("> ```text\n> x\n> ```\n> @all", True),
    ],
)
def test_code_in_a_quote_mentions_no_user(markdown: str, has_reference: bool) -> None:
    assert (REFERENCE.search(extract_text(markdown)) is not None) is has_reference


@pytest.mark.parametrize("text", HOSTILE)
def test_no_part_is_a_command(text: str) -> None:
    for piece in (
        escape_text(text),
        format_code(text),
        format_summary(text),
        format_code_block(text),
        format_code_block(text, "diff"),
        Markdown(f"a\n{format_code_block(text)}\n{escape_text(text)}"),
    ):
        check_comment(disable_bot_commands(piece))


def test_other_text_is_unchanged() -> None:
    text = "### x\n\n| a | b |\n| /b | @c |\n```text\n~ a/b\n+ /x\n```\n`/approve` is code"
    assert disable_bot_commands(Markdown(text)) == text


def test_command_stays_readable() -> None:
    assert disable_bot_commands(Markdown("/merge")) == "<span></span>/merge"
    assert (
        disable_bot_commands(Markdown("```\n  /merge\n```\n/merge"))
        == "```\n  \u2502 /merge\n```\n<span></span>/merge"
    )


@pytest.mark.parametrize(
    "golden", sorted(TESTS.rglob("golden/**/*.md")), ids=lambda path: path.stem
)
def test_no_reviewed_file_contains_a_command(golden: Path) -> None:
    check_comment(golden.read_text())


CONFIGURATION = """locals {{
  text = {text}
}}
resource "nexus_site" "lab" {{
  name = "lab"
}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.lab.id
  name          = "r1"
  machine_count = 1
  lifecycle {{
    precondition {{
      condition     = {holds} || length(split("", local.text)) == 0
      error_message = local.text
    }}
  }}
}}
check "c" {{
  assert {{
    condition     = length(split("", local.text)) == 0
    error_message = local.text
  }}
}}
output "o" {{
  value = local.text
}}
"""


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)

    def run_command(*words: str) -> str:
        capsys.readouterr()
        run_command_line(list(words))
        return capsys.readouterr().out

    return run_command


@pytest.mark.parametrize("holds", ["true", "false"])
@pytest.mark.parametrize("number", range(0, len(HOSTILE), 5))
def test_no_comment_contains_a_command(number: int, holds: str, nf: Callable[..., str]) -> None:
    text = "\n".join(HOSTILE[number : number + 5])
    written = json.dumps(text).replace("${", "$${").replace("%{", "%%{")
    written = re.sub(r"\\u000b", "\\\\u000B", written)
    Path("main.nf.hcl").write_text(CONFIGURATION.format(text=written, holds=holds))
    nf("plan", "-out=p", "-report=markdown:plan.md")
    check_comment(Path("plan.md").read_text())
    if holds == "true":
        check_comment(nf("show", "-report=markdown:-", "p"))
        check_comment(nf("explain", "-plan=p", "-format=markdown", "nexus_rack.r"))
        check_comment(nf("advise", "-plan=p", "-format=markdown"))
        check_comment(nf("simulate", "capacity", "-plan=p", "-format=markdown"))
