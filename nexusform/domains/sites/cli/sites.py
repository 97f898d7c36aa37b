"""`nexusform sites ...`: plan, approve and apply many sites at once."""

from typing import Final

import click

from nexusform.cli.command_groups import LazyGroup
from nexusform.command_entry import CommandEntry


def _load_plan() -> click.Command:
    from nexusform.domains.sites.cli.plan import plan

    return plan


def _load_sign() -> click.Command:
    from nexusform.domains.sites.cli.plan import sign

    return sign


def _load_apply() -> click.Command:
    from nexusform.domains.sites.cli.apply import apply

    return apply


def _load_status() -> click.Command:
    from nexusform.domains.sites.cli.status import status

    return status


def _load_unlock() -> click.Command:
    from nexusform.domains.sites.cli.status import unlock

    return unlock


def _load_replay() -> click.Command:
    from nexusform.domains.sites.cli.site_questions import replay

    return replay


COMMANDS: Final[dict[str, CommandEntry]] = {
    "plan": CommandEntry("Plan all sites and show one summary", load=_load_plan),
    "sign": CommandEntry("Sign an approved plan of sites", load=_load_sign),
    "apply": CommandEntry("Apply a plan of sites, wave by wave", load=_load_apply),
    "status": CommandEntry("Show the status of all sites", load=_load_status),
    "unlock": CommandEntry("Release the locks of a dead host", load=_load_unlock),
    "replay": CommandEntry("Compare predicted and observed placement", load=_load_replay),
}

sites: Final = LazyGroup("sites", COMMANDS, summary="Plan and apply many sites.")
