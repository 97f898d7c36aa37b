"""Write the tables of docs/fidelity.md: the decisions of tests/conformance, and those of a night.

Run: python -m tests.conformance.write_table [FILE]. FILE is the output of `nexusform conformance
-json` for a night.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_PAGE = _FOLDER.parents[1] / "docs" / "fidelity.md"
_HEAD = ["| system | version | decisions | right |", "|---|---|---|---|"]


def build_table(document: dict[str, Any]) -> list[str]:
    """Build the lines of a table by system and version."""
    return _HEAD + [
        f"| {item['system']} | {item['version']} | {item['decisions']:,} | {item['right']:,} |"
        for item in document["systems"]
    ]


def write_table(mark: str, document: dict[str, Any]) -> None:
    """Write the table after a mark of the page."""
    table = "\n".join(build_table(document))
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
    command = [sys.executable, "-m", "nexusform", "conformance", "-json", str(_FOLDER)]
    write_table(
        "conformance",
        json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout),
    )
    if len(sys.argv) > 1:
        write_table("night", json.loads(Path(sys.argv[1]).read_bytes()))
