"""`nexusform force-unlock`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.cli.arguments import positional, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import place_of, state_flag
from nexusform.cli.screen import Screen, input_allowed
from nexusform.workflow.runs.locking import break_lock, find_holder


class ForceUnlockArguments(Struct, frozen=True, kw_only=True):
    """What `force-unlock` takes."""

    lock_id: str = positional(metavar="ID")
    force: bool = switch("Skip the confirmation")
    state: str = state_flag()


@command("force-unlock", ForceUnlockArguments)
def force_unlock(arguments: ForceUnlockArguments) -> int:
    """Remove the lock with this ID, as named in the error message.

    Make sure that its holder no longer runs: two runs that write one state overwrite each other.
    """
    screen = Screen()
    holder, problems, sources = find_holder(place_of(arguments.state))
    if holder is None and not problems:
        screen.err("The state is not locked: nothing to unlock.")
        return 1
    if not arguments.force:
        if not input_allowed(flag=True):
            screen.err("Questions are turned off (NF_INPUT). Break the lock without one: -force.")
            return 1
        answer = screen.ask(
            "Do you really want to force-unlock?",
            "The lock is removed. Another run that still goes on would then write\n"
            "the same state. Only 'yes' will be accepted to confirm.",
        )
        if answer != "yes":
            screen.out("force-unlock cancelled.")
            return 1
    problems, sources = break_lock(place_of(arguments.state), arguments.lock_id)
    screen.diagnostics(problems, sources)
    if problems:
        return 1
    screen.out("The state has been successfully unlocked!")
    return 0
