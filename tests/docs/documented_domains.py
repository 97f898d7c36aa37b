"""Domains covered by the pages of docs/.

A page about a domain is correct only if the domain is installed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

_PAGE: Final = Path(__file__).parents[2] / "docs" / "architecture.md"


def read_documented_domains() -> frozenset[str]:
    """Return the names in the table of domains."""
    section = (
        _PAGE.read_text(encoding="utf-8").partition("## The domains\n")[2].partition("\n## ")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return frozenset(name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1]))


of_documented_domains: Final = pytest.mark.of_domains(*sorted(read_documented_domains()))
