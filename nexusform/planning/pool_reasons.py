"""Reasons for the placement of a pool's VMs, reported by `explain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.vm_demands import PoolDemand
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.vm_planning.vm_object import find_placement_origin
from nexusform.plans.impact.pool_reason import PoolPlacement, VmCountByTrigger
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTable
from nexusform.resources.address import Address, AddressPattern
from nexusform.state.objects import State


def explain_pools(planned: PlanResult, state: State, pattern: AddressPattern, name: str) -> tuple[PoolPlacement, ...]:
    """Return the pools at an address, or the one of this name; none without pools."""
    rows = {(row.address, row.object): row for row in planned.plan.placements if row.kind == VM}
    reasons: list[PoolPlacement] = []
    for table in planned.plan.placement_tables:
        is_requested = pattern.is_match(table.address) and name in ("", table.pool)
        pool = _find_pool_of_table_row(planned, table) if is_requested else None
        if pool is None:
            continue
        zones = None if pool.zones is None else tuple(sorted(pool.zones))
        origins = _collect_placement_origins(table.address, pool, rows, state)
        reasons.append(PoolPlacement(table.address, table, zones, origins, pool.names))
    return tuple(reasons)


def _find_pool_of_table_row(planned: PlanResult, table: PlacementTable) -> PoolDemand | None:
    """Return the pool of a placement table row; None if it is not requested any more."""
    vms = planned.objects.get(table.address)
    if vms is None or vms.request.demand is None:
        return None
    return next((pool for pool in vms.request.demand.pools if pool.pool == table.pool), None)


def _collect_placement_origins(
    address: Address, pool: PoolDemand, rows: Mapping[tuple[Address, str], PlacementChange], state: State
) -> tuple[VmCountByTrigger, ...]:
    """Return the origins of a pool's VMs: from the rows of this plan, and from earlier ones in state."""
    instance = state.instances.get(address)
    current = instance.current if instance is not None else None
    note = current.private if current is not None else None
    counts: Counter[tuple[str, int | None]] = Counter()
    for name in pool.names:
        row = rows.get((address, name))
        if row is not None and row.action in (PlacementAction.PLACE, PlacementAction.MOVE):
            counts[row.trigger, None] += 1
        elif (origin := find_placement_origin(note, name)) is not None:
            counts[origin] += 1
    return tuple(VmCountByTrigger(trigger, serial, count) for (trigger, serial), count in counts.items())
