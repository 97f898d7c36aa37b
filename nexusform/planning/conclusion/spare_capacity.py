"""Capacity of sites for further VMs, before and after a plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.placements.vm_demands import PoolDemand, VmDemand
from nexusform.planning.conclusion.plan_result import SiteWithVms
from nexusform.planning.vm_planning import site_plans
from nexusform.plans.maintenance import PlannedMachineAction
from nexusform.plans.site_capacity.occupancy import SiteSkuCapacity, SpareCapacity
from nexusform.scheduling.racks.vms import (
    Demand,
    Interval,
    VmSku,
    build_standalone_demand,
    find_common_constraints,
    sum_count_intervals,
)
from nexusform.scheduling.sku_catalogue import compute_size_key


def compute_headroom(
    before: Mapping[str, SiteWithVms],
    after: Mapping[str, SiteWithVms],
    actions: Sequence[PlannedMachineAction] = (),
) -> tuple[SiteSkuCapacity, ...]:
    """Compute the capacity of every site for every VM SKU in use, before and after the plan.

    The result is ordered by site id, then by SKU, the largest first. The SKUs in use are those of
    the NKS pools on either side; a site without any is skipped. The machine actions of the plan
    have succeeded `after` it; what is missing during one of them is a figure of its own.
    """
    machines_by_site = group_by(actions, lambda action: action.site_id)
    capacities: list[SiteSkuCapacity] = []
    for site_id in sorted({*before, *after}):
        side_before = before.get(site_id)
        side_after = after.get(site_id)
        sides = [side for side in (side_before, side_after) if side is not None]
        pools = chain.from_iterable(side.pools for side in sides)
        skus = {pool.sku for _, pool in pools}
        machines = {action.machine for action in machines_by_site.get(site_id, ())}
        for sku in sorted(skus, key=compute_size_key, reverse=True):
            capacity = _compare_sku_capacity(side_before, side_after, sku)
            if machines and side_after is not None:
                missing = _count_slots_of_one_machine(side_after, sku, machines)
                capacity = replace(capacity, missing_meanwhile=missing)
            capacities.append(capacity)
    return tuple(capacities)


def _compare_sku_capacity(
    before: SiteWithVms | None, after: SiteWithVms | None, sku: VmSku
) -> SiteSkuCapacity:
    """Compute the capacity of a site for a SKU before and after the plan; one of them exists."""
    capacity_before = compute_sku_capacity(before, sku)
    # One object is for both sides of a plan without changes.
    capacity_after = capacity_before if after is before else compute_sku_capacity(after, sku)
    existing = after or before
    assert existing is not None
    return SiteSkuCapacity(
        site_id=existing.site.id,
        site=existing.site.name,
        sku=sku.name,
        cells=sku.numa_cells,
        before=capacity_before,
        after=capacity_after,
    )


def _count_slots_of_one_machine(occupied: SiteWithVms, sku: VmSku, machines: Iterable[str]) -> int:
    """Return how many further VMs of a SKU fit at least on the emptiest of these machines."""
    demand = _build_sku_demand(occupied, sku)
    count_slots = occupied.site.scheduler.create_machine_counter(demand)
    if count_slots is None:
        return 0
    existing = [name for name in machines if name in occupied.site.machines]
    return max((count_slots(name).minimum for name in existing), default=0)


def _build_sku_demand(occupied: SiteWithVms, sku: VmSku) -> Demand:
    """Return the demand for one more VM of a SKU with the constraints that its pools share."""
    constraints = find_common_constraints(
        pool.constraints for _, pool in occupied.pools if pool.sku == sku
    )
    return build_standalone_demand(sku, constraints)


def compute_sku_capacity(occupied: SiteWithVms | None, sku: VmSku) -> SpareCapacity | None:
    """Compute how many further VMs of a SKU fit, before or after the plan.

    The counts are for all racks, and for all but the one with most capacity. Also list the clusters
    without capacity for the surge VMs of an upgrade. Counts are intervals if VMs are in unknown
    NUMA cells. Return None without the site.
    """
    if occupied is None:
        return None
    pools = [(owner, pool) for owner, pool in occupied.pools if pool.sku == sku]
    by_rack = occupied.site.scheduler.count_free_slots_by_rack(_build_sku_demand(occupied, sku))
    free = sum_count_intervals(by_rack.values())
    minimums = {rack: interval.minimum for rack, interval in by_rack.items()}
    worst_rack = max(sorted(minimums), key=lambda rack: minimums[rack], default="")
    # The unknown cells decide on the rack with most capacity, so each bound subtracts its
    # own largest rack.
    rack_lost = Interval(
        free.minimum - minimums.get(worst_rack, 0),
        free.maximum - max((interval.maximum for interval in by_rack.values()), default=0),
    )
    clusters_without_surge, uncertain_clusters = _find_clusters_without_surge(occupied, pools)
    return SpareCapacity(
        free=free.minimum,
        free_after_rack_loss=rack_lost.minimum,
        worst_rack=worst_rack if minimums.get(worst_rack) else "",
        clusters=tuple(dict.fromkeys(owner.cluster for owner, _ in pools)),
        no_surge_clusters=clusters_without_surge,
        maximum_free=None if free.is_exact else free.maximum,
        maximum_free_after_rack_loss=None if rack_lost.is_exact else rack_lost.maximum,
        uncertain_surge_clusters=uncertain_clusters,
    )


def _find_clusters_without_surge(
    occupied: SiteWithVms, pools: Iterable[tuple[VmDemand, PoolDemand]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the clusters with a pool without surge capacity, and the uncertain ones.

    A pool lacks surge capacity if its surge VMs do not fit. It is uncertain if the capacity depends
    on unknown NUMA cells.
    """
    # Both dicts are ordered sets.
    without_capacity: dict[str, None] = {}
    uncertain: dict[str, None] = {}
    # The scheduler fills it, to count equal demands once.
    known_counts: dict[Hashable, Interval] = {}
    for owner, pool in pools:
        demand = site_plans.build_demand(owner, pool, number=0)
        capacity = occupied.site.scheduler.count_free_slots(demand, known_counts)
        if capacity.maximum < pool.surge_size:
            without_capacity[owner.cluster] = None
        elif capacity.minimum < pool.surge_size:
            uncertain[owner.cluster] = None
    return tuple(without_capacity), tuple(
        cluster for cluster in uncertain if cluster not in without_capacity
    )
