"""Tests of best machines for samples, compared with every layout of VMs with unknown cells."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from random import Random

import pytest
from msgspec.structs import replace

from nexusform.scheduling.racks.explanation import TiedMachines
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Machine,
    Placement,
    UnschedulableReason,
    VmName,
    VmSku,
)

MACHINES = tuple(
    Machine(f"m{number}", f"r{number // 2}", f"{number // 2}", number % 2 + 1, None, 2, 4, 16, 1000)
    for number in range(4)
)
SKUS = tuple(
    VmSku(f"s{cpus}", cpus, 0, memory, 10) for cpus, memory in ((1, 4), (2, 8), (3, 4), (4, 16))
)


def draw_vms(random: Random) -> list[tuple[VmName, VmSku, Machine]]:
    vms: list[tuple[VmName, VmSku, Machine]] = []
    for number in range(random.randint(2, 7)):
        cluster = random.choice("ab")
        name = VmName(cluster, cluster, random.choice("pq"), number)
        vms.append((name, random.choice(SKUS[:3]), random.choice(MACHINES)))
    return vms


def build_site(
    vms: list[tuple[VmName, VmSku, Machine]],
    cells: tuple[int, ...] = (),
    away: Collection[str] = (),
) -> RackScheduler:
    """Return a scheduler with these cells (empty: unknown) and these machines cordoned."""
    machines = [
        replace(
            each,
            unschedulable_reasons=(UnschedulableReason("cordoned"),) if each.name in away else (),
        )
        for each in MACHINES
    ]
    scheduler = RackScheduler(machines)
    for number, (name, sku, machine) in enumerate(vms):
        own = cells[number : number + 1]
        scheduler.add_existing(
            name, sku, Placement(machine.name, machine.rack, machine.availability_zone, own)
        )
    return scheduler


def find_best(
    vms: list[tuple[VmName, VmSku, Machine]], cells: tuple[int, ...], demand: Demand
) -> TiedMachines:
    return build_site(vms, cells).find_best_machines(demand)


def is_legal(vms: list[tuple[VmName, VmSku, Machine]], cells: tuple[int, ...]) -> bool:
    load: dict[tuple[str, int], tuple[int, int]] = {}
    for (_, sku, machine), cell in zip(vms, cells, strict=True):
        cpus, memory = load.get((machine.name, cell), (0, 0))
        load[machine.name, cell] = (cpus + sku.vcpus, memory + sku.memory_gib)
    return all(cpus <= 4 and memory <= 16 for cpus, memory in load.values())


@pytest.mark.parametrize("seed", range(60))
def test_best_machines_in_some_and_in_all_layouts(seed: int) -> None:
    random = Random(seed)
    vms = draw_vms(random)
    legal = [cells for cells in product(range(2), repeat=len(vms)) if is_legal(vms, cells)]
    if not legal:
        pytest.skip("more than fits")
    demand = Demand(VmName("a", "a", "p", 99), random.choice(SKUS))
    each = [find_best(vms, cells, demand) for cells in legal]
    assert all(one.in_some_splits == one.in_all_splits for one in each), (
        "known cells leave nothing open"
    )
    answer = find_best(vms, (), demand)
    assert answer.in_some_splits == frozenset().union(*(one.in_some_splits for one in each))
    assert answer.in_all_splits == frozenset.intersection(*(one.in_all_splits for one in each))


@pytest.mark.parametrize("seed", range(40))
def test_ranking_without_machines_equals_a_site_with_them_cordoned(seed: int) -> None:
    random = Random(seed)
    vms = draw_vms(random)
    demand = Demand(VmName("a", "a", "p", 99), random.choice(SKUS))
    ranking = build_site(vms).rank_machines(demand)
    for count in range(len(MACHINES) + 1):
        away = {machine.name for machine in random.sample(MACHINES, count)}
        assert ranking.find_best_excluding(away) == build_site(vms, away=away).find_best_machines(
            demand
        )
