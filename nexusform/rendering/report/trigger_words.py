"""Why something happens to the object of a row, where the trigger alone would mislead."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.placement_kinds.registry import KINDS
from nexusform.planning.plan import PlacementAction, PlacementChange

# A trigger is about a cluster, and the row may be about another.
_OF_ANOTHER: Mapping[str, str] = {
    "cluster_left": "another cluster left",
}


# What happened tells more than what it is called: `moved on the hub: par1 -> lon1`.
_TOLD_BY_REASON = frozenset({"moved_on_the_hub"})


def trigger_words(row: PlacementChange) -> str:
    """Why something happens to the object of a row: its trigger, where that does not mislead."""
    if row.trigger in _TOLD_BY_REASON:
        return row.reason
    comes = row.action is PlacementAction.PLACE and KINDS[row.kind].by_resource
    return _OF_ANOTHER.get(row.trigger, row.trigger) if comes else row.trigger
