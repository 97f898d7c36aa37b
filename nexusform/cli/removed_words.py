"""Words of the command line that were removed, each with what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# By the words after `nexusform`.
REMOVED_COMMANDS: Final[Mapping[str, str]] = {
    "get": "nexusform init",
    "metadata": "docs/reference/functions.md",
    "metadata functions": "docs/reference/functions.md",
    "refresh": "nexusform apply -refresh-only",
    "report": "nexusform simulate capacity",
    "report capacity": "nexusform simulate capacity",
    "state lock": "nexusform force-unlock ID",
    "state lock break": "nexusform force-unlock ID",
    "state lock list": "nexusform force-unlock ID",
    "taint": "nexusform plan -replace=ADDR",
}


def find_removed_command(words: str) -> str:
    """Return the longest removed command that these words begin with, "" if there is none."""
    names = [name for name in REMOVED_COMMANDS if f"{words} ".startswith(f"{name} ")]
    return max(names, key=len, default="")
