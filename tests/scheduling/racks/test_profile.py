"""The profile is what runs: every entry decides something, and a rule that is added is obeyed everywhere."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks import rules as rules_package
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.layout import Figure, Usage, VmCounts
from nexusform.scheduling.racks.ledger import Ledger, VmRecord
from nexusform.scheduling.racks.open_rules import prepare_sort_keys
from nexusform.scheduling.racks.rule import CountFilter, KeyDependence, RankedItem, RankingKey, RejectionCheck
from nexusform.scheduling.racks.site import SiteTables
from nexusform.scheduling.racks.uncertainty.certainty import PlaceOperation, repeat_with_samples, run_operations
from nexusform.scheduling.racks.vms import (
    NONE_FITS,
    CapacityShortage,
    Demand,
    Hint,
    HintScope,
    Interval,
    Machine,
    PlacementConstraints,
    RackSpread,
    VmName,
    VmSku,
)
from tests.scheduling.racks.samples import change_profile, demand, last_first, limit, outcomes, rack

RULES = Path(rules_package.__path__[0])
ROOM = RULES.parent
# Whoever places, counts or explains. What a VM is (model), what is counted (ledger, usage) and the rules
# themselves have words of their own.
ASKING = [
    ROOM / f"{name}.py"
    for name in ("uncertainty/certainty", "engine", "explanation", "open_rules", "queues", "session", "site")
] + sorted((ROOM.parents[1] / "rendering" / "answers").glob("explanation*.py"))
ARGUMENTS = {"zones", "hints", "machine_skus", "disk_gib", "unschedulable_reason"}


# --- nothing but the table knows a rule ----------------------------------------------------------


@pytest.mark.parametrize("path", ASKING, ids=lambda path: path.stem)
def test_who_asks_the_rules_names_none_of_them(path: Path) -> None:
    keys = chain(profile.MACHINE_KEYS, *profile.RACK_KEYS.values())
    names = {file.stem for file in RULES.glob("*.py")} | {rule.name for rule in profile.FILTERS}
    names |= {key.rule for key in keys}
    names -= {"__init__", "cells", "tie_break"}  # step 5 and the last word on every tie are no entries
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant):
            assert node.value not in names, f"{path.name}:{node.lineno} names a rule"
        if isinstance(node, ast.ImportFrom) and str(node.module).endswith("racks.rules"):
            assert not {alias.name for alias in node.names} & names
        if isinstance(node, ast.Attribute) and path.parent == ROOM:
            assert node.attr not in ARGUMENTS, f"{path.name}:{node.lineno} reads what a rule is for"


# --- every entry decides something ---------------------------------------------------------------


def changes() -> Iterator[tuple[str, str, Any]]:
    """Every table with one entry dropped, and with two neighbours swapped."""
    tables: dict[str, tuple[Any, ...]] = {
        "FILTERS": profile.FILTERS,
        "MACHINE_KEYS": profile.MACHINE_KEYS,
        "CELL_KEYS": profile.CELL_KEYS,
    }
    for table, entries in tables.items():
        for name, changed in altered(entries, swap=table == "MACHINE_KEYS"):
            yield f"{table} {name}", table, changed
    for spread, entries in profile.RACK_KEYS.items():
        for name, changed in altered(entries, swap=True):
            yield f"RACK_KEYS {spread} {name}", "RACK_KEYS", {**profile.RACK_KEYS, spread: changed}


def altered(entries: tuple[Any, ...], *, swap: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for at in range(len(entries)):
        yield f"without {at}", entries[:at] + entries[at + 1 :]
        if swap and at + 1 < len(entries):
            yield f"{at} after {at + 1}", (*entries[:at], entries[at + 1], entries[at], *entries[at + 2 :])


SEEDS = range(800)


@pytest.fixture(scope="module")
def usual() -> list[list[Any]]:
    return [outcomes(seed) for seed in SEEDS]


@pytest.mark.parametrize(("table", "changed"), [(t, c) for _, t, c in changes()], ids=[n for n, _, _ in changes()])
def test_every_entry_decides_something(
    table: str, changed: Any, usual: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    change_profile(monkeypatch, table, changed)
    assert any(decided_otherwise(seed, usual[seed]) for seed in SEEDS)


def decided_otherwise(seed: int, usual: list[Any]) -> bool:
    try:
        return outcomes(seed) != usual
    except AssertionError:  # the ledger has no room for what a dropped filter would have refused
        return True


# --- what keys promise ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_keys_keep_their_promises(seed: int) -> None:
    """As rule.Differs says them, for every key but those that promise nothing."""
    draw = Random(seed)
    machines = [machine for n in range(3) for machine in rack(f"r{n}", 2)]
    ledger = Ledger(SiteTables(machines))
    records = [record_of(ledger, draw) for _ in range(12)]
    for record in records:
        ledger.add(record)
    everybody = ledger.get_neutral_usage()
    asked = ledger.get_vm_name(records[0])
    vm = Demand(asked, ledger.get_shape(records[0]).sku)
    usage = ledger.get_live_usage(asked.owner, asked.pool)
    for keys, counts in (
        (profile.RACK_KEYS[RackSpread.CLUSTER], (usage.pool.racks, usage.cluster.racks)),
        (profile.MACHINE_KEYS, (usage.pool.machines, usage.cluster.machines)),
    ):
        for key in keys:
            own, other = figures(key, usage, vm), figures(key, everybody, vm)
            if key.dependence is KeyDependence.UNBOUNDED:
                continue
            nowhere: VmCounts = VmCounts()
            counted = (nowhere, *counts)[key.dependence]
            items = range(3) if keys is not profile.MACHINE_KEYS else range(6)
            before = {item: own(item) for item in items}
            assert all(before[item] >= other(item) for item in items)
            assert all(before[item] == other(item) for item in items if not counted[item])
            handle = ledger.add(records[0])
            after = {item: own(item) for item in items}
            assert all(after[item] >= before[item] for item in items)
            assert sum(after[item] != before[item] for item in items) <= 1
            ledger.remove(handle)


def record_of(ledger: Ledger, draw: Random) -> VmRecord:
    """A small VM of somebody, somewhere."""
    sku = draw.choice([VmSku("small", 1, 0, 4, 0), VmSku("small-xl", 1, 0, 6, 0, extra_large=True)])
    owner, pool = draw.choice("ab"), draw.choice("pq")
    site = ledger.site
    shape, cells = site.get_shape(sku), site.capacity_table.add_cells((0,))
    vm = VmName(owner, owner, pool, draw.randint(0, 99))
    return VmRecord(site.add_pool(vm), shape.number, draw.randrange(6), cells, vm.number)


def figures(key: RankingKey, usage: Usage, vm: Demand) -> Figure:
    """A key's figures as a function."""
    [(_, figure)] = prepare_sort_keys([key], usage, vm)
    return figure or (lambda _item: 0)


