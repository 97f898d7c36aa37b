"""`nexusform state lock list` and `state lock break`."""

from __future__ import annotations

from typing import Any, Final

import click

from nexusform.cli.commands import Entry, LazyGroup, command
from nexusform.cli.flags import place_of, state_flags
from nexusform.cli.screen import Screen
from nexusform.workflow.locking import describe_holder
from nexusform.workflow.locks import break_lock, find_holder

lock: Final = LazyGroup(
    "lock",
    {
        "list": Entry("nexusform.cli.state_lock:list_locks", "Say who holds the lock of the state"),
        "break": Entry("nexusform.cli.state_lock:break_by_id", "Break a lock that was left behind"),
    },
    summary="See who holds the lock of the state, or break it.",
)


@command("list", summary="Say who holds the lock of the state")
@state_flags
def list_locks(**given: Any) -> int:
    """Say who holds the lock of the selected workspace's state."""
    screen = Screen()
    holder, problems, sources = find_holder(place_of(given))
    screen.diagnostics(problems, sources)
    if problems:
        return 1
    screen.out(describe_holder(holder) if holder else "The state is not locked.")
    return 0


@command("break", summary="Break a lock that was left behind")
@state_flags
@click.argument("lock_id", metavar="ID")
def break_by_id(lock_id: str, **given: Any) -> int:
    """Break the lock with this ID. Make sure that its holder no longer runs."""
    screen = Screen()
    problems, sources = break_lock(place_of(given), lock_id)
    screen.diagnostics(problems, sources)
    if problems:
        return 1
    screen.out("The lock was broken.")
    return 0
