"""Words of the command line that were removed, each with what to use instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

# By the words after `nexusform`.
REMOVED_COMMANDS: Final[Mapping[str, str]] = {
    "get": "nexusform init",
    "metadata": "docs/reference/functions.md",
    "metadata functions": "docs/reference/functions.md",
    "refresh": "nexusform apply -refresh-only",
    "report": "nexusform simulate capacity",
    "report capacity": "nexusform simulate capacity",
    "sites certainty": "nexusform sites status -samples=1000",
    "sites failure": "nexusform simulate failure -site=*",
    "state lock": "nexusform force-unlock ID",
    "state lock break": "nexusform force-unlock ID",
    "state lock list": "nexusform force-unlock ID",
    "taint": "nexusform plan -replace=ADDR",
}

_WHAT_IF: Final = "nexusform predict -arm-what-if=FILE with the output of az deployment group what-if --no-pretty-print"
# By the words after `nexusform`: a flag, or one value of it.
REMOVED_FLAGS: Final[Mapping[str, str]] = {
    "export -format=arm": "nexusform export -format=azapi",
    "predict -arm-template": _WHAT_IF,
    "predict -parameters": _WHAT_IF,
}


def find_removed_command(words: str) -> str:
    """Return the longest removed command that these words begin with, "" if there is none."""
    names = [name for name in REMOVED_COMMANDS if f"{words} ".startswith(f"{name} ")]
    return max(names, key=len, default="")


def find_removed_flag(command: str, words: Iterable[str]) -> str:
    """Return the first removed flag of the command among its words, "" if there is none."""
    for word in words:
        flag = f"{command} -{word.lstrip('-')}"
        for name in (flag, flag.partition("=")[0]):
            if name in REMOVED_FLAGS:
                return name
    return ""
