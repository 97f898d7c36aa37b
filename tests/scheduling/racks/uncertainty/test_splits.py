"""Splits against every labelled assignment of VMs to cells, written out."""

from __future__ import annotations

import os
import random
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.layout import MachineCapacity, Share
from nexusform.scheduling.racks.uncertainty.splits import MAX_SPLITS, CellSplits, compute_bounds
from nexusform.scheduling.racks.vms import (
    MIB_PER_GIB,
    NONE_FITS,
    Demand,
    Interval,
    Machine,
    Placement,
    VmName,
    VmSku,
    build_standalone_demand,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES

SKUS = CATALOGUES["2026-03"].vm_skus
MENU = [sku for sku in SKUS.values() if sku.kind in "GPE"]
MACHINES = int(os.environ.get("NEXUSFORM_SPLIT_MACHINES", "25"))
MOST_VMS = 12 if "NEXUSFORM_SPLIT_MACHINES" in os.environ else 9


def machine(cells: int = 2, cpus: int = 48, memory: int = 224, disk: int = 3500, name: str = "m") -> Machine:
    return Machine(name, "r", "1", 1, None, cells, cpus, memory, disk)


def stand(host: Machine, skus: list[VmSku]) -> RackScheduler:
    """VMs whose cells nobody told."""
    scheduler = RackScheduler([host])
    for number, sku in enumerate(skus):
        scheduler.add_existing(VmName("c", "c", "p", number), sku, Placement(host.name, "r", "1", ()))
    return scheduler


def assignments(host: Machine, skus: list[VmSku]) -> list[tuple[tuple[int, int], ...]]:
    """What every legal labelled assignment leaves of each cell."""
    ways = [list(combinations(range(host.cells), sku.numa_cells)) for sku in skus]
    left = []
    for chosen in product(*ways):
        cpus, memory = [host.cpus_per_cell] * host.cells, [host.memory_gib_per_cell] * host.cells
        for sku, cells in zip(skus, chosen, strict=True):
            for cell in cells:
                cpus[cell] -= sku.cpus_in_cell
                memory[cell] -= sku.memory_in_cell
        if min(cpus) >= 0 and min(memory) >= 0:
            left.append(tuple(zip(cpus, memory, strict=True)))
    return left


def fitting(left: tuple[tuple[int, int], ...], disk: int, sku: VmSku) -> int:
    """How many VMs of a SKU of one or two cells fit, on at most two cells."""
    in_cells = [min(cpus // sku.cpus_in_cell, memory // sku.memory_in_cell) for cpus, memory in left]
    by_cells = sum(in_cells) if sku.numa_cells == 1 else min(in_cells)
    return min(by_cells, disk // sku.disk_gib)


def test_the_width_is_that_of_every_labelled_assignment() -> None:
    """NEXUSFORM_SPLIT_MACHINES=200 asks 200 machines of up to 12 VMs."""
    draw = random.Random(8)
    wide = asked = 0
    while asked < MACHINES:
        host = machine(2, draw.choice([48, 56]), 224, 40_000)
        # The smaller ones more often: a machine takes many of them.
        skus = [min(draw.sample(MENU, 4), key=lambda sku: sku.memory_gib) for _ in range(draw.randint(1, MOST_VMS))]
        legal = assignments(host, skus)
        if not legal:
            continue
        asked += 1
        disk = host.disk_gib - sum(sku.disk_gib for sku in skus)
        scheduler = stand(host, skus)
        for sku in MENU:
            counts = [fitting(left, disk, sku) for left in set(legal)]
            expected = Interval(min(counts), max(counts))
            assert scheduler.count_free_slots(build_standalone_demand(sku)) == expected, (skus, sku.name)
            wide += not expected.is_exact
    assert wide > MACHINES  # the question was worth asking


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(MENU), min_size=1, max_size=6), st.integers(0, 5))
def test_a_drawn_split_is_a_legal_one_and_is_drawn_again(skus: list[VmSku], seed: int) -> None:
    host = machine(disk=100_000)
    legal = {tuple((cpus, gib * MIB_PER_GIB) for cpus, gib in left) for left in assignments(host, skus)}
    shares = tuple(sorted(Share.compute(sku) for sku in skus))
    splits = CellSplits(((48, 224 * MIB_PER_GIB),) * 2, shares)
    assert splits.is_known
    assert {tuple(sorted(left)) for left in legal} == set(splits.legal_splits)
    drawn = splits.sample_cells(f"{seed}|split|m|", list)
    assert drawn == splits.sample_cells(f"{seed}|split|m|", list)
    assert (drawn is None) == (not legal)
    if drawn is not None:
        left = [[48, 224 * MIB_PER_GIB], [48, 224 * MIB_PER_GIB]]
        for share, cells in zip(shares, drawn, strict=True):
            assert len(cells) == share.cells
            for cell in cells:
                left[cell][0] -= share.cpus
                left[cell][1] -= share.memory
        assert tuple(tuple(cell) for cell in left) in legal


def test_draws_differ() -> None:
    shares = tuple(sorted(Share.compute(SKUS[name]) for name in ("NC_G12_56_v1", "NC_P22_112_v1")))
    splits = CellSplits(((48, 224 * MIB_PER_GIB),) * 2, shares)
    assert len(splits.legal_splits) == 2  # in one cell, or apart
    assert len({splits.sample_cells(f"{seed}|split|m|", list) for seed in range(20)}) == 2


def test_vms_that_cannot_lie_in_any_way_leave_nothing() -> None:
    three = [VmSku("x", 30, 0, 60, 0)] * 3
    scheduler = stand(machine(), three)
    assert scheduler.list_overfull_machines() == ("m",)
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G2_8_v1"])) == NONE_FITS
    assert scheduler.try_place(Demand(VmName("d", "d", "p", 0), SKUS["NC_G2_8_v1"])) is None
    scheduler.release(1)
    assert scheduler.list_overfull_machines() == ()
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G2_8_v1"])) == Interval(11, 11)  # by disk


def test_what_is_placed_there_has_no_cells_and_gives_its_room_back() -> None:
    scheduler = stand(machine(), [SKUS["NC_G24_112_v1"]])
    before = scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G24_112_v1"]))
    assert before == Interval(3, 3)
    placed = scheduler.try_place(Demand(VmName("d", "d", "p", 0), SKUS["NC_G24_112_v1"]))
    assert placed is not None
    handle, place = placed
    assert place == Placement("m", "r", "1", ())
    # Both in one cell, or one in each.
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_P46_224_v1"])) == Interval(0, 1)
    scheduler.release(handle)
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G24_112_v1"])) == before


def test_known_cells_bind_the_others() -> None:
    scheduler = stand(machine(), [SKUS["NC_G24_112_v1"]])
    whole = SKUS["NC_P46_224_v1"]
    known = scheduler.add_existing(VmName("d", "d", "p", 0), whole, Placement("m", "r", "1", (1,)))
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G24_112_v1"])) == Interval(1, 1)
    scheduler.release(known)
    assert scheduler.count_free_slots(build_standalone_demand(whole)) == Interval(1, 1)


def test_a_copy_with_another_seed_draws_anew_and_leaves_the_original_alone() -> None:
    skus = [SKUS["NC_G12_56_v1"]] * 4
    scheduler = stand(machine(), skus)

    def fits(split_seed: int) -> int:
        twin = scheduler.copy(split_choice=split_seed)
        demands = [Demand(VmName("d", "d", "p", number), SKUS["NC_P46_224_v1"]) for number in range(2)]
        return sum(twin.try_place(demand) is not None for demand in demands)

    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_P46_224_v1"])) == Interval(0, 1)
    assert {fits(seed) for seed in range(20)} == {0, 1}
    assert [fits(seed) for seed in range(20)] == [fits(seed) for seed in range(20)]
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_P22_112_v1"])) == Interval(1, 2)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.sampled_from([SKUS["NC_G12_56_v1"], VmSku("w", 20, 0, 60, 0, 2)]),
)
def test_bounds_hold_what_splits_say(sizes: list[int], sku: VmSku) -> None:
    skus = [VmSku("a", 4 + 3 * size, 0, 10 + 20 * size, 10, 1 + size % 2) for size in sizes]
    host = machine(4, 30, 120)
    exact = stand(host, skus).count_free_slots(build_standalone_demand(sku))
    shares = [Share.compute(one) for one in skus]
    room = MachineCapacity(None, host.disk_gib - 10 * len(skus), (30,) * 4, (120 * MIB_PER_GIB,) * 4)
    found = compute_bounds(room, shares, Share.compute(sku))
    assert found.minimum <= exact.minimum <= exact.maximum <= found.maximum


def test_bounds_end_where_the_disk_does() -> None:
    cells = ((48, 48), (224 * MIB_PER_GIB, 224 * MIB_PER_GIB))
    share = Share(disk=100, cells=1, cpus=4, memory=8 * MIB_PER_GIB)
    assert compute_bounds(MachineCapacity(None, 3000, *cells), (), share) == Interval(24, 24)
    assert compute_bounds(MachineCapacity(None, 250, *cells), (), share) == Interval(2, 2)


def test_too_many_splits_are_bounded_and_one_is_found_for_a_draw() -> None:
    host = machine(8, 100, 1000, 100_000)
    skus = [VmSku(f"s{size}", 3 + size, 0, 7 + 3 * size, 10) for size in range(24)]
    scheduler = stand(host, skus)
    count = scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G12_56_v1"]))
    assert 0 < count.minimum < count.maximum
    assert scheduler.try_place(Demand(VmName("d", "d", "p", 0), SKUS["NC_G12_56_v1"])) is not None
    splits = CellSplits(((100, 1000 * MIB_PER_GIB),) * 8, tuple(sorted(Share.compute(sku) for sku in skus)))
    assert not splits.is_known
    assert MAX_SPLITS == 10_000


def test_memory_is_counted_in_mib() -> None:
    """Half a GiB is no whole one: 448 of them fill a cell of 224 GiB."""
    small, halves = VmSku("small", 0, 0, 0.5, 0), VmSku("halves", 2, 0, 3.5, 0, numa_cells=2)
    scheduler = stand(machine(1, 48, 224, 0), [small] * 447)
    assert scheduler.count_free_slots(build_standalone_demand(small)) == Interval(1, 1)
    assert halves.memory_in_cell == 1.75
    assert VmSku("odd", 2, 0, 7, 0, numa_cells=2).memory_in_cell == 3.5
    assert VmSku("tiny", 1, 0, 1 / 3, 0).memory_mib == 342
