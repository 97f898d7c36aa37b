"""`nexusform sites ...`: plan, approve and apply many sites at once."""

from typing import Final

from nexusform.cli.command_groups import LazyGroup
from nexusform.command_entry import CommandEntry

COMMANDS: Final[dict[str, CommandEntry]] = {
    "plan": CommandEntry(
        "nexusform.domains.sites.cli.plan:plan", "Plan all sites and show one summary"
    ),
    "sign": CommandEntry("nexusform.domains.sites.cli.plan:sign", "Sign an approved plan of sites"),
    "apply": CommandEntry(
        "nexusform.domains.sites.cli.apply:apply", "Apply a plan of sites, wave by wave"
    ),
    "status": CommandEntry(
        "nexusform.domains.sites.cli.status:status", "Show the status of all sites"
    ),
    "unlock": CommandEntry(
        "nexusform.domains.sites.cli.status:unlock", "Release the locks of a dead host"
    ),
    "replay": CommandEntry(
        "nexusform.domains.sites.cli.site_questions:replay",
        "Compare predicted and observed placement",
    ),
}

sites: Final = LazyGroup("sites", COMMANDS, summary="Plan and apply many sites.")
