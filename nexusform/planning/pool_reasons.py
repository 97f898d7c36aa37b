"""Why the VMs of a pool are where they are: what `explain` tells of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nexusform.address import Address, AddressPattern
from nexusform.demands import PoolDemand
from nexusform.placement_kinds.kinds import VM
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.vms.vm_object import placed_by
from nexusform.plans.impact.pool_reason import Coming, PoolReason
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTable
from nexusform.state.objects import State


def explain_pools(
    planned: PlanResult, state: State, pattern: AddressPattern, name: str
) -> tuple[PoolReason, ...]:
    """The pools at an address, or the one of this name; none where nothing has pools."""
    rows = {(row.address, row.object): row for row in planned.plan.placements if row.kind == VM}
    reasons: list[PoolReason] = []
    for table in planned.plan.placement_tables:
        is_asked_about = pattern.matches(table.address) and name in ("", table.pool)
        pool = _pool(planned, table) if is_asked_about else None
        if pool is None:
            continue
        zones = None if pool.zones is None else tuple(sorted(pool.zones))
        came = _came(table.address, pool, rows, state)
        reasons.append(PoolReason(table.address, table, zones, came, pool.names))
    return tuple(reasons)


def _pool(planned: PlanResult, table: PlacementTable) -> PoolDemand | None:
    """The pool that a row of the placement table is about; None where it is not asked for any more."""
    vms = planned.objects.get(table.address)
    if vms is None or vms.asked.demand is None:
        return None
    return next((pool for pool in vms.asked.demand.pools if pool.pool == table.pool), None)


def _came(
    address: Address,
    pool: PoolDemand,
    rows: Mapping[tuple[Address, str], PlacementChange],
    state: State,
) -> tuple[Coming, ...]:
    """How the VMs of a pool came: by this plan as its rows say, by earlier ones as state remembers."""
    instance = state.instances.get(address)
    current = instance.current if instance is not None else None
    note = current.private if current is not None else None
    counts: Counter[tuple[str, int | None]] = Counter()
    for name in pool.names:
        row = rows.get((address, name))
        if row is not None and row.action in (PlacementAction.PLACE, PlacementAction.MOVE):
            counts[row.trigger, None] += 1
        elif (recorded := placed_by(note, name)) is not None:
            counts[recorded] += 1
    return tuple(Coming(trigger, serial, count) for (trigger, serial), count in counts.items())
