"""Twin of the trials of lint rules: the new VMs of pools placed again, on the site before them.

It knows no planner: VMs that exist stay where they are, and only pools have VMs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from nexusform.advice.lint_input import LintPool, PlanTrial, SiteUsage, measure_usage
from nexusform.planning.edits import Edit, PlacementOrder
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import NoFitReason


def build_trial(site_id: str, before: RackScheduler, pools: Sequence[LintPool]) -> PlanTrial:
    """Return a function to place the new VMs of pools after edits, on a copy of `before`."""

    def plan_edits(edits: Sequence[Edit]) -> Mapping[str, SiteUsage] | None:
        edited = list(pools)
        for edit in edits:
            edited = _apply_edit(edit, edited)
        scheduler = before.copy()
        for pool in edited:
            demands = [pool.build_demand(number) for number in pool.new_numbers]
            if any(isinstance(answer, NoFitReason) for answer in scheduler.place_all(demands)):
                return None
        usage = measure_usage(scheduler, pools)
        return {} if usage is None else {site_id: usage}

    return plan_edits


def _apply_edit(edit: Edit, pools: list[LintPool]) -> list[LintPool]:
    if isinstance(edit, PlacementOrder):
        order = [str(address) for address in edit.addresses]
        return sorted(pools, key=lambda pool: (pool.address not in order, _find(order, pool)))
    assert isinstance(edit, ArgumentAdjustment)
    of_block = [pool for pool in pools if pool.address == str(edit.address)]
    if edit.path == ("agent_pool_order",):
        names = list(edit.value)
        changed = sorted(of_block, key=lambda pool: pool.pool in names and names.index(pool.pool))
    else:
        zones = frozenset(edit.value) if edit.value else None
        changed = [
            replace(pool, constraints=replace(pool.constraints, zones=zones))
            if (*pool.path, "availability_zones") == edit.path
            else pool
            for pool in of_block
        ]
    queue = iter(changed)
    return [next(queue) if pool.address == str(edit.address) else pool for pool in pools]


def _find(order: Sequence[str], pool: LintPool) -> int:
    return order.index(pool.address) if pool.address in order else 0
