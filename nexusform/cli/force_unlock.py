"""`nexusform force-unlock`."""

from __future__ import annotations

from typing import Any

import click

from nexusform.cli.commands import command, switch
from nexusform.cli.flags import place_of, state_flags
from nexusform.cli.screen import Screen, input_allowed
from nexusform.workflow.locks import break_lock


@command("force-unlock", summary="Break a lock that was left behind")
@switch("force", "Do not ask")
@state_flags
@click.argument("lock_id", metavar="ID")
def force_unlock(lock_id: str, force: bool, **given: Any) -> int:
    """Break the lock with this ID, which the message about the lock names.

    Make sure that its holder no longer runs: two runs that write one state undo each other.
    """
    screen = Screen()
    if not force:
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
    problems, sources = break_lock(place_of(given), lock_id)
    screen.diagnostics(problems, sources)
    if problems:
        return 1
    screen.out("The state has been successfully unlocked!")
    return 0
