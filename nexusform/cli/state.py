"""`nexusform state ...`: the table of its commands."""

from __future__ import annotations

from typing import Final

from nexusform.cli.commands import Entry, LazyGroup

COMMANDS: Final[dict[str, Entry]] = {
    "list": Entry("nexusform.cli.state_view:list_instances", "List the addresses of what the state holds"),
    "show": Entry("nexusform.cli.state_view:show", "Show one resource instance"),
    "mv": Entry("nexusform.cli.state_edit:mv", "Give an instance, a resource or a module another address"),
    "rm": Entry("nexusform.cli.state_edit:rm", "Forget instances without destroying them"),
    "verify": Entry("nexusform.cli.state_view:verify", "Look whether what the state says can be so"),
    "pull": Entry("nexusform.cli.state_view:pull", "Print the state document"),
    "push": Entry("nexusform.cli.state_edit:push", "Replace the state by a document"),
    "history": Entry("nexusform.cli.state_view:history", "List the versions that are kept"),
    "rollback": Entry("nexusform.cli.state_edit:rollback_to", "Go back to an earlier version"),
    "lock": Entry("nexusform.cli.state_lock:lock", "See who holds the lock, or break it"),
}

state: Final = LazyGroup("state", COMMANDS, summary="Look at and correct the state.")
