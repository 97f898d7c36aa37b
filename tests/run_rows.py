"""Runs the commands of a row of a table in TOML, and checks the result of the last one.

Keys of a row: `files` (texts by path), `before` (commands to run first), `command`, `code`, and a
part of the output (`text`), or all of stdout (`equals`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line


def check_row(
    row: Mapping[str, Any],
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Write the files of a row to the directory, run its commands, and check the result."""
    for name, text in row["files"].items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    monkeypatch.chdir(directory)
    for command in row.get("before", ()):
        assert run_command_line(command) == 0, capfd.readouterr()
        # -chdir of a command is of that command alone.
        monkeypatch.chdir(directory)
        capfd.readouterr()
    code = run_command_line(row["command"])
    captured = capfd.readouterr()
    printed = " ".join((captured.out + captured.err).replace("│", " ").split())
    assert "Internal error" not in printed
    assert code == row["code"], printed
    if "equals" in row:
        assert captured.out.strip() == row["equals"]
    else:
        assert row["text"] in printed, printed
