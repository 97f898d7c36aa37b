"""The engine against the brute force, VM by VM, on sites that hypothesis makes up."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import (
    CapacityShortage,
    Demand,
    Hint,
    HintScope,
    Interval,
    Machine,
    Placement,
    PlacementConstraints,
    RackSpread,
    VmName,
    VmSku,
)
from nexusform.scheduling.sku_catalogue import CATALOGUES
from tests.kill_points import scale_count
from tests.scheduling.racks.brute_force import BruteForce

SKUS = CATALOGUES["2026-03"].vm_skus
MENU = [
    SKUS["NC_P46_224_v1"],
    SKUS["NC_G48_224_v1"],
    SKUS["NC_G56_224_v1"],
    SKUS["NC_P22_112_v1"],
    SKUS["NC_G12_56_v1"],
    SKUS["NC_G2_8_v1"],
    SKUS["NC_E94_448_v1"],
    SKUS["NC_E70_336_v1"],
    VmSku("functions", 4, 0, 16, 0, vfs=12),
    VmSku("wide-functions", 4, 0, 16, 0, numa_cells=2, vfs=21),
    SKUS["NC_L46_224_v1"],
    VmSku("odd", 7, 0, 13, 0, numa_cells=3),
    VmSku("tiny", 0, 0, 0, 0, extra_large=True),
    VmSku("big-own", 48, 0, 100, 1000, extra_large=True),
]
HARDWARE = [
    ("bom-1.7.3", 2, 48, 224, 3500),
    ("bom-1.7.3", 2, 48, 224, 3500),
    ("bom-2.0", 2, 56, 224, 3500),
    (None, 4, 30, 100, 2000),
    (None, 1, 10, 400, 700),
]


@st.composite
def sites(draw: st.DrawFn) -> list[Machine]:
    machines = []
    uniform = draw(st.booleans())
    for rack in range(draw(st.integers(1, 4))):
        zone = draw(st.sampled_from(["1", "2", "3"]))
        for slot in range(1, draw(st.integers(1, 4)) + 1):
            sku, cells, cpus, memory, disk = HARDWARE[0 if uniform else draw(st.integers(0, 4))]
            refusal = draw(st.sampled_from(["", "", "", "", "cordoned"]))
            name = f"r{rack}-bm{slot:02d}"
            machines.append(Machine(name, f"r{rack}", zone, slot, sku, cells, cpus, memory, disk, refusal))
    return machines


zone_sets = st.sampled_from([None, None, None, frozenset("1"), frozenset("13"), frozenset(["2", "x"])])


@st.composite
def hints(draw: st.DrawFn, machines: list[Machine]) -> Hint:
    chosen = draw(st.sets(st.sampled_from(machines), max_size=4))
    return Hint(
        is_affinity=draw(st.booleans()),
        is_hard=draw(st.booleans()),
        scope=draw(st.sampled_from(list(HintScope))),
        machines=frozenset(machine.name for machine in chosen),
        racks=frozenset(machine.rack for machine in chosen),
        target="x",
    )


Event = tuple[Any, ...]
Story = tuple[list[Machine], list[Event]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A site and what happens to it: pools placed, single VMs with hints, VMs that stand, VMs that leave."""
    machines = draw(sites())
    owners = st.sampled_from(["a", "b", "c"])
    pools = st.sampled_from(["control-plane", "p1"])
    skus = st.sampled_from(MENU)
    small = st.integers(0, 40)
    event = st.one_of(
        st.tuples(st.just("pool"), owners, pools, skus, zone_sets, st.integers(1, 7)),
        st.tuples(st.just("pool"), owners, pools, skus, zone_sets, st.integers(1, 7)),
        st.tuples(st.just("leave"), st.lists(small, max_size=4)),
        st.tuples(
            st.just("hinted"),
            owners,
            pools,
            skus,
            zone_sets,
            st.lists(hints(machines), max_size=2),
            st.one_of(st.none(), st.sampled_from(machines)),
        ),
        st.tuples(st.just("stands"), owners, pools, skus, st.sampled_from(machines)),
    )
    return machines, draw(st.lists(event, min_size=1, max_size=12))


