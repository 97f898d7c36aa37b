"""`nexusform state history` and `nexusform state rollback`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.cli.arguments import group, positional
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, place_of, state_flag
from nexusform.cli.screen import Screen
from nexusform.cli.state_edit import change_from
from nexusform.diagnostics import error, has_errors
from nexusform.words import counted
from nexusform.workflow.state_history import Version, read_history, rollback


class HistoryArguments(Struct, frozen=True, kw_only=True):
    """What `state history` takes."""

    state: str = state_flag()


@command("history", HistoryArguments)
def history(arguments: HistoryArguments) -> int:
    """List the versions of the state that the backend keeps, newest first.

    What is kept depends on the backend: snapshots (azurerm), versions (s3), rows (postgres), the
    one before (local).
    """
    screen = Screen()
    kept = read_history(place_of(arguments.state))
    screen.diagnostics(kept.diagnostics, kept.sources)
    for version in kept.versions:
        screen.out(_line(version))
    if not kept.versions and not kept.diagnostics:
        screen.out("There is no state yet.")
    return 1 if has_errors(kept.diagnostics) else 0


def _line(version: Version) -> str:
    objects = counted(len(version.state.instances), "object")
    return f"serial {version.serial:<6}  {version.written or 'current':<27}  {objects}"


class RollbackArguments(Struct, frozen=True, kw_only=True):
    """What `state rollback` takes."""

    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    serial: str = positional()


@command("rollback", RollbackArguments)
def rollback_to(arguments: RollbackArguments) -> int:
    """Make the version with this SERIAL the state again, as a new version.

    Only what is remembered changes, no object does: the next plan shows what it would take to get
    there.
    """
    screen = Screen()
    if not arguments.serial.isdigit():
        detail = f'"{arguments.serial}" is not a serial. `nexusform state history` lists them.'
        screen.diagnostics([error("no-such-version", detail)], {})
        return 1
    place = place_of(arguments.state)
    change, diagnostics, sources = rollback(place, int(arguments.serial))
    screen.diagnostics(diagnostics, sources)
    if change is None:
        return 1
    changed = change_from(screen, "state rollback", change, place, arguments.lock.locking())
    if changed.after is None:
        return 1
    screen.out(f"The state is that of serial {arguments.serial} again, under serial {changed.after.serial}.")
    screen.out("No object was changed. `nexusform plan` shows how they differ from it.")
    return 0
