"""Capacity after a scale-in whose VMs the platform chooses: the range over its choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import chain, combinations, pairwise, product
from math import ceil, comb, floor, prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_list, group_by
from nexusform.placements.vm_demands import index_pools
from nexusform.planning.conclusion.plan_result import SiteWithVms
from nexusform.planning.conclusion.spare_capacity import compute_sku_capacity
from nexusform.planning.vm_planning import site_plans
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.site_capacity.occupancy import SiteSkuCapacity, SpareCapacity
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Interval,
    ScheduledVm,
    VmSku,
    build_standalone_demand,
    find_common_constraints,
)

# Choices of different VMs on one machine that are tried; with more, the range is wider.
_MAX_CHOICES: Final = 64
# Sums of steps are whole numbers but for rounding.
_ROUNDING: Final = 1e-6


class _ShrunkSite(Struct, frozen=True):
    """Site with all VMs that the platform may remove.

    `removed_names` has the names of the VMs that the plan removes, by handle.
    """

    occupied: SiteWithVms
    candidates: tuple[ScheduledVm, ...]
    removed_names: Mapping[int, str]

    @property
    def removed_count(self) -> int:
        """Number of VMs that the platform removes."""
        return len(self.removed_names)


def widen_capacity(
    rows: Sequence[SiteSkuCapacity], after: Mapping[str, SiteWithVms], objects: Iterable[VmObject]
) -> tuple[SiteSkuCapacity, ...]:
    """Return the rows with ranges after the plan on sites where the platform chooses removed VMs.

    New VMs depend on the choice, so a site with them keeps its counts. Whether a cluster has surge
    capacity there may depend on the choice, too.
    """
    object_list = list(objects)
    placing = {
        vm_object.request.demand.site_id
        for vm_object in object_list
        if vm_object.placements.new_handles
    }
    shrinking = group_by(
        (vm_object for vm_object in object_list if vm_object.list_chosen_removals()),
        lambda vm_object: vm_object.prior.site_id,
    )
    shrunk_sites = {
        site_id: _restore_vms(after[site_id], shrunk_objects)
        for site_id, shrunk_objects in shrinking.items()
        if site_id in after
    }
    widened: list[SiteSkuCapacity] = []
    for row in rows:
        if row.after is None or row.site_id not in shrunk_sites:
            widened.append(row)
            continue
        change = _add_surge_doubts if row.site_id in placing else _widen
        widened.append(replace(row, after=change(row.after, shrunk_sites[row.site_id], row.sku)))
    return tuple(widened)


def _add_surge_doubts(capacity: SpareCapacity, shrunk: _ShrunkSite, sku_name: str) -> SpareCapacity:
    """Return the capacity with the clusters whose surge VMs fit only after some choices.

    The new VMs stay where the plan has placed them.
    """
    skus = [pool.sku for _, pool in shrunk.occupied.pools if pool.sku.name == sku_name]
    # No pool has the SKU any more.
    if not skus:
        return capacity
    choices: Iterable[Sequence[ScheduledVm]] = ((),)
    if comb(len(shrunk.candidates), shrunk.removed_count) <= _MAX_CHOICES:
        choices = combinations(shrunk.candidates, shrunk.removed_count)
    doubtful: dict[str, None] = {}
    for choice in choices:
        doubtful |= dict.fromkeys(_find_clusters_without_surge(shrunk, skus[0], choice))
    # A cluster without surge capacity after the plan stays one.
    clusters = [name for name in doubtful if name not in capacity.no_surge_clusters]
    if not clusters:
        return capacity
    # With one of the removed VMs back, a cluster may lack its surge capacity.
    needed: dict[str, list[str]] = {}
    removed = [vm for vm in shrunk.candidates if vm.handle in shrunk.removed_names]
    for vm in removed:
        others = [other for other in removed if other is not vm]
        text = f"{shrunk.removed_names[vm.handle]} leaves {vm.placement.machine}"
        for name in _find_clusters_without_surge(shrunk, skus[0], others):
            needed.setdefault(name, []).append(text)
    conditions = tuple(
        (name, f"fits only if {format_list(needed[name])}") for name in clusters if name in needed
    )
    return replace(
        capacity,
        uncertain_surge_clusters=(*capacity.uncertain_surge_clusters, *clusters),
        surge_conditions=conditions,
    )


def _find_clusters_without_surge(
    shrunk: _ShrunkSite, sku: VmSku, choice: Iterable[ScheduledVm]
) -> tuple[str, ...]:
    """Return the clusters without surge capacity if the platform removes these VMs."""
    scheduler = shrunk.occupied.site.scheduler.copy()
    for vm in choice:
        scheduler.release(vm.handle)
    site = replace(shrunk.occupied.site, scheduler=scheduler)
    capacity = compute_sku_capacity(replace(shrunk.occupied, site=site), sku)
    return capacity.no_surge_clusters if capacity is not None else ()


def _restore_vms(occupied: SiteWithVms, objects: Iterable[VmObject]) -> _ShrunkSite:
    """Return a copy of a site on which the removed VMs of the pools run again."""
    site = replace(occupied.site, scheduler=occupied.site.scheduler.copy())
    owners: set[tuple[str, str]] = set()
    removed_names: dict[int, str] = {}
    for vm_object in objects:
        demand = vm_object.request.demand
        pools = index_pools(demand.pools)
        for key in vm_object.list_chosen_removals():
            vm = vm_object.prior.existing.get(key)
            if vm is not None:
                pool = pools[vm.pool]
                name = site_plans.build_vm_name(demand, pool, vm.pool, vm.number)
                restored = site.place_existing_vm(name, pool.sku, vm.placement)
                owners.add((name.owner, name.pool))
                if restored is not None:
                    removed_names[restored[0]] = vm.name
    candidates = tuple(
        vm for vm in site.scheduler.list_vms() if (vm.vm.owner, vm.vm.pool) in owners
    )
    return _ShrunkSite(replace(occupied, site=site), candidates, removed_names)


def _widen(capacity: SpareCapacity, shrunk: _ShrunkSite, sku_name: str) -> SpareCapacity:
    """Return the capacity for a SKU as a range over the VMs that the platform may remove."""
    pools = [pool for _, pool in shrunk.occupied.pools if pool.sku.name == sku_name]
    # No pool has the SKU any more.
    if not pools:
        return capacity
    sku = pools[0].sku
    demand = build_standalone_demand(
        sku, find_common_constraints(pool.constraints for pool in pools)
    )
    # Of the site before any of them is removed.
    full = compute_sku_capacity(shrunk.occupied, sku)
    if full is None:
        return capacity
    by_rack = shrunk.occupied.site.scheduler.count_free_slots_by_rack(demand)
    gain, gains_by_rack = _compute_gain(shrunk, demand)
    free = full.free_interval + gain
    # The most that one rack can have, and the least that the largest one must have.
    largest_rack = max(
        (count.maximum + gains_by_rack.get(rack, 0) for rack, count in by_rack.items()), default=0
    )
    equal_share = -(-free.maximum // len(by_rack)) if by_rack else 0
    full_lost = full.free_interval_after_rack_loss
    rack_lost = Interval(
        max(full_lost.minimum, free.minimum - largest_rack),
        min(full_lost.maximum + gain.maximum, free.maximum - equal_share),
    )
    # The choice may give capacity to a cluster that has none before any removal.
    lacking = full.no_surge_clusters
    return replace(
        full,
        worst_rack=capacity.worst_rack,
        free=free.minimum,
        maximum_free=None if free.is_exact else free.maximum,
        free_after_rack_loss=rack_lost.minimum,
        maximum_free_after_rack_loss=None if rack_lost.is_exact else rack_lost.maximum,
        no_surge_clusters=() if gain.maximum else lacking,
        uncertain_surge_clusters=(
            *full.uncertain_surge_clusters,
            *(lacking if gain.maximum else ()),
        ),
    )


def _compute_gain(shrunk: _ShrunkSite, demand: Demand) -> tuple[Interval, dict[str, int]]:
    """Compute how many more VMs fit at least and at most, over all choices of removed VMs.

    Also return the most that fit on each rack. Each machine has a curve: the gained capacity by
    number of VMs removed from it. The platform takes the steps of these curves in any order, so the
    bounds are the sums of the smallest and of the largest ones.
    """
    # VMs get other handles when they run again.
    scheduler = shrunk.occupied.site.scheduler.copy()
    count_slots = scheduler.create_machine_counter(demand)
    if count_slots is None:
        gain = _compute_whole_gain(shrunk, demand)
        racks = {vm.placement.rack for vm in shrunk.candidates}
        return gain, dict.fromkeys(racks, gain.maximum)
    smallest_steps: list[float] = []
    largest_steps: dict[str, list[float]] = {}
    vms_by_machine = group_by(shrunk.candidates, lambda vm: vm.placement.machine)
    for machine, vms in vms_by_machine.items():
        gains = _compute_gains(scheduler, vms, partial(count_slots, machine))
        smallest_steps += _list_lower_steps([gain.minimum for gain in gains])
        largest_steps.setdefault(vms[0].placement.rack, []).extend(
            -step for step in _list_lower_steps([-gain.maximum for gain in gains])
        )
    smallest = sum(sorted(smallest_steps)[: shrunk.removed_count])
    return (
        Interval(
            ceil(smallest - _ROUNDING),
            _add_largest(chain.from_iterable(largest_steps.values()), shrunk.removed_count),
        ),
        {rack: _add_largest(steps, shrunk.removed_count) for rack, steps in largest_steps.items()},
    )


def _add_largest(steps: Iterable[float], count: int) -> int:
    """Return the sum of the largest steps, rounded down."""
    return floor(sum(nlargest(count, steps)) + _ROUNDING)


def _compute_whole_gain(shrunk: _ShrunkSite, demand: Demand) -> Interval:
    """Compute the bounds of the gain: no VM makes room, or all of them do."""
    scheduler = shrunk.occupied.site.scheduler
    released = scheduler.copy()
    for vm in shrunk.candidates:
        released.release(vm.handle)
    base = scheduler.count_free_slots(demand)
    return Interval(0, max(released.count_free_slots(demand).maximum - base.maximum, 0))


def _compute_gains(
    scheduler: RackScheduler, vms: Sequence[ScheduledVm], count_slots: Callable[[], Interval]
) -> list[Interval]:
    """Compute the gained capacity of a machine if 0, 1, ... or all of these VMs are removed.

    All VMs run again at the end. With many different VMs, only the gain of all is exact.
    """
    handles = {position: vm.handle for position, vm in enumerate(vms)}
    base = count_slots()

    def compute_gain(positions: Iterable[int]) -> Interval:
        removed = list(positions)
        for position in removed:
            scheduler.release(handles[position])
        count = count_slots()
        for position in removed:
            vm = vms[position]
            handles[position] = scheduler.add_existing(vm.vm, vm.sku, vm.placement)
        return Interval(count.minimum - base.minimum, count.maximum - base.maximum)

    # VMs of one SKU and in the same cells are alike: only their number matters.
    alike = group_by(handles, lambda position: (vms[position].sku.name, vms[position].placement))
    choices = [range(len(positions) + 1) for positions in alike.values()]
    if prod(len(choice) for choice in choices) > _MAX_CHOICES:
        whole = compute_gain(list(handles))
        between = [Interval(0, whole.maximum)] * (len(vms) - 1)
        return [Interval(0, 0), *between, whole]
    gains_by_count: dict[int, list[Interval]] = {}
    for counts in product(*choices):
        removed = chain.from_iterable(
            positions[:count] for positions, count in zip(alike.values(), counts, strict=True)
        )
        gains_by_count.setdefault(sum(counts), []).append(compute_gain(removed))
    return [_join(gains_by_count[count]) for count in range(len(vms) + 1)]


def _list_lower_steps(values: Sequence[float]) -> list[float]:
    """Return the steps of the largest convex curve below the values, in ascending order.

    `values` start with 0: [0, 0, 1] has the steps 0 and 1; [0, 1, 1] has 0.5 twice.
    """
    corners: list[int] = []
    for position, value in enumerate(values):
        while len(corners) > 1:
            start, middle = corners[-2:]
            slope = (value - values[start]) / (position - start)
            if values[middle] < values[start] + slope * (middle - start):
                break
            corners.pop()
        corners.append(position)
    steps: list[float] = []
    for start, end in pairwise(corners):
        steps += [(values[end] - values[start]) / (end - start)] * (end - start)
    return steps


def _join(intervals: Iterable[Interval]) -> Interval:
    """Return the interval that covers all others."""
    interval_list = list(intervals)
    return Interval(
        min(interval.minimum for interval in interval_list),
        max(interval.maximum for interval in interval_list),
    )
