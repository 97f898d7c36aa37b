"""Twin of the trials of lint rules: the new VMs of pools placed again, on the site before them.

It knows no planner: VMs that exist stay where they are, and only pools have VMs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
        scheduler = _copy_without_removed_vms(before, edited)
        for pool in edited:
            demands = [pool.build_demand(number) for number in pool.new_numbers]
            if any(isinstance(answer, NoFitReason) for answer in scheduler.place_all(demands)):
                return None
        usage = measure_usage(scheduler, edited)
        return {} if usage is None else {site_id: usage}

    return plan_edits


def _copy_without_removed_vms(before: RackScheduler, pools: Sequence[LintPool]) -> RackScheduler:
    """Return a copy with the existing VMs that their pools still have."""
    numbers = {(pool.owner, pool.pool): pool.numbers for pool in pools}
    scheduler = RackScheduler(before.machines)
    for record in before.list_vms():
        if record.vm.number in numbers[record.vm.owner, record.vm.pool]:
            scheduler.add_existing(record.vm, record.sku, record.placement)
    return scheduler


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
        changed = [
            _change_argument(pool, edit.path[-1], edit.value)
            if edit.path[:-1] == pool.path
            else pool
            for pool in of_block
        ]
    queue = iter(changed)
    return [next(queue) if pool.address == str(edit.address) else pool for pool in pools]


def _change_argument(pool: LintPool, name: object, value: Any) -> LintPool:
    """Return a pool with another value of an argument, as a plan places it."""
    if name == "availability_zones":
        zones = frozenset(value) if value else None
        return replace(pool, constraints=replace(pool.constraints, zones=zones))
    # A lower count removes the highest numbers, a higher one adds numbers after them.
    if name == "count":
        numbers = tuple(range(value))
        existing = set(pool.numbers) - set(pool.new_numbers)
        new_numbers = tuple(number for number in numbers if number not in existing)
        return replace(pool, numbers=numbers, new_numbers=new_numbers)
    raise AssertionError(f"The twin of trials does not know the argument {name}. Repeat it here.")


def _find(order: Sequence[str], pool: LintPool) -> int:
    return order.index(pool.address) if pool.address in order else 0
