"""`nexusform sites ...`: plan, approve and apply many sites at once."""

from __future__ import annotations

from typing import Final

from nexusform.cli.commands import Entry, LazyGroup

COMMANDS: Final[dict[str, Entry]] = {
    "plan": Entry("nexusform.domains.sites.cli.plan:plan", "Plan all sites and show one summary"),
    "sign": Entry("nexusform.domains.sites.cli.sign:sign", "Sign an approved plan of sites"),
    "apply": Entry("nexusform.domains.sites.cli.apply:apply", "Apply a plan of sites, wave by wave"),
    "status": Entry("nexusform.domains.sites.cli.status:status", "Show the status of all sites"),
    "replay": Entry("nexusform.domains.sites.cli.ask:replay", "Compare predicted and observed placement"),
}

sites: Final = LazyGroup("sites", COMMANDS, summary="Plan and apply many sites.")
