"""A newcomer among the losses: machines of several racks that share a power supply.

Every second slot of the racks hangs on supply `a`, the others on supply `b`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit, LostMachines
from nexusform.planning.hypothesis.losses import LossKind


def _list_supply_edits(before: PlanResult) -> Mapping[str, Sequence[Edit]]:
    """Return the loss of each power supply, by SITE/SUPPLY."""
    edits: dict[str, Sequence[Edit]] = {}
    for site in before.sites.values():
        machines = sorted(site.machines)
        edits[f"{site.id}/a"] = (LostMachines(site.id, tuple(machines[0::2])),)
        edits[f"{site.id}/b"] = (LostMachines(site.id, tuple(machines[1::2])),)
    return edits


POWER_SUPPLY: Final = LossKind("power supply", "SITE/SUPPLY", _list_supply_edits)
