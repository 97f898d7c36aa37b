"""`nexusform state lock list`, `state lock break` and `force-unlock`."""

from __future__ import annotations

from msgspec import Struct

from nexusform.cli.arguments import declare_positional, declare_switch_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import create_context, declare_state_flag
from nexusform.cli.terminal_screen import Screen, is_input_allowed
from nexusform.workflow.runs.state_locking import break_lock, find_lock_holder


class ForceUnlockArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `force-unlock`."""

    lock_id: str = declare_positional(metavar="ID")
    force: bool = declare_switch_flag("Skip the confirmation")
    state: str = declare_state_flag()


@define_command("force-unlock", ForceUnlockArguments)
def force_unlock(arguments: ForceUnlockArguments) -> int:
    """Remove the lock with this ID, as named in the error message.

    Make sure that its holder no longer runs: two runs that write one state overwrite each other.
    """
    screen = Screen()
    holder, problems, sources = find_lock_holder(create_context(arguments.state))
    if holder is None and not problems:
        screen.print_error("The state is not locked.")
        return 1
    if not arguments.force:
        if not is_input_allowed(flag=True):
            screen.print_error("Input is disabled (NF_INPUT). Use -force to unlock without a prompt.")
            return 1
        answer = screen.prompt_user(
            "Do you really want to force-unlock?",
            "This removes the lock. A run that is still active could then write\n"
            "the same state. Only 'yes' will be accepted to confirm.",
        )
        if answer != "yes":
            screen.print_text("force-unlock cancelled.")
            return 1
    problems, sources = break_lock(create_context(arguments.state), arguments.lock_id)
    screen.print_diagnostics(problems, sources)
    if problems:
        return 1
    screen.print_text("The state has been successfully unlocked!")
    return 0
