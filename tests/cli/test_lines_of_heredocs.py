"""Tests of errors inside the text of a heredoc: they are reported at their own line of the file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import (
    LiteralTextLine,
    Position,
    SourceFile,
    Span,
    build_error,
    locate_line_in_text,
)

CASE = Path(__file__).with_name("lines_of_heredocs")


@pytest.mark.of_domains("fleet", "vnf")
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_each_error_is_reported_at_its_line(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(CASE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert run_command_line([command, "-no-color"]) == 1
    told = capsys.readouterr().err
    expected = CASE / f"{command}.txt"
    if "NEXUSFORM_REWRITE_GOLDEN" in os.environ:
        expected.write_text(told)
    assert told == expected.read_text()


def test_ranges_cover_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = 'output "o" {\n  value = jsondecode(<<-EOT\n    {"ä": 1,\n      "b": }\n  EOT\n  )\n}\n'
    Path("main.nf.hcl").write_text(text)
    assert run_command_line(["validate", "-json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    start = found["range"]["start"]
    end = found["range"]["end"]
    assert (start["line"], start["column"], end["column"]) == (4, 7, 13)
    assert text.encode()[start["byte"] : end["byte"]] == b'"b": }'
    assert found["snippet"]["code"] == '      "b": }'


@pytest.mark.parametrize(
    ("number", "text", "line"),
    [
        (2, "b: 2", 3),
        (1, "a: x-y", 2),  # a: ${...}
        # No such line: the whole heredoc.
        (1, "z: 1", 1),
        # evaluated further down, and used once.
        (7, "c: 3", 4),
        (7, "b: 2", 1),  # used twice
    ],
)
def test_only_certain_lines_are_named(number: int, text: str, line: int) -> None:
    written = "x = <<EOT\na: ${local.x}-y\nb: 2\nc: 3\nb: 2\nEOT\n"
    whole = Span("f", Position(1, 5, 4), Position(7, 1, len(written)))
    found = locate_line_in_text(
        build_error("invalid-yaml", "", whole, line=LiteralTextLine(number, text)),
        {"f": SourceFile("f", written)},
    )
    assert found.line is None
    assert found.subject is not None
    assert found.subject.start.line == line
    if found.subject != whole:
        shown = written.encode()[found.subject.start.byte : found.subject.end.byte].decode()
        assert shown == written.split("\n")[line - 1]
