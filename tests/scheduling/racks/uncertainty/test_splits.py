"""Tests of layouts of VMs with unknown cells.

They are compared with every labelled assignment of VMs to cells.
"""

from __future__ import annotations

import os
import random
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.scheduling.racks.layout import FreeCapacity, Share
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.splits import (
    MAX_SPLITS,
    CellSplits,
    compute_bounds,
    count_blocked_vms,
)
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


def build_machine(
    cells: int = 2, cpus: int = 48, memory: int = 224, disk: int = 3500, name: str = "m"
) -> Machine:
    return Machine(name, "r", "1", 1, None, cells, cpus, memory, disk)


def build_scheduler(host: Machine, skus: list[VmSku]) -> RackScheduler:
    """Return a scheduler with VMs of unknown cells."""
    scheduler = RackScheduler([host])
    for number, sku in enumerate(skus):
        scheduler.add_existing(
            VmName("c", "c", "p", number), sku, Placement(host.name, "r", "1", ())
        )
    return scheduler


def list_assignments(host: Machine, skus: list[VmSku]) -> list[tuple[tuple[int, int], ...]]:
    """Return the free capacity of each cell for every legal labelled assignment."""
    ways = [list(combinations(range(host.cells), sku.numa_cells)) for sku in skus]
    left = []
    for chosen in product(*ways):
        cpus = [host.cpus_per_cell] * host.cells
        memory = [host.memory_gib_per_cell] * host.cells
        for sku, cells in zip(skus, chosen, strict=True):
            for cell in cells:
                cpus[cell] -= sku.cpus_in_cell
                memory[cell] -= sku.memory_in_cell
        if min(cpus) >= 0 and min(memory) >= 0:
            left.append(tuple(zip(cpus, memory, strict=True)))
    return left


def count_fitting(left: tuple[tuple[int, int], ...], disk: int, sku: VmSku) -> int:
    """Return how many VMs of a SKU with one or two cells fit, on at most two cells."""
    in_cells = [
        min(cpus // sku.cpus_in_cell, memory // sku.memory_in_cell) for cpus, memory in left
    ]
    by_cells = sum(in_cells) if sku.numa_cells == 1 else min(in_cells)
    return min(by_cells, disk // sku.disk_gib)


def test_free_slot_interval_covers_every_labelled_assignment() -> None:
    """NEXUSFORM_SPLIT_MACHINES=200 tests 200 machines with up to 12 VMs."""
    draw = random.Random(8)
    wide = asked = 0
    while asked < MACHINES:
        host = build_machine(2, draw.choice([48, 56]), 224, 40_000)
        # Prefer small SKUs, since a machine fits many of them.
        skus = [
            min(draw.sample(MENU, 4), key=lambda sku: sku.memory_gib)
            for _ in range(draw.randint(1, MOST_VMS))
        ]
        legal = list_assignments(host, skus)
        if not legal:
            continue
        asked += 1
        disk = host.disk_gib - sum(sku.disk_gib for sku in skus)
        scheduler = build_scheduler(host, skus)
        for sku in MENU:
            counts = [count_fitting(left, disk, sku) for left in set(legal)]
            expected = Interval(min(counts), max(counts))
            assert scheduler.count_free_slots(build_standalone_demand(sku)) == expected, (
                skus,
                sku.name,
            )
            wide += not expected.is_exact
    # enough cases are ambiguous.
    assert wide > MACHINES


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(MENU), min_size=1, max_size=6), st.integers(0, 5))
def test_sampled_layout_is_legal_and_reproducible(skus: list[VmSku], seed: int) -> None:
    host = build_machine(disk=100_000)
    legal = {
        tuple((cpus, gib * MIB_PER_GIB) for cpus, gib in left)
        for left in list_assignments(host, skus)
    }
    shares = tuple(sorted(Share.compute(sku) for sku in skus))
    splits = CellSplits(((48, 224 * MIB_PER_GIB),) * 2, shares)
    assert splits.is_known
    assert {tuple(sorted(left)) for left in legal} == set(splits.legal_splits)
    drawn = splits.sample_cells(f"{seed}|split|m|", ())
    assert drawn == splits.sample_cells(f"{seed}|split|m|", ())
    assert (drawn is None) == (not legal)
    if drawn is not None:
        left = [[48, 224 * MIB_PER_GIB], [48, 224 * MIB_PER_GIB]]
        for share, cells in zip(shares, drawn, strict=True):
            assert len(cells) == share.cells
            for cell in cells:
                left[cell][0] -= share.cpus
                left[cell][1] -= share.memory
        assert tuple(tuple(cell) for cell in left) in legal


def test_samples_differ() -> None:
    shares = tuple(sorted(Share.compute(SKUS[name]) for name in ("NC_G12_56_v1", "NC_P22_112_v1")))
    splits = CellSplits(((48, 224 * MIB_PER_GIB),) * 2, shares)
    # In one cell, or in two.
    assert len(splits.legal_splits) == 2
    assert len({splits.sample_cells(f"{seed}|split|m|", ()) for seed in range(20)}) == 2


