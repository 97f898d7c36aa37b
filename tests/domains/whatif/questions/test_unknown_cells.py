"""Tests of random sites with a history, exported without NUMA cells.

Every interval contains the true value.

NEXUSFORM_HISTORIES=40 checks forty sites of 128 machines; the suite checks two small ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from nexusform.domains.whatif.questions.capacity import SkuCount, compute_site_capacity
from nexusform.placements.vm_demands import PoolDemand, VmDemand
from nexusform.planning.conclusion.plan_result import SiteWithVms
from nexusform.planning.conclusion.spare_capacity import compute_headroom
from nexusform.planning.vm_planning.site_plans import SitePlan, build_demand
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Interval,
    Machine,
    PlacementConstraints,
    VmName,
    VmSku,
)
from nexusform.scheduling.site_inventory import InventoryRack
from nexusform.scheduling.sku_catalogue import CATALOGUES
from nexusform.snapshots.snapshot import SiteSnapshot

SKUS = CATALOGUES["2026-03"].vm_skus
MENU = [sku for sku in SKUS.values() if sku.kind in "GPE" and "bom-1.7.3" in sku.machine_skus]
SITES = int(os.environ.get("NEXUSFORM_HISTORIES", "2"))
MACHINES_OF_A_RACK = 16 if "NEXUSFORM_HISTORIES" in os.environ else 3
STEPS = 200


def build_racks(of_each: int) -> tuple[InventoryRack, ...]:
    """Return eight racks of machines with two cells of 48 vCPUs and 224 GiB."""
    return tuple(
        InventoryRack(
            f"s/r{number}", "s", f"r{number}", str(number), False, _build_machines(number, of_each)
        )
        for number in range(1, 9)
    )


def _build_machines(rack: int, count: int) -> tuple[Machine, ...]:
    return tuple(
        Machine(f"r{rack}-bm{slot:02d}", f"r{rack}", str(rack), slot, "bom-1.7.3", 2, 48, 224, 3500)
        for slot in range(1, count + 1)
    )


class SiteHistory(NamedTuple):
    """A site with all facts, and the same site as exported."""

    racks: tuple[InventoryRack, ...]
    truth: RackScheduler
    blind: RackScheduler


def build_site_history(seed: int, of_each: int) -> SiteHistory:
    """Create, scale and delete pools 200 times; at the end the site is at least 60 % full."""
    draw = random.Random(seed)
    offers = build_racks(of_each)
    machines = [machine for rack in offers for machine in rack.machines]
    truth = RackScheduler(machines, seed=seed)
    whole = 2 * 224 * len(machines)
    pools: dict[str, tuple[VmSku, list[int]]] = {}
    step = used = 0
    while step < STEPS or used < 0.6 * whole:
        step += 1
        if pools and draw.random() < (0.25 if used < 0.7 * whole else 0.75):
            name = draw.choice(sorted(pools))
            sku, handles = pools[name]
            for _ in range(min(len(handles), draw.randint(1, 6))):
                truth.release(handles.pop())
                used -= sku.memory_gib
            if not handles:
                del pools[name]
            continue
        name = draw.choice(sorted(pools)) if pools and draw.random() < 0.4 else f"p{step}"
        sku, handles = pools.get(name, (draw.choice(MENU), []))
        for _ in range(draw.randint(1, 8)):
            placed = truth.try_place(
                Demand(VmName(name[:2], name[:2], name, step * 100 + len(handles)), sku)
            )
            if placed is not None:
                handles.append(placed[0])
                used += sku.memory_gib
        if handles:
            pools[name] = (sku, handles)
    blind = RackScheduler(machines, seed=seed)
    for vm in truth.list_vms():
        blind.add_existing(vm.vm, vm.sku, replace(vm.placement, cells=()))
    return SiteHistory(offers, truth, blind)


def build_site_snapshot(site: SiteHistory, scheduler: RackScheduler) -> SiteSnapshot:
    machines = {machine.name: machine for machine in scheduler.machines}
    return SiteSnapshot("s", "s", machines, site.racks, (), (), scheduler, SKUS)


def add_surge_pool(
    site: SiteHistory, scheduler: RackScheduler, sku: VmSku, surge: int
) -> SiteWithVms:
    machines = {machine.name: machine for machine in scheduler.machines}
    numbers = tuple(range(surge))
    pool = PoolDemand(
        "x", numbers, tuple(map(str, numbers)), sku, max_surge=str(surge), count_path=("count",)
    )
    owner = VmDemand("s", "new", "new", (pool,))
    plan = SitePlan("s", "s", scheduler, machines, site.racks, frozenset(), {}, scheduler)
    return SiteWithVms(plan, pools=[(owner, pool)])


def compare_answers(
    site: SiteHistory, draw: random.Random
) -> Iterator[tuple[str, Interval, Interval]]:
    """Yield the question, the answer on the export, and the answer with all facts."""
    sku = draw.choice(MENU)
    zones = frozenset(draw.sample("12345678", draw.randint(1, 8)))
    [seen] = compute_site_capacity(
        build_site_snapshot(site, site.blind), [sku], zones
    ).sku_capacities
    [true] = compute_site_capacity(
        build_site_snapshot(site, site.truth), [sku], zones
    ).sku_capacities
    yield "capacity", seen.current, true.current
    yield "any rack lost", seen.with_one_rack_down, true.with_one_rack_down
    for rack, left in seen.without_rack.items():
        yield f"{rack} lost", left, true.without_rack[rack]
    for here, there in zip(seen.zones, true.zones, strict=True):
        yield f"zone {here.zone}", here.current, there.current
    yield "left over", seen.unusable_vcpus, true.unusable_vcpus
    yield "left over GiB", seen.unusable_memory_gib, true.unusable_memory_gib
    yield from _compare_headroom(site, sku, draw.randint(1, 30))
    for before, after in zip(
        site.blind.explain(_build_demand(sku)).filters,
        site.truth.explain(_build_demand(sku)).filters,
        strict=True,
    ):
        yield f"explain {before.rule}", before.interval, after.interval
    parts = [SkuCount(draw.randint(1, 3), one) for one in draw.sample(MENU, 2)]
    mix, exact = (
        compute_site_capacity(build_site_snapshot(site, one), [sku], mix=parts).mix
        for one in (site.blind, site.truth)
    )
    assert mix is not None
    assert exact is not None
    yield "mix", mix.sets, exact.sets
    yield "mix, one by one", mix.sequential_sets, exact.sequential_sets


def _build_demand(sku: VmSku) -> Demand:
    return Demand(VmName("new", "new", "x", 0), sku, PlacementConstraints())


def _compare_headroom(
    site: SiteHistory, sku: VmSku, surge: int
) -> Iterator[tuple[str, Interval, Interval]]:
    pair = [add_surge_pool(site, scheduler, sku, surge) for scheduler in (site.blind, site.truth)]
    [seen], [true] = (compute_headroom({"s": one}, {"s": one}) for one in pair)
    assert seen.after is not None
    assert true.after is not None
    yield "headroom", seen.after.free_interval, true.after.free_interval
    yield (
        "headroom, one rack down",
        seen.after.free_interval_after_rack_loss,
        true.after.free_interval_after_rack_loss,
    )
    # No surge capacity: 1, sufficient capacity: 0, uncertain: 0 to 1.
    verdict = Interval(
        bool(seen.after.no_surge_clusters),
        bool(seen.after.no_surge_clusters or seen.after.uncertain_surge_clusters),
    )
    yield (
        "surge",
        verdict,
        Interval(bool(true.after.no_surge_clusters), bool(true.after.no_surge_clusters)),
    )
    demand = build_demand(*pair[0].pools[0], 0)
    yield "surge count", site.blind.count_free_slots(demand), site.truth.count_free_slots(demand)


def test_true_value_is_inside_interval() -> None:
    asked = narrow = 0
    for seed in range(SITES):
        site = build_site_history(seed, MACHINES_OF_A_RACK)
        draw = random.Random(seed)
        for what, seen, true in [*compare_answers(site, draw), *compare_answers(site, draw)]:
            asked += 1
            narrow += seen.is_exact
            assert true.is_exact, what
            assert seen.minimum <= true.minimum <= seen.maximum, (seed, what, seen, true)
    assert asked >= 30 * SITES
    # Unbounded or always exact intervals would prove little.
    assert 0 < narrow < asked


def test_sampled_split_is_inside_interval_and_used_for_placement() -> None:
    site = build_site_history(1, 2)
    sku = SKUS["NC_G24_112_v1"]
    bounds = site.blind.count_free_slots(_build_demand(sku))
    for seed in range(5):
        twin = site.blind.copy(split_choice=seed)
        placed = 0
        while twin.try_place(Demand(VmName("new", "new", "x", placed), sku)) is not None:
            placed += 1
        assert bounds.minimum <= placed <= bounds.maximum
