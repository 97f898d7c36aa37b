"""`nexusform taint` and `nexusform untaint`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.address import Address
from nexusform.cli.commands import command, switch
from nexusform.cli.flags import lock_flags, state_flags
from nexusform.cli.screen import Screen
from nexusform.cli.state_edit import change_from
from nexusform.workflow import state_commands
from nexusform.workflow.state_commands import parse_patterns


@command("taint", summary="Mark an object for replacement")
@switch("allow-missing", "Do not fail when the object is not there")
@lock_flags
@state_flags
@click.argument("address")
def taint(address: str, allow_missing: bool, **given: Any) -> int:
    """Mark the resource instance at ADDRESS: the next plan replaces it.

    `plan -replace=ADDRESS` does the same without changing the state beforehand.
    """
    return _mark(address, given, tainted=True, allow_missing=allow_missing)


@command("untaint", summary="Take such a mark away")
@switch("allow-missing", "Do not fail when the object is not there")
@lock_flags
@state_flags
@click.argument("address")
def untaint(address: str, allow_missing: bool, **given: Any) -> int:
    """Take the mark of the resource instance at ADDRESS away: the next plan keeps it."""
    return _mark(address, given, tainted=False, allow_missing=allow_missing)


def _mark(text: str, given: dict[str, Any], *, tainted: bool, allow_missing: bool) -> int:
    screen = Screen()
    patterns, problems = parse_patterns((text,))
    if problems:
        screen.diagnostics(problems, {})
        return 1
    named: list[Address] = []
    change = state_commands.taint(patterns[0], named, tainted=tainted, allow_missing=allow_missing)
    changed = change_from(screen, "taint" if tainted else "untaint", change, given)
    if changed.after is None:
        return 1
    said = "marked as tainted" if tainted else "successfully untainted"
    for address in named:
        screen.out(f"Resource instance {address} has been {said}.")
    return 0