class Pair:
    """Both schedulers, told the same."""

    def __init__(self, machines: list[Machine], spread: RackSpread, seed: int) -> None:
        self.fast = RackScheduler(machines, spread, seed)
        self.slow = BruteForce(machines, spread, seed)
        self.handles: list[int] = []
        self.number = 0

    def tell(self, event: Event) -> None:
        getattr(self, event[0])(*event[1:])

    def name(self, owner: str, pool: str) -> VmName:
        self.number += 1
        return VmName("nks:" + owner, owner, pool, self.number)

    def pool(self, owner: str, pool: str, sku: VmSku, zones: frozenset[str] | None, count: int) -> None:
        for _ in range(count):
            self.place(Demand(self.name(owner, pool), sku, PlacementConstraints(zones)))

    def hinted(self, owner, pool, sku, zones, hints, last) -> None:  # noqa: ANN001 - one story event
        demand = Demand(
            self.name(owner, pool), sku, PlacementConstraints(zones, tuple(hints)), last.name if last else None
        )
        explained = self.fast.explain(demand)
        placed = self.place(demand)
        assert explained.placement == (placed and placed[1])

    def place(self, demand: Demand) -> tuple[int, Placement] | None:
        placed = self.fast.place(demand)
        expected = self.slow.place(demand)
        assert (None if isinstance(placed, CapacityShortage) else placed) == expected
        if expected:
            self.handles.append(expected[0])
        return expected

    def leave(self, which: list[int]) -> None:
        for index in which:
            if self.handles:
                handle = self.handles.pop(index % len(self.handles))
                self.fast.release(handle)
                self.slow.release(handle)

    def stands(self, owner: str, pool: str, sku: VmSku, machine: Machine) -> None:
        cells = self.fast.select_cells(sku, machine.name)
        placement = Placement(machine.name, machine.rack, machine.availability_zone, cells)
        vm = self.name(owner, pool)
        handle = self.fast.add_existing(vm, sku, placement)
        assert handle == self.slow.occupy(vm, sku, placement)
        self.handles.append(handle)


@settings(max_examples=scale_count(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories(), st.sampled_from(list(RackSpread)), st.integers(0, 9))
def test_the_engine_places_every_vm_where_the_rule_says(story: Story, spread: RackSpread, seed: int) -> None:
    machines, events = story
    pair = Pair(machines, spread, seed)
    for event in events:
        pair.tell(event)
    assert [(vm.handle, vm.placement.machine) for vm in pair.fast.list_vms()] == [
        (handle, vm.machine) for handle, vm in sorted(pair.slow.vms.items())
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories(), stories(), st.sampled_from(list(RackSpread)))
def test_a_copy_decides_as_a_scheduler_told_the_same_and_leaves_the_original_alone(
    one: Story, two: Story, spread: RackSpread
) -> None:
    machines, events = one
    known = {machine.name for machine in machines}
    later = [e for e in two[1] if e[0] in ("pool", "leave") or (e[0] == "stands" and e[-1].name in known)]
    pair, twin = Pair(machines, spread, 8), Pair(machines, spread, 8)
    for event in events:
        pair.tell(event)
        twin.tell(event)
    twin.fast = pair.fast.copy()
    for event in later:
        twin.tell(event)
    for event in events:
        if event[0] != "hinted":
            pair.tell(event)
    assert len(list(pair.fast.list_vms())) == len(pair.slow.vms)
    assert len(list(twin.fast.list_vms())) == len(twin.slow.vms)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories(), st.sampled_from(MENU), zone_sets, st.sampled_from(list(RackSpread)))
