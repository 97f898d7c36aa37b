"""`nexusform sites ...`: plan, approve and apply many sites at once."""

from __future__ import annotations

from typing import Final

from nexusform.cli.commands import Entry, LazyGroup

COMMANDS: Final[dict[str, Entry]] = {
    "plan": Entry("nexusform.domains.sites.cli.plan:plan", "Plan all sites, and show one folded summary"),
    "sign": Entry("nexusform.domains.sites.cli.sign:sign", "Sign a plan of sites that was approved"),
    "apply": Entry("nexusform.domains.sites.cli.apply:apply", "Apply a plan of sites, wave by wave"),
    "status": Entry("nexusform.domains.sites.cli.status:status", "What the states of all sites say"),
    "replay": Entry("nexusform.domains.sites.cli.ask:replay", "Whether the rule explains where VMs are"),
}

sites: Final = LazyGroup("sites", COMMANDS, summary="Plan and apply many sites at once.")
