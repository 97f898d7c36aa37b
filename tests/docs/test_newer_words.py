"""Tests of the words of newer versions: each row of the table is run, and the page has them all."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.run_rows import check_row

_DATA = Path(__file__).parent / "newer_words.toml"
_PAGE = Path(__file__).parents[2] / "docs" / "language-differences.md"
_START = "<!-- words of newer versions: generated -->\n"
_END = "<!-- end -->\n"
_WORDS: list[dict[str, Any]] = tomllib.loads(_DATA.read_text(encoding="utf-8"))["word"]


def build_table() -> str:
    """Build the table of the page."""
    lines = ["| since | word | nexusform |", "|---|---|---|"]
    for row in _WORDS:
        note = f": {row['note']}" if row["note"] else ""
        lines.append(f"| {row['version']} | {row['word']} | {row['status']}{note} |")
    return "\n".join(lines) + "\n"


def test_page_has_all_words() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    wanted = f"{before}{_START}\n{build_table()}\n{_END}{after}"
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        _PAGE.write_text(wanted, encoding="utf-8")
    assert page == wanted


@pytest.mark.parametrize("row", _WORDS, ids=lambda row: str(row["word"]))
def test_word_does_what_the_table_says(
    row: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert row["status"] in {"has", "lacks", "not applicable"}
    # What is missing has a replacement or a reason.
    assert row["note"] or row["status"] == "has"
    check_row(row, tmp_path, monkeypatch, capfd)