def test_explain_says_what_place_does_and_count_free_says_how_often(
    story: Story, sku: VmSku, zones: frozenset[str] | None, spread: RackSpread
) -> None:
    machines, events = story
    pair = Pair(machines, spread, 8)
    for event in events:
        pair.tell(event)
    if sku.name == "tiny":
        return
    fitting = pair.fast.count_free_slots(Demand(VmName("d", "d", "p", 0), sku, PlacementConstraints(zones)))
    free = fitting.maximum
    assert fitting.is_exact
    for number in range(free + 1):
        demand = Demand(VmName("d", "d", "p", number), sku, PlacementConstraints(zones))
        explained = pair.fast.explain(demand)
        placed = pair.fast.place(demand)
        if isinstance(placed, CapacityShortage):
            assert number == free
            assert explained.placement is None
            assert explained.filters[-1].machines == 0
        else:
            assert number < free
            assert explained.placement == placed[1]
            assert explained.racks[0].name == placed[1].rack


def rack(name: str, count: int, **changes: object) -> list[Machine]:
    plain = Machine("", name, name[-1], 0, "bom-1.7.3", 2, 48, 224, 3500)
    return [replace(plain, name=f"{name}-bm{i:02d}", slot=i, **changes) for i in range(1, count + 1)]


def demand(sku: str, number: int = 0, zones: frozenset[str] | None = None, owner: str = "c") -> Demand:
    return Demand(VmName(owner, owner, "p", number), SKUS[sku], PlacementConstraints(zones))


def fill(scheduler: RackScheduler, sku: str, owner: str = "c") -> int:
    """Place until nothing fits; how many did."""
    count = 0
    while not isinstance(scheduler.place(demand(sku, count, owner=owner)), CapacityShortage):
        count += 1
    return count


def test_emulator_threads_count_when_a_cell_fills() -> None:
    one_cell = rack("r1", 1, cells=1)
    assert fill(RackScheduler(one_cell), "NC_P12_56_v1") == 3
    assert fill(RackScheduler(one_cell), "NC_P16_74_v1") == 2
    assert fill(RackScheduler(one_cell), "NC_G14_56_v1") == 3
    newer = rack("r1", 1, cells=1, machine_sku="bom-2.0", cpus_per_cell=56)
    assert fill(RackScheduler(newer), "NC_G14_56_v1") == 4


def test_a_g2_does_not_fit_beside_a_p46_in_one_cell() -> None:
    scheduler = RackScheduler(rack("r1", 1, cells=1))
    scheduler.place(demand("NC_P46_224_v1"))
    assert isinstance(scheduler.place(demand("NC_G2_8_v1", 1)), CapacityShortage)


def test_an_e94_takes_both_cells_of_one_machine() -> None:
    scheduler = RackScheduler(rack("r1", 2))
    scheduler.place(demand("NC_G2_8_v1"))
    _, placement = scheduler.place(demand("NC_E94_448_v1", 1))
    assert placement.cells == (0, 1)
    shortage = scheduler.place(demand("NC_E94_448_v1", 2))
    assert isinstance(shortage, CapacityShortage)
    assert shortage.binding == "cells"


def test_disk_holds_two_l46_a_machine() -> None:
    roomy = rack("r1", 1, machine_sku="bom-2.0", cells=8)
    scheduler = RackScheduler(roomy)
    assert fill(scheduler, "NC_L46_224_v1") == 2
    shortage = scheduler.place(demand("NC_L46_224_v1", 9))
    assert isinstance(shortage, CapacityShortage)
    assert shortage.binding == "disk"


def test_a_bom_2_0_sku_is_refused_on_1_7_3_and_the_largest_listed_is_known() -> None:
    shortage = RackScheduler(rack("r1", 2)).place(demand("NC_P54_224_v1"))
    assert isinstance(shortage, CapacityShortage)
    assert shortage.binding == "hardware"
    assert shortage.reason == (
        "NC_P54_224_v1 runs on bom-2.0 only; the machines of the site are bom-1.7.3. The largest SKU of "
        "the same type for this hardware is NC_P46_224_v1."
    )