def test_vms_without_a_possible_layout_leave_no_capacity() -> None:
    three = [VmSku("x", 30, 0, 60, 0)] * 3
    scheduler = build_scheduler(build_machine(), three)
    assert scheduler.list_overfull_machines() == ("m",)
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G2_8_v1"])) == NONE_FITS
    assert scheduler.try_place(Demand(VmName("d", "d", "p", 0), SKUS["NC_G2_8_v1"])) is None
    scheduler.release(1)
    assert scheduler.list_overfull_machines() == ()
    # limited by disk
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G2_8_v1"])) == Interval(
        11, 11
    )


def test_vm_placed_beside_unknown_cells_has_no_cells() -> None:
    scheduler = build_scheduler(build_machine(), [SKUS["NC_G24_112_v1"]])
    before = scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G24_112_v1"]))
    assert before == Interval(3, 3)
    placed = scheduler.try_place(Demand(VmName("d", "d", "p", 0), SKUS["NC_G24_112_v1"]))
    assert placed is not None
    handle, place = placed
    assert place == Placement("m", "r", "1", ())
    # Both in one cell, or one in each.
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_P46_224_v1"])) == Interval(
        0, 1
    )
    scheduler.release(handle)
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G24_112_v1"])) == before


def test_vm_released_before_a_layout_was_chosen_for_it() -> None:
    scheduler = build_scheduler(build_machine(), [SKUS["NC_G24_112_v1"]])
    # chooses a layout.
    list(scheduler.list_sampled_vms())
    vm = VmName("late", "late", "", 1)
    handle = scheduler.add_existing(vm, SKUS["NC_G24_112_v1"], Placement("m", "r", "1", ()))
    scheduler.release(handle)
    assert [vm.placement.cells for vm in scheduler.list_sampled_vms()] != [()]


def test_known_cells_constrain_the_unknown_ones() -> None:
    scheduler = build_scheduler(build_machine(), [SKUS["NC_G24_112_v1"]])
    whole = SKUS["NC_P46_224_v1"]
    known = scheduler.add_existing(VmName("d", "d", "p", 0), whole, Placement("m", "r", "1", (1,)))
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G24_112_v1"])) == Interval(
        1, 1
    )
    scheduler.release(known)
    assert scheduler.count_free_slots(build_standalone_demand(whole)) == Interval(1, 1)


def test_copy_with_another_seed_samples_again_independently() -> None:
    skus = [SKUS["NC_G12_56_v1"]] * 4
    scheduler = build_scheduler(build_machine(), skus)

    def count_fitting_vms(split_seed: int) -> int:
        twin = scheduler.copy(split_choice=split_seed)
        demands = [
            Demand(VmName("d", "d", "p", number), SKUS["NC_P46_224_v1"]) for number in range(2)
        ]
        return sum(twin.try_place(demand) is not None for demand in demands)

    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_P46_224_v1"])) == Interval(
        0, 1
    )
    assert {count_fitting_vms(seed) for seed in range(20)} == {0, 1}
    assert [count_fitting_vms(seed) for seed in range(20)] == [
        count_fitting_vms(seed) for seed in range(20)
    ]
    assert scheduler.count_free_slots(build_standalone_demand(SKUS["NC_P22_112_v1"])) == Interval(
        1, 2
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.sampled_from([SKUS["NC_G12_56_v1"], VmSku("w", 20, 0, 60, 0, 2)]),
)
def test_bounds_include_exact_counts(sizes: list[int], sku: VmSku) -> None:
    skus = [VmSku("a", 4 + 3 * size, 0, 10 + 20 * size, 10, 1 + size % 2) for size in sizes]
    host = build_machine(4, 30, 120)
    exact = build_scheduler(host, skus).count_free_slots(build_standalone_demand(sku))
    shares = [Share.compute(one) for one in skus]
    room = FreeCapacity(None, host.disk_gib - 10 * len(skus), (30,) * 4, (120 * MIB_PER_GIB,) * 4)
    found = compute_bounds(room, shares, Share.compute(sku))
    assert found.minimum <= exact.minimum <= exact.maximum <= found.maximum


def test_bounds_are_limited_by_the_disk() -> None:
    cells = ((48, 48), (224 * MIB_PER_GIB, 224 * MIB_PER_GIB))
    share = Share(disk=100, cells=1, cpus=4, memory=8 * MIB_PER_GIB)
    assert compute_bounds(FreeCapacity(None, 3000, *cells), (), share) == Interval(24, 24)
    assert compute_bounds(FreeCapacity(None, 250, *cells), (), share) == Interval(2, 2)


