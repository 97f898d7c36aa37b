"""`nexusform state ...`: inspect and edit the state."""

from typing import Final

import click

from nexusform.cli.command_groups import LazyGroup
from nexusform.command_entry import CommandEntry


def _load_list_instances() -> click.Command:
    from nexusform.cli.state_view import list_instances

    return list_instances


def _load_show() -> click.Command:
    from nexusform.cli.state_view import show

    return show


def _load_mv() -> click.Command:
    from nexusform.cli.state_edit import mv

    return mv


def _load_rm() -> click.Command:
    from nexusform.cli.state_edit import rm

    return rm


def _load_verify() -> click.Command:
    from nexusform.cli.state_view import verify

    return verify


def _load_pull() -> click.Command:
    from nexusform.cli.state_view import pull

    return pull


def _load_push() -> click.Command:
    from nexusform.cli.state_edit import push

    return push


def _load_history() -> click.Command:
    from nexusform.cli.state_view import history

    return history


def _load_rollback_to() -> click.Command:
    from nexusform.cli.state_edit import rollback_to

    return rollback_to


_COMMANDS: Final[dict[str, CommandEntry]] = {
    "list": CommandEntry("List resource instances", load=_load_list_instances),
    "show": CommandEntry("Show one resource instance", load=_load_show),
    "mv": CommandEntry("Rename a resource or module", load=_load_mv),
    "rm": CommandEntry("Remove resources from the state", load=_load_rm),
    "verify": CommandEntry("Check the state for errors", load=_load_verify),
    "pull": CommandEntry("Print the state document", load=_load_pull),
    "push": CommandEntry("Replace the state with a document", load=_load_push),
    "history": CommandEntry("List stored versions of the state", load=_load_history),
    "rollback": CommandEntry("Restore an earlier version of the state", load=_load_rollback_to),
}
state: Final = LazyGroup(
    "state",
    _COMMANDS,
    summary="Inspect and edit the state.",
    hints={
        "replace-provider": "Change the provider argument of the block; the next plan applies it.",
        "identities": 'Use "nexusform state show ADDRESS"; ids are attributes.',
    },
)