def test_a_shortage_names_the_pools_that_broke_the_cells() -> None:
    scheduler = RackScheduler(rack("r1", 2))
    for number in range(3):
        scheduler.place(demand("NC_G12_56_v1", number, owner="small"))
    scheduler.place(demand("NC_P46_224_v1", 0, owner="big"))
    scheduler.place(demand("NC_P46_224_v1", 1, owner="big"))
    shortage = scheduler.place(demand("NC_P46_224_v1", 2, owner="big"))
    assert isinstance(shortage, CapacityShortage)
    assert shortage.binding == "cells"
    assert shortage.reason.endswith("2 cells are fragmented by small VMs: small/p (2).")


def test_a_shortage_tells_unknown_zones_from_machines_that_take_nothing() -> None:
    scheduler = RackScheduler([*rack("r1", 2, unschedulable_reason="cordoned"), *rack("r2", 1)])
    nowhere = scheduler.place(demand("NC_G2_8_v1", zones=frozenset("9")))
    assert isinstance(nowhere, CapacityShortage)
    assert nowhere.binding == "unknown_zones"
    assert nowhere.reason == "No rack is in zones: 9; the site's zones are 1, 2."
    cordoned = scheduler.place(demand("NC_G2_8_v1", zones=frozenset("1")))
    assert isinstance(cordoned, CapacityShortage)
    assert cordoned.binding == "not_schedulable"
    assert cordoned.reason.endswith("takes new VMs: 2 cordoned.")
    hint = Hint(
        is_affinity=True, is_hard=True, scope=HintScope.RACK, machines=frozenset(), racks=frozenset(["r1"]), target="x"
    )
    hinted = scheduler.place(Demand(VmName("c", "c", "p", 5), SKUS["NC_G2_8_v1"], PlacementConstraints(hints=(hint,))))
    assert isinstance(hinted, CapacityShortage)
    assert hinted.binding == "hints"
    assert hinted.reason.endswith("reject every machine with enough capacity: hard hint: on the same rack as x.")


def test_a_machine_that_shrank_keeps_its_vms_and_has_no_room() -> None:
    scheduler = RackScheduler(rack("r1", 1, memory_gib_per_cell=100))
    big = VmName("c", "c", "p", 0)
    first = scheduler.add_existing(big, SKUS["NC_P46_224_v1"], Placement("r1-bm01", "r1", "1", (0,)))
    assert scheduler.place(demand("NC_G2_8_v1", 1))[1].cells == (1,)
    assert [vm.sku.memory_gib for vm in scheduler.list_vms()] == [224, 8]
    scheduler.release(first)
    assert [vm.sku.memory_gib for vm in scheduler.list_vms()] == [8]
    assert scheduler.count_free_slots(demand("NC_G12_56_v1")) == Interval(2, 2)


def test_vms_of_unschedulable_machines_count() -> None:
    scheduler = RackScheduler([*rack("r1", 1, unschedulable_reason="cordoned"), *rack("r1", 3)[1:], *rack("r2", 2)])
    scheduler.add_existing(VmName("x", "x", "p", 0), SKUS["NC_G2_8_v1"], Placement("r1-bm01", "r1", "1", (0,)))
    assert {scheduler.place(demand("NC_G2_8_v1"))[1].rack for _ in range(1)} == {"r2"}


def test_clusters_of_different_kinds_with_one_name_are_counted_apart_and_break_ties_alike() -> None:
    machines = rack("r1", 4)
    names = [VmName("nks:a", "a", "p", 0), VmName("vnf:a", "a", "p", 0)]
    first, second = (RackScheduler(machines).place(Demand(vm, SKUS["NC_G2_8_v1"]))[1] for vm in names)
    assert first == second
    together = RackScheduler(machines)
    placed = [together.place(Demand(vm, SKUS["NC_G2_8_v1"]))[1] for vm in names]
    assert placed[0].machine != placed[1].machine


def test_the_machine_of_a_healed_vm_is_tried_last() -> None:
    scheduler = RackScheduler(rack("r1", 2))
    heal = replace(demand("NC_P46_224_v1"), last_resort="r1-bm01")
    placed = [scheduler.place(replace(heal, vm=VmName("c", "c", "p", n)))[1].machine for n in range(4)]
    assert placed == ["r1-bm02", "r1-bm02", "r1-bm01", "r1-bm01"]


