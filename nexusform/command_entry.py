"""Entry of a command: the engine and the domains list their commands as such entries."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import click


class CommandSection(StrEnum):
    """Section of `nexusform -help=all`, in its order; the value is its title."""

    MAIN = "Main commands"
    ANALYSIS = "Analysis"
    SITES = "Sites"
    STATE = "State"
    OTHER_TOOLS = "Other tools"
    OTHER = "Other commands"


class CommandDescription(Struct, frozen=True):
    """Summary of a command and its section in the help.

    `is_common`: `nexusform -help` lists it. `is_read_only`: it changes nothing, so an interrupt
    leaves everything as it was.
    """

    summary: str
    section: CommandSection = CommandSection.OTHER
    is_common: bool = False
    is_read_only: bool = False


class CommandEntry(CommandDescription, frozen=True, kw_only=True):
    """Entry of a command: its description, and the function that imports it."""

    load: Callable[[], click.Command]
