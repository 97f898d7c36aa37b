"""Entry of a command: the engine and the domains list their commands as such entries."""

from enum import StrEnum

from msgspec import Struct


class CommandSection(StrEnum):
    """Section of `nexusform -help=all`, in its order; the value is its title."""

    MAIN = "Main commands"
    ANALYSIS = "Analysis"
    SITES = "Sites"
    STATE = "State"
    OTHER_TOOLS = "Other tools"
    OTHER = "Other commands"


class CommandEntry(Struct, frozen=True):
    """Target of a command (`module:attribute`), its summary and its section in the help.

    `is_common`: `nexusform -help` lists it. `is_read_only`: it changes nothing, so an interrupt
    leaves everything as it was.
    """

    target: str
    summary: str
    section: CommandSection = CommandSection.OTHER
    is_common: bool = False
    is_read_only: bool = False
