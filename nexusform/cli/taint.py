"""`nexusform taint` and `nexusform untaint`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.address import Address
from nexusform.cli.arguments import group, positional, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, place_of, state_flag
from nexusform.cli.screen import Screen
from nexusform.cli.state_edit import change_from
from nexusform.workflow import state_commands
from nexusform.workflow.state_commands import parse_patterns


class TaintArguments(Struct, frozen=True, kw_only=True):
    """What `taint` and `untaint` take."""

    address: str = positional()
    allow_missing: bool = switch("Do not fail when the object is not there")
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()


@command("taint", TaintArguments)
def taint(arguments: TaintArguments) -> int:
    """Mark the resource instance at ADDRESS: the next plan replaces it.

    `plan -replace=ADDRESS` does the same without changing the state beforehand.
    """
    return _mark(arguments, tainted=True)


@command("untaint", TaintArguments)
def untaint(arguments: TaintArguments) -> int:
    """Take the mark of the resource instance at ADDRESS away: the next plan keeps it."""
    return _mark(arguments, tainted=False)


def _mark(arguments: TaintArguments, *, tainted: bool) -> int:
    screen = Screen()
    patterns, problems = parse_patterns((arguments.address,))
    if problems:
        screen.diagnostics(problems, {})
        return 1
    addresses: list[Address] = []
    change = state_commands.taint(
        patterns[0], addresses, tainted=tainted, allow_missing=arguments.allow_missing
    )
    operation = "taint" if tainted else "untaint"
    place = place_of(arguments.state)
    if change_from(screen, operation, change, place, arguments.lock.locking()).after is None:
        return 1
    mark = "marked as tainted" if tainted else "successfully untainted"
    for address in addresses:
        screen.out(f"Resource instance {address} has been {mark}.")
    return 0
