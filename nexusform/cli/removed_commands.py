"""Words of other tools and of earlier versions on the command line, each with its replacement."""

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


_APPROVE: Final = "Use -auto-approve."
_NO_PLUGINS: Final = "Providers come with nexusform, so there is nothing to download."
# Flags of other tools: by command and name, or by name for any command.
_FLAG_HINTS: Final[Mapping[str, str]] = {
    "plan terraform-plan": "Use: nexusform predict -terraform-plan=FILE -inventory=DIR",
    "plan arm-what-if": "Use: nexusform predict -arm-what-if=FILE -inventory=DIR",
    "init plugin-dir": _NO_PLUGINS,
    "init get-plugins": _NO_PLUGINS,
    "init lockfile": _NO_PLUGINS,
    "sites apply auto-approve": "A gate is approved by -wave=NAME, or by a typed yes.",
    **dict.fromkeys(("y", "yes", "approve", "force"), _APPROVE),
}


def find_foreign_flag_hint(command: str, name: str) -> str:
    """Return the hint for a flag of another tool after a blank, "" if there is none."""
    hint = _FLAG_HINTS.get(f"{command} {name}")
    if hint is None and command in {"apply", "destroy", "sites apply"}:
        hint = _FLAG_HINTS.get(name)
    return f" {hint}" if hint else ""


def match_removed_command(words: str) -> str:
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
