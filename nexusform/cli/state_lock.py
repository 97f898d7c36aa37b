"""`nexusform state lock list` and `state lock break`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from nexusform.cli.arguments import positional
from nexusform.cli.commands import Entry, LazyGroup, command
from nexusform.cli.flags import place_of, state_flag
from nexusform.cli.screen import Screen
from nexusform.workflow.locking import break_lock, describe_holder, find_holder

lock: Final = LazyGroup(
    "lock",
    {
        "list": Entry("nexusform.cli.state_lock:list_locks", "Say who holds the lock of the state"),
        "break": Entry("nexusform.cli.state_lock:break_by_id", "Break a lock that was left behind"),
    },
    summary="See who holds the lock of the state, or break it.",
)


class ListLocksArguments(Struct, frozen=True, kw_only=True):
    """What `state lock list` takes."""

    state: str = state_flag()


@command("list", ListLocksArguments)
def list_locks(arguments: ListLocksArguments) -> int:
    """Say who holds the lock of the selected workspace's state."""
    screen = Screen()
    holder, problems, sources = find_holder(place_of(arguments.state))
    screen.diagnostics(problems, sources)
    if problems:
        return 1
    screen.out(describe_holder(holder) if holder else "The state is not locked.")
    return 0


class BreakLockArguments(Struct, frozen=True, kw_only=True):
    """What `state lock break` takes."""

    state: str = state_flag()
    lock_id: str = positional(metavar="ID")


@command("break", BreakLockArguments)
def break_by_id(arguments: BreakLockArguments) -> int:
    """Break the lock with this ID. Make sure that its holder no longer runs."""
    screen = Screen()
    problems, sources = break_lock(place_of(arguments.state), arguments.lock_id)
    screen.diagnostics(problems, sources)
    if problems:
        return 1
    screen.out("The lock was broken.")
    return 0
