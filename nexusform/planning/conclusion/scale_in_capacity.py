"""Capacity after a scale-in whose VMs the platform chooses: the range over its choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import chain, combinations, islice, pairwise, product
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
from nexusform.planning.vm_planning.vm_placement_steps import build_group_hints
from nexusform.plans.site_capacity.occupancy import SiteSkuCapacity, SpareCapacity
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Interval,
    ScheduledVm,
    VmName,
    VmSku,
    build_standalone_demand,
    find_common_constraints,
)

# Choices of different VMs on one machine that are tried; with more, the range is wider.
_MAX_CHOICES: Final = 64
# Of too many choices of surge capacity, this many are tried.
_MAX_SAMPLED_CHOICES: Final = 8
# Sums of steps are whole numbers but for rounding.
_ROUNDING: Final = 1e-6


class _ShrunkSite(Struct, frozen=True):
    """Site with all VMs that the platform may remove, and without the new VMs of the plan.

    `names` has the names of the candidates by handle, and `removed` those that the plan removes.
    `new_demands` are the new VMs in their order.
    """

    occupied: SiteWithVms
    candidates: tuple[ScheduledVm, ...]
    names: Mapping[int, str]
    removed: tuple[ScheduledVm, ...]
    new_demands: tuple[Demand, ...]

    @property
    def removed_count(self) -> int:
        """Number of VMs that the platform removes."""
        return len(self.removed)


def widen_capacity(
    rows: Sequence[SiteSkuCapacity], after: Mapping[str, SiteWithVms], objects: Iterable[VmObject]
) -> tuple[SiteSkuCapacity, ...]:
    """Return the rows with ranges after the plan on sites where the platform chooses removed VMs.

    New VMs depend on the choice, so a site with them keeps its counts. Whether a cluster has surge
    capacity may depend on the choice, too.
    """
    object_list = list(objects)
    shrinking = {
        vm_object.prior.site_id for vm_object in object_list if vm_object.list_chosen_removals()
    }
    shrunk_sites = {
        site_id: _restore_vms(
            after[site_id],
            [
                item
                for item in object_list
                if site_id in {item.prior.site_id, item.request.demand.site_id}
            ],
        )
        for site_id in sorted(shrinking & after.keys())
    }
    widened: list[SiteSkuCapacity] = []
    for row in rows:
        shrunk = shrunk_sites.get(row.site_id)
        skus = {pool.sku.name: pool.sku for _, pool in after[row.site_id].pools} if shrunk else {}
        # No pool has the SKU any more.
        if row.after is None or shrunk is None or row.sku not in skus:
            widened.append(row)
            continue
        capacity = row.after
        if not shrunk.new_demands:
            capacity = _widen(capacity, shrunk, skus[row.sku])
        capacity = _add_surge_doubts(capacity, row.after, shrunk, skus[row.sku])
        widened.append(replace(row, after=capacity))
    return tuple(widened)


def _add_surge_doubts(
    capacity: SpareCapacity, planned: SpareCapacity, shrunk: _ShrunkSite, sku: VmSku
) -> SpareCapacity:
    """Return the capacity with the clusters whose surge VMs fit only after some choices.

    `planned` is the capacity after the choice of the plan.
    """
    worst = _find_clusters_without_surge(shrunk, sku, ())
    best = _find_clusters_without_surge(shrunk, sku, shrunk.candidates)
    # New VMs take other machines after another choice: then more removals may leave less.
    if worst == best and not shrunk.new_demands:
        return replace(
            capacity,
            no_surge_clusters=planned.no_surge_clusters,
            uncertain_surge_clusters=planned.uncertain_surge_clusters,
        )
    is_complete = comb(len(shrunk.candidates), shrunk.removed_count) <= _MAX_CHOICES
    maximum = _MAX_CHOICES if is_complete else _MAX_SAMPLED_CHOICES
    choices = list(islice(combinations(shrunk.candidates, shrunk.removed_count), maximum))
    # The choice of the plan comes first.
    tried = [shrunk.removed, *choices]
    lacking = [_find_clusters_without_surge(shrunk, sku, choice) for choice in tried]
    if not is_complete:
        tried.append(())
        lacking.append(worst)
    doubtful: list[str] = []
    conditions: list[tuple[str, str]] = []
    for name in planned.clusters:
        fitting = [
            choice for choice, names in zip(tried, lacking, strict=True) if name not in names
        ]
        # Unknown cells decide about a cluster that is uncertain already.
        if name in planned.uncertain_surge_clusters or len(fitting) in {0, len(tried)}:
            continue
        doubtful.append(name)
        needed = list(fitting[0])
        for vm in fitting[0]:
            others = [other for other in needed if other is not vm]
            if name not in _find_clusters_without_surge(shrunk, sku, others):
                needed = others
        is_necessary = is_complete and all(vm in choice for vm in needed for choice in fitting)
        leaving = format_list(
            f"{shrunk.names[vm.handle]} leaves {vm.placement.machine}"
            for vm in needed or fitting[0]
        )
        only = "only " if needed and is_necessary else ""
        conditions.append((name, f"fits {only}if {leaving}"))
    return replace(
        capacity,
        no_surge_clusters=tuple(name for name in planned.no_surge_clusters if name not in doubtful),
        uncertain_surge_clusters=(*planned.uncertain_surge_clusters, *doubtful),
        surge_conditions=tuple(conditions),
    )


def _find_clusters_without_surge(
    shrunk: _ShrunkSite, sku: VmSku, choice: Iterable[ScheduledVm]
) -> tuple[str, ...]:
    """Return the clusters without surge capacity if the platform removes these VMs."""
    scheduler = shrunk.occupied.site.scheduler.copy()
    for vm in choice:
        scheduler.release(vm.handle)
    for demand in shrunk.new_demands:
        scheduler.try_place(demand)
    site = replace(shrunk.occupied.site, scheduler=scheduler)
    capacity = compute_sku_capacity(replace(shrunk.occupied, site=site), sku)
    return capacity.no_surge_clusters if capacity is not None else ()


def _restore_vms(occupied: SiteWithVms, objects: Iterable[VmObject]) -> _ShrunkSite:
    """Return a copy of a site on which the removed VMs of the pools run again.

    It has none of the new VMs: they are placed after a choice.
    """
    site = replace(occupied.site, scheduler=occupied.site.scheduler.copy())
    owners: set[tuple[str, str]] = set()
    names: dict[VmName, str] = {}
    removed_handles: set[int] = set()
    handles = {vm.vm: vm.handle for vm in site.scheduler.list_vms()}
    new_demands: list[Demand] = []
    for vm_object in objects:
        for new_demand in _build_new_demands(vm_object):
            # A VM without a place is not there.
            if new_demand.vm in handles:
                site.scheduler.release(handles[new_demand.vm])
                new_demands.append(new_demand)
        demand = vm_object.request.demand
        pools = index_pools(demand.pools)
        removals = vm_object.list_chosen_removals()
        for key, vm in vm_object.prior.existing.items():
            if vm.pool not in pools:
                continue
            name = site_plans.build_vm_name(demand, pools[vm.pool], vm.pool, vm.number)
            names[name] = vm.name
            if key in removals:
                restored = site.place_existing_vm(name, pools[vm.pool].sku, vm.placement)
                owners.add((name.owner, name.pool))
                if restored is not None:
                    removed_handles.add(restored[0])
    candidates = tuple(
        vm for vm in site.scheduler.list_vms() if (vm.vm.owner, vm.vm.pool) in owners
    )
    return _ShrunkSite(
        replace(occupied, site=site),
        candidates,
        {vm.handle: names.get(vm.vm, vm.vm.cluster) for vm in candidates},
        tuple(vm for vm in candidates if vm.handle in removed_handles),
        tuple(new_demands),
    )


def _build_new_demands(vm_object: VmObject) -> Iterator[Demand]:
    """Yield the demands of the VMs that the plan places, in their order."""
    for pool in vm_object.pools:
        hints = build_group_hints(vm_object, pool)
        for name, number in vm_object.placements.new_handles:
            if name == pool.pool:
                demand = vm_object.request.demand
                yield site_plans.build_demand(demand, pool, number, group_hints=hints)


def _widen(capacity: SpareCapacity, shrunk: _ShrunkSite, sku: VmSku) -> SpareCapacity:
    """Return the capacity for a SKU as a range over the VMs that the platform may remove."""
    pools = [pool for _, pool in shrunk.occupied.pools if pool.sku == sku]
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
    return replace(
        full,
        worst_rack=capacity.worst_rack,
        free=free.minimum,
        maximum_free=None if free.is_exact else free.maximum,
        free_after_rack_loss=rack_lost.minimum,
        maximum_free_after_rack_loss=None if rack_lost.is_exact else rack_lost.maximum,
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
