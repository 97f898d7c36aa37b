"""Commands and flags that were removed, with what to use instead."""

from collections.abc import Iterable, Mapping
from typing import Final

import click

from nexusform.domain_table import collect_removed_words

# Replacements by the words after `nexusform`.
REMOVED_COMMANDS: Final[Mapping[str, str]] = {
    "get": "nexusform init",
    "metadata": "docs/reference/functions.md",
    "metadata functions": "docs/reference/functions.md",
    "refresh": "nexusform apply -refresh-only",
    "state lock": "nexusform force-unlock ID",
    "state lock break": "nexusform force-unlock ID",
    "state lock list": "nexusform force-unlock ID",
    "taint": "nexusform plan -replace=ADDR",
    **collect_removed_words("removed_commands"),
}
# By the words after `nexusform`: a flag, or one value of it.
REMOVED_FLAGS: Final[Mapping[str, str]] = collect_removed_words("removed_flags")


class RemovedCommandError(click.ClickException):
    """A command or a flag that was removed is typed.

    The message is one line with what to use instead.
    """


def find_removed_flag(command: str, words: Iterable[str]) -> str:
    """Return the first removed flag in a command line; else "".

    The flag has the form `COMMAND -FLAG`, or `COMMAND -FLAG=VALUE` for a removed value.
    """
    for word in words:
        flag = f"{command} -{word.lstrip('-')}"
        for name in (flag, flag.partition("=")[0]):
            if name in REMOVED_FLAGS:
                return name
    return ""