def test_too_many_layouts_are_bounded_and_one_is_sampled() -> None:
    host = build_machine(8, 100, 1000, 100_000)
    skus = [VmSku(f"s{size}", 3 + size, 0, 7 + 3 * size, 10) for size in range(24)]
    scheduler = build_scheduler(host, skus)
    count = scheduler.count_free_slots(build_standalone_demand(SKUS["NC_G12_56_v1"]))
    assert 0 < count.minimum < count.maximum
    assert scheduler.try_place(Demand(VmName("d", "d", "p", 0), SKUS["NC_G12_56_v1"])) is not None
    splits = CellSplits(
        ((100, 1000 * MIB_PER_GIB),) * 8, tuple(sorted(Share.compute(sku) for sku in skus))
    )
    assert not splits.is_known
    assert MAX_SPLITS == 10_000


def test_memory_is_counted_in_mib() -> None:
    """Half a GiB is not rounded up: 448 such VMs fill a cell of 224 GiB."""
    small = VmSku("small", 0, 0, 0.5, 0)
    halves = VmSku("halves", 2, 0, 3.5, 0, numa_cells=2)
    scheduler = build_scheduler(build_machine(1, 48, 224, 0), [small] * 447)
    assert scheduler.count_free_slots(build_standalone_demand(small)) == Interval(1, 1)
    assert halves.memory_in_cell == 1.75
    assert VmSku("odd", 2, 0, 7, 0, numa_cells=2).memory_in_cell == 3.5
    assert VmSku("tiny", 1, 0, 1 / 3, 0).memory_mib == 342


def test_searched_layout_respects_vcpus_and_memory_of_every_cell() -> None:
    """With too many layouts to list, the search alone rejects cells.

    It keeps VMs out of cells that lack one of both.
    """
    shares = tuple(
        Share(10, 1, 4 + number % 3, (16 + number) * MIB_PER_GIB) for number in range(12)
    )
    cells = (
        (200, 20 * MIB_PER_GIB),
        (5, 900 * MIB_PER_GIB),
        *((60 + number, 300 * MIB_PER_GIB) for number in range(4)),
    )
    splits = CellSplits(cells, shares)
    assert not splits.is_known
    orders = (range(12), range(11, -1, -1))
    layouts = [
        splits.assign_cells_in_order(order, packed=packed)
        for order in orders
        for packed in (False, True)
    ]
    for layout in (
        *layouts,
        splits.sample_cells("1|split|m|", [f"vm{number}" for number in range(12)]),
    ):
        assert layout is not None
        for cell, (cpus, memory) in enumerate(cells):
            used = [share for share, chosen in zip(shares, layout, strict=True) if cell in chosen]
            assert sum(share.cpus for share in used) <= cpus
            assert sum(share.memory for share in used) <= memory


def test_bounds_count_parts_by_vcpus_and_memory() -> None:
    """Each of the two VMs blocks two parts by memory and one by vCPUs."""
    capacity = FreeCapacity(None, 3500, (48,) * 4, (224 * MIB_PER_GIB,) * 4)
    other = Share(disk=0, cells=1, cpus=10, memory=57 * MIB_PER_GIB)
    share = Share(disk=0, cells=1, cpus=12, memory=56 * MIB_PER_GIB)
    # 16 parts in cells of 4; memory of the machine: (896 - 114) // 56 = 13.
    assert compute_bounds(capacity, (other, other), share) == Interval(12, 13)
    # 4 cells of 12 vCPUs in a smaller share: vCPUs limit the parts, not memory.
    narrow = Share(disk=0, cells=1, cpus=12, memory=8 * MIB_PER_GIB)
    assert compute_bounds(capacity, (), narrow) == Interval(16, 16)


def test_vm_blocks_parts_of_its_scarcest_resource() -> None:
    share = Share(disk=40, cells=1, cpus=12, memory=56 * MIB_PER_GIB)
    by_memory = Share(disk=0, cells=2, cpus=10, memory=57 * MIB_PER_GIB)
    by_vcpus = Share(disk=0, cells=1, cpus=25, memory=10 * MIB_PER_GIB)
    by_disk = Share(disk=130, cells=1, cpus=12, memory=56 * MIB_PER_GIB)
    blocked = [count_blocked_vms(other, share) for other in (by_memory, by_vcpus, by_disk)]
    assert blocked == [4, 3, 4]


def test_splits_with_vfs_take_at_most_the_free_ones() -> None:
    """Two VMs of 16 VFs in unknown cells leave 14 or 30 VFs in each of two cells."""
    host = build_machine(2, 48, 224)
    running = VmSku("functions", 2, 0, 4, 10, vfs=16)
    scheduler = build_scheduler(host, [running])
    fitting = [
        scheduler.count_free_slots(build_standalone_demand(VmSku("v", 2, 0, 4, 10, vfs=vfs)))
        for vfs in (10, 15, 30)
    ]
    assert [(count.minimum, count.maximum) for count in fitting] == [(2, 6), (0, 4), (0, 2)]
