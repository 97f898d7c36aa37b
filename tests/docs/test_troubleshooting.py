"""Tests of docs/troubleshooting.md.

Its table of exit codes agrees with the help and the behaviour of commands.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
COMMANDS = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Exit codes\n")[2].partition("\n## ")[0]
_OTHER_CODE = re.compile(r"[Ee]xit(?: codes?:?)?(?: with)?\b[^.]*\b[23]\b|detailed-exitcode")


def _list_commands_with_codes() -> list[str]:
    """Return the commands with an exit code other than 0 and 1 in their help."""
    sections = re.split(r"^## nexusform ", COMMANDS, flags=re.MULTILINE)[1:]
    return [
        text.partition("\n")[0] for text in sections if _OTHER_CODE.search(" ".join(text.split()))
    ]


def test_every_command_with_special_exit_codes_has_a_row() -> None:
    commands = _list_commands_with_codes()
    assert {"plan", "predict", "advise", "fmt", "simulate failure"} <= set(commands)
    rows = (f"`{name}" in TABLE or f"`{name.split()[0]}`" in TABLE for name in commands)
    assert all(rows)


@pytest.mark.parametrize("flags", [[], ["-check"]])
@pytest.mark.parametrize("target", ["nope", "wrong.nf.hcl"])
def test_fmt_exits_as_documented(
    flags: list[str], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.nf.hcl").write_text("locals {\n  a =\n}\n", encoding="utf-8")
    row = next(line for line in TABLE.splitlines() if line.startswith("| `fmt`"))
    assert run_command_line(["fmt", *flags, target]) == 2
    assert "an error in a file, or no such file" in row.split("|")[4]