def test_explain_shows_ties_next_best_and_every_refusal() -> None:
    scheduler = RackScheduler([*rack("r1", 2), *rack("r2", 2), *rack("r3", 1, unschedulable_reason="cordoned")])
    first = scheduler.explain(demand("NC_P46_224_v1"))
    assert [left.rule for left in first.filters] == [rule.name for rule in profile.FILTERS]
    assert {left.machines for left in first.filters} == {4}
    assert len(first.tied_racks) == 2
    assert [(r.candidate, r.rule, r.reason) for r in first.rejections] == [("r3-bm01", "schedulable", "cordoned")]
    scheduler.place(demand("NC_P46_224_v1"))
    second = scheduler.explain(
        demand("NC_P46_224_v1", 1, owner="d", zones=frozenset([first.placement.availability_zone]))
    )
    assert second.machines[0].name == first.placement.machine
    assert second.machines[0].keys[3].text == "runs an extra-large VM of another cluster"
    assert second.next_best is not None
    assert second.next_best.keys[3].text == "no extra-large VM of another cluster"
    assert second.fitting_cells == (1,)


def test_a_handle_that_left_is_unknown() -> None:
    scheduler = RackScheduler(rack("r1", 1))
    handle, _ = scheduler.place(demand("NC_G2_8_v1"))
    twin = scheduler.copy()
    twin.release(handle)
    assert scheduler.get_vm(handle).vm == demand("NC_G2_8_v1").vm
    assert list(twin.list_vms()) == []
    assert [vm.handle for vm in scheduler.list_vms()] == [handle]


def test_own_extra_large_vms_are_no_company() -> None:
    """A machine that houses only the cluster's own extra-large VMs is as good as one without any."""
    own = VmSku("own-xl", 4, 0, 20, 0, extra_large=True)
    scheduler = RackScheduler(rack("r1", 2))
    there, here = (Placement(f"r1-bm{n:02d}", "r1", "1", (0,)) for n in (1, 2))
    scheduler.add_existing(VmName("c", "c", "p", 0), own, there)
    scheduler.add_existing(VmName("c", "c", "p", 1), own, here)
    scheduler.add_existing(VmName("d", "d", "p", 0), own, here)  # company, and so more memory is used
    for number in (2, 3):  # by the session's way, then beside a hint
        vm = Demand(VmName("c", "c", "p", number), own)
        explained = scheduler.explain(vm)
        handle, placed = scheduler.place(vm)
        assert placed.machine == "r1-bm02"
        assert explained.placement == placed
        assert [part.value for part in explained.machines[1].keys if part.rule == "extra_large"] == [1]
        scheduler.release(handle)


def test_cells_of_a_vm_that_does_not_fit_are_the_least_used_ones() -> None:
    scheduler = RackScheduler(rack("r1", 1, cells=3))
    large, wide = SKUS["NC_P46_224_v1"], VmSku("wide", 90, 0, 400, 0, numa_cells=2)
    scheduler.add_existing(VmName("c", "c", "p", 0), large, Placement("r1-bm01", "r1", "1", (1,)))
    assert scheduler.select_cells(wide, "r1-bm01") == (0, 2)
    scheduler.add_existing(VmName("c", "c", "p", 1), large, Placement("r1-bm01", "r1", "1", (0,)))
    assert scheduler.select_cells(wide, "r1-bm01") == (0, 2)  # 0 and 1 are equal: the lower number
    scheduler.add_existing(VmName("c", "c", "p", 2), large, Placement("r1-bm01", "r1", "1", (0,)))
    assert scheduler.select_cells(wide, "r1-bm01") == (1, 2)  # a debt counts as less than nothing left
    assert scheduler.select_cells(VmSku("too-wide", 9, 0, 900, 0, numa_cells=5), "r1-bm01") == (0, 1, 2)
