"""Write the tables of docs/fidelity.md: the decisions of tests/conformance, and those of a night.

Run: python -m tests.conformance.write_table [FILE]. FILE is the output of
tests.conformance.score for a night.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec.json import decode

from tests.conformance.score import Score, SystemScore, read_cases, score_cases

_FOLDER = Path(__file__).parent
_PAGE = _FOLDER.parents[1] / "docs" / "fidelity.md"
_HEAD = ["| system | version | decisions | right |", "|---|---|---|---|"]


def build_table(systems: Iterable[SystemScore]) -> list[str]:
    """Build the lines of a table by system and version."""
    return _HEAD + [
        f"| {item.system} | {item.version} | {item.decisions:,} | {item.right:,} |"
        for item in systems
    ]


def write_table(mark: str, score: Score) -> None:
    """Write the table after a mark of the page."""
    table = "\n".join(build_table(score.systems))
    pattern = rf"(<!-- {mark} -->\n).*?(\n\n)"
    if not re.search(pattern, _PAGE.read_text(), flags=re.DOTALL):
        sys.exit(f"{_PAGE} has no table after `<!-- {mark} -->`")
    _PAGE.write_text(
        re.sub(
            pattern,
            lambda match: f"{match[1]}{table}{match[2]}",
            _PAGE.read_text(),
            flags=re.DOTALL,
        )
    )
    print(table)


if __name__ == "__main__":
    write_table("conformance", score_cases(read_cases(_FOLDER)))
    if len(sys.argv) > 1:
        write_table("night", decode(Path(sys.argv[1]).read_bytes(), type=Score))
