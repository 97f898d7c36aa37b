"""Sites with a history, exported without NUMA cells: what is true lies in every interval.

NEXUSFORM_HISTORIES=40 asks forty sites of 128 machines; the suite asks two small ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from nexusform.demands import PoolDemand, VmDemand
from nexusform.domains.whatif.questions.capacity import MixPart, find_capacity
from nexusform.planning.conclusion.room_left import OccupiedSite, headroom
from nexusform.planning.vms.sites import SitePlan, demand_for
from nexusform.scheduling.catalogue import CATALOGUES
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Interval, Machine, Terms, VmName, VmSku
from nexusform.scheduling.world import RackOffer
from nexusform.worlds.world_view import SiteView

SKUS = CATALOGUES["2026-03"].vm_skus
MENU = [sku for sku in SKUS.values() if sku.kind in "GPE" and "bom-1.7.3" in sku.machine_skus]
SITES = int(os.environ.get("NEXUSFORM_HISTORIES", "2"))
MACHINES_OF_A_RACK = 16 if "NEXUSFORM_HISTORIES" in os.environ else 3
STEPS = 200


def racks(of_each: int) -> tuple[RackOffer, ...]:
    """Eight racks; their machines have two cells of 48 vCPUs and 224 GiB."""
    return tuple(
        RackOffer(f"s/r{number}", "s", f"r{number}", str(number), False, _machines(number, of_each))
        for number in range(1, 9)
    )


def _machines(rack: int, count: int) -> tuple[Machine, ...]:
    return tuple(
        Machine(f"r{rack}-bm{slot:02d}", f"r{rack}", str(rack), slot, "bom-1.7.3", 2, 48, 224, 3500)
        for slot in range(1, count + 1)
    )


class Lived(NamedTuple):
    """A site as it is, and as an export shows it."""

    racks: tuple[RackOffer, ...]
    truth: RackScheduler
    blind: RackScheduler


def lived(seed: int, of_each: int) -> Lived:
    """Pools come, grow, shrink and go, 200 times; in the end the site is at least 60 % full."""
    draw = random.Random(seed)
    offers = racks(of_each)
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
            placed = truth.attempt(Demand(VmName(name[:2], name[:2], name, step * 100 + len(handles)), sku))
            if placed is not None:
                handles.append(placed[0])
                used += sku.memory_gib
        if handles:
            pools[name] = (sku, handles)
    blind = RackScheduler(machines, seed=seed)
    for vm in truth.vms():
        blind.occupy(vm.vm, vm.sku, replace(vm.placement, cells=()))
    return Lived(offers, truth, blind)


def view(site: Lived, scheduler: RackScheduler) -> SiteView:
    machines = {machine.name: machine for machine in scheduler.machines}
    return SiteView("s", "s", machines, site.racks, (), (), scheduler, SKUS)


def occupied(site: Lived, scheduler: RackScheduler, sku: VmSku, surge: int) -> OccupiedSite:
    machines = {machine.name: machine for machine in scheduler.machines}
    numbers = tuple(range(surge))
    pool = PoolDemand(
        "x", numbers, tuple(map(str, numbers)), sku, max_surge=str(surge), count_path=("count",)
    )
    owner = VmDemand("s", "new", "new", (pool,))
    plan = SitePlan("s", "s", scheduler, machines, site.racks, frozenset(), {})
    return OccupiedSite(plan, pools=[(owner, pool)])


def questions(site: Lived, draw: random.Random) -> Iterator[tuple[str, Interval, Interval]]:
    """What is asked, the answer on the export, and the answer on the site as it is."""
    sku = draw.choice(MENU)
    zones = frozenset(draw.sample("12345678", draw.randint(1, 8)))
    [seen] = find_capacity(view(site, site.blind), [sku], zones).rooms
    [true] = find_capacity(view(site, site.truth), [sku], zones).rooms
    yield "capacity", seen.now, true.now
    yield "any rack lost", seen.with_a_rack_lost, true.with_a_rack_lost
    for rack, left in seen.without_rack.items():
        yield f"{rack} lost", left, true.without_rack[rack]
    for here, there in zip(seen.zones, true.zones, strict=True):
        yield f"zone {here.zone}", here.now, there.now
    yield "left over", seen.rest_vcpus, true.rest_vcpus
    yield "left over GiB", seen.rest_memory_gib, true.rest_memory_gib
    yield from _headroom(site, sku, draw.randint(1, 30))
    for before, after in zip(
        site.blind.explain(_new(sku)).filters, site.truth.explain(_new(sku)).filters, strict=True
    ):
        yield f"explain {before.rule}", before.whichever, after.whichever
    parts = [MixPart(draw.randint(1, 3), one) for one in draw.sample(MENU, 2)]
    mix, exact = (find_capacity(view(site, one), [sku], mix=parts).mix for one in (site.blind, site.truth))
    assert mix is not None
    assert exact is not None
    yield "mix", mix.sets, exact.sets
    yield "mix, one by one", mix.one_by_one, exact.one_by_one


def _new(sku: VmSku) -> Demand:
    return Demand(VmName("new", "new", "x", 0), sku, Terms())


def _headroom(site: Lived, sku: VmSku, surge: int) -> Iterator[tuple[str, Interval, Interval]]:
    pair = [occupied(site, scheduler, sku, surge) for scheduler in (site.blind, site.truth)]
    [seen], [true] = (headroom({"s": one}, {"s": one}) for one in pair)
    assert seen.after is not None
    assert true.after is not None
    yield "headroom", seen.after.fitting, true.after.fitting
    yield "headroom, a rack lost", seen.after.fitting_with_a_rack_lost, true.after.fitting_with_a_rack_lost
    # No surge room: 1, room: 0, perhaps: 0 to 1.
    verdict = Interval(bool(seen.after.no_surge), bool(seen.after.no_surge or seen.after.unsure_surge))
    yield "surge", verdict, Interval(bool(true.after.no_surge), bool(true.after.no_surge))
    demand = demand_for(*pair[0].pools[0], 0)
    yield "surge count", site.blind.count_free(demand), site.truth.count_free(demand)


def test_what_is_true_lies_inside() -> None:
    asked = narrow = 0
    for seed in range(SITES):
        site = lived(seed, MACHINES_OF_A_RACK)
        draw = random.Random(seed)
        for what, seen, true in [*questions(site, draw), *questions(site, draw)]:
            asked += 1
            narrow += seen.exact
            assert true.exact, what
            assert seen.least <= true.least <= seen.most, (seed, what, seen, true)
    assert asked >= 30 * SITES
    assert 0 < narrow < asked  # intervals that say nothing, or that are never needed, would prove little


def test_a_drawn_split_is_inside_too_and_placing_goes_by_it() -> None:
    site = lived(1, 2)
    sku = SKUS["NC_G24_112_v1"]
    bounds = site.blind.count_free(_new(sku))
    for seed in range(5):
        twin = site.blind.copy(split_seed=seed)
        placed = 0
        while twin.attempt(Demand(VmName("new", "new", "x", placed), sku)) is not None:
            placed += 1
        assert bounds.least <= placed <= bounds.most