# --- a rule that is added ------------------------------------------------------------------------


@pytest.fixture(params=["closing", "open"])
def limited(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most two VMs of pool p on a rack; with the promise of a session and without."""
    rule = limit(2, closing=request.param == "closing")
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, rule))


def three_racks() -> list[Machine]:
    return [*rack("r1", 4), *rack("r2", 1, "2"), *rack("r3", 1, "3")]


def per_rack(scheduler: RackScheduler, pool: str = "p") -> dict[str, int]:
    return dict(Counter(vm.placement.rack for vm in scheduler.list_vms() if vm.vm.pool == pool))


@pytest.mark.usefixtures("limited")
class TestAddedFilter:
    def test_new_vms_obey_it_and_the_shortage_is_its_own(self) -> None:
        scheduler = RackScheduler(three_racks())
        answers = [scheduler.place(demand(number)) for number in range(7)]
        assert per_rack(scheduler) == {"r1": 2, "r2": 2, "r3": 2}
        shortage = answers[-1]
        assert isinstance(shortage, CapacityShortage)
        assert (shortage.binding, shortage.reason) == ("pool_limit", "Every rack has 2 VMs of p.")
        assert isinstance(scheduler.place(demand(0, pool="q")), tuple)

    def test_a_vm_that_left_makes_room_again(self) -> None:
        scheduler = RackScheduler(three_racks())
        handles = [scheduler.place(demand(number))[0] for number in range(6)]
        assert scheduler.try_place(demand(6)) is None
        gone = scheduler.get_vm(handles[3]).placement.rack
        scheduler.release(handles[3])
        placed = scheduler.try_place(demand(3))
        assert placed is not None
        assert placed[1].rack == gone

    @pytest.mark.parametrize("hard", [True, False])
    def test_hinted_vms_and_those_with_a_last_resort_obey_it(self, hard: bool) -> None:
        scheduler = RackScheduler(three_racks())
        near = Hint(True, hard, HintScope.RACK, frozenset(), frozenset(["r1"]), "x")
        racks = [scheduler.try_place(demand(n, constraints=PlacementConstraints(hints=(near,)))) for n in range(3)]
        assert [place and place[1].rack for place in racks] == ["r1", "r1", None if hard else racks[2][1].rack]
        assert racks[2] is None or racks[2][1].rack != "r1"
        healed = scheduler.try_place(demand(9, last_resort="r2-bm01"))
        assert healed is not None
        assert healed[1].rack == "r3"

    def test_room_is_counted_with_it(self) -> None:
        scheduler = RackScheduler(three_racks())
        scheduler.place(demand(0, constraints=PlacementConstraints(frozenset("1"))))
        assert scheduler.count_free_slots_by_rack(demand(1)) == {
            "r1": Interval(1, 1),
            "r2": Interval(2, 2),
            "r3": Interval(2, 2),
        }
        assert scheduler.count_free_slots(demand(1, constraints=PlacementConstraints(frozenset("1")))) == Interval(1, 1)
        assert scheduler.count_free_slots(demand(1, pool="q")).minimum > 5

    def test_explanations_and_pins_name_it(self) -> None:
        scheduler = RackScheduler(three_racks())
        for number in range(2):
            scheduler.place(demand(number, constraints=PlacementConstraints(frozenset("1"))))
        explained = scheduler.explain(demand(2))
        assert (explained.filters[-1].rule, explained.filters[-1].machines) == ("pool_limit", 2)
        assert (explained.filters[-1].line, explained.filters[-1].text) == ("  pool_limit", "2 stay")
        assert {r.reason for r in explained.rejections if r.rule == "pool_limit"} == {"2 VMs of p already"}
        placed = scheduler.place(demand(2))
        assert isinstance(placed, tuple)
        assert explained.placement == placed[1]
        assert scheduler.find_rejection("r1-bm03", demand(3)) == "2 VMs of p already"

    def test_certainty_obeys_it(self) -> None:
        base = RackScheduler(three_racks())
        steps = [PlaceOperation(number, demand(number)) for number in range(7)]
        answer = repeat_with_samples(base, steps, 20)
        assert answer.pools[0].counts == {"r1": 2, "r2": 2, "r3": 2}
        assert answer.pools[0].certain_racks == ("r1", "r2", "r3")
        assert all(run_operations(base, steps, seed)[6] is None for seed in range(20))


def test_an_added_filter_of_machines_leaves_the_room_of_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, limit(1, RankedItem.MACHINE)))
    scheduler = RackScheduler(rack("r1", 2))
    assert [scheduler.try_place(demand(n)) is None for n in range(3)] == [False, False, True]
    # That the rack is full for pool p says nothing of other pools with the same SKU.
    assert scheduler.try_place(demand(0, pool="q")) is not None
    assert scheduler.count_free_slots(demand(0)) == NONE_FITS


@pytest.mark.parametrize("spread", list(RackSpread))
def test_an_added_key_is_obeyed_and_explained(spread: RackSpread, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {which: (last_first(), *keys) for which, keys in profile.RACK_KEYS.items()}
    change_profile(monkeypatch, "RACK_KEYS", keys)
    change_profile(monkeypatch, "MACHINE_KEYS", (last_first(), *profile.MACHINE_KEYS))
    scheduler = RackScheduler(three_racks()[:5], spread)
    for number in range(3):
        explained = scheduler.explain(demand(number))
        placed = scheduler.try_place(demand(number))
        assert placed is not None
        assert placed[1].machine == "r2-bm01"
        assert explained.placement == placed[1]
        assert explained.racks[0].keys[0].rule == "last_first"
    only_r1: Demand = demand(9, constraints=PlacementConstraints(frozenset("1")))
    assert scheduler.try_place(only_r1)[1].machine == "r1-bm04"


def test_an_added_filter_that_opens_again_is_asked_for_every_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    def opens(usage: Usage, _demand: Demand) -> RejectionCheck:
        return lambda number: "r1 has its two first" if number and usage.pool.racks[0] < 2 else None

    rule = CountFilter(name="first", item=RankedItem.RACK, build_check=opens, describe_shortage=lambda _scene: "none")
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, rule))
    scheduler = RackScheduler([*rack("r1", 1), *rack("r2", 1)])
    placed = [scheduler.try_place(demand(number)) for number in range(4)]
    assert [place and place[1].rack for place in placed] == ["r1", "r1", "r2", "r2"]
    assert scheduler.count_free_slots(demand(9)).minimum > 4
