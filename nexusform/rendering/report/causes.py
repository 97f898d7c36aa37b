"""Which changes make VMs move: what a reviewer looks at first."""

from __future__ import annotations

from collections.abc import Iterable

from nexusform.planning.plan import Action, Change, PlacementAction, PlacementChange, Plan
from nexusform.scheduling.racks.vms import Placement


def causes_of_moves(plan: Plan) -> tuple[Change, ...]:
    """The changes that make VMs leave, in the plan's order.

    Of a VM whose own resource is told why it goes, that resource; of one that loses its machine, the
    machine or rack that changes.
    """
    moves = [row for row in plan.placements if row.kind == "vm" and row.action is PlacementAction.MOVE]
    by_hardware = {row.trigger for row in moves} & _OF_HARDWARE
    ids = set(_hardware_ids(row for row in moves if row.trigger in by_hardware))
    addresses = {row.address for row in moves if row.trigger not in by_hardware}
    return tuple(
        change
        for change in plan.changes
        if change.action is not Action.NO_OP and (change.id in ids or change.address in addresses)
    )


_OF_HARDWARE = frozenset({"machine_evacuated", "machine_removed"})


def _hardware_ids(rows: Iterable[PlacementChange]) -> Iterable[str]:
    """The ids that the racks and machines have which these VMs leave."""
    for row in rows:
        if isinstance(row.source, Placement):
            rack = f"{row.site_id}/{row.source.rack}"
            yield rack
            yield f"{rack}/{row.source.machine}"
