"""Tests of the scheduling profile.

Every entry affects placements, and an additional rule applies everywhere.
"""

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
from nexusform.scheduling.racks.demand_rules import prepare_sort_keys
from nexusform.scheduling.racks.layout import Figure, Usage, VmCounts
from nexusform.scheduling.racks.ledger import Ledger, VmRecord
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.rule import (
    CountFilter,
    KeyDependence,
    RankedItemKind,
    RankingKey,
    RejectionCheck,
)
from nexusform.scheduling.racks.site import SiteTables
from nexusform.scheduling.racks.uncertainty.certainty import repeat_with_samples, run_operations
from nexusform.scheduling.racks.uncertainty.operations import PlaceOperation
from nexusform.scheduling.racks.vms import (
    NONE_FITS,
    Demand,
    Hint,
    HintScope,
    Interval,
    Machine,
    NoFitReason,
    PlacementConstraints,
    RackSpread,
    VmName,
    VmSku,
)
from tests.scheduling.racks.samples import (
    build_demand,
    build_last_first_key,
    build_limit,
    build_rack,
    change_profile,
    run_random_site,
)

RULES = Path(rules_package.__path__[0])
ROOM = RULES.parent
# Modules for placing, counting and explaining. The VM model, the counters (ledger, usage) and the
# rules themselves may name rules.
ASKING = [
    ROOM / f"{name}.py"
    for name in (
        "uncertainty/certainty",
        "rack_scheduler",
        "explanation",
        "demand_rules",
        "candidate_rankings",
        "session",
        "site",
    )
] + sorted((ROOM.parents[1] / "rendering" / "answers").glob("explanation*.py"))
ARGUMENTS = {"zones", "hints", "machine_skus", "disk_gib", "unschedulable_reasons"}


# --- only the profile names rules ----------------------------------------------------------------


@pytest.mark.parametrize("path", ASKING, ids=lambda path: path.stem)
def test_users_of_the_rules_name_none_of_them(path: Path) -> None:
    keys = chain(profile.MACHINE_KEYS, *profile.RACK_KEYS.values())
    names = {file.stem for file in RULES.glob("*.py")} | {rule.name for rule in profile.FILTERS}
    names |= {key.rule for key in keys}
    # step 5 and the final tie-break are no entries.
    names -= {"__init__", "cells", "tie_break"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant):
            assert node.value not in names, f"{path.name}:{node.lineno} names a rule"
        if isinstance(node, ast.ImportFrom) and str(node.module).endswith("racks.rules"):
            assert not {alias.name for alias in node.names} & names
        if isinstance(node, ast.Attribute) and path.parent == ROOM:
            assert node.attr not in ARGUMENTS, f"{path.name}:{node.lineno} reads what a rule is for"


# --- every entry affects placements --------------------------------------------------------------


def list_changes() -> Iterator[tuple[str, str, Any]]:
    """Yield every table with one entry dropped, and with two neighbours swapped."""
    tables: dict[str, tuple[Any, ...]] = {
        "FILTERS": profile.FILTERS,
        "MACHINE_KEYS": profile.MACHINE_KEYS,
        "CELL_KEYS": profile.CELL_KEYS,
    }
    for table, entries in tables.items():
        for name, changed in alter_entries(entries, swap=table == "MACHINE_KEYS"):
            yield f"{table} {name}", table, changed
    for spread, entries in profile.RACK_KEYS.items():
        for name, changed in alter_entries(entries, swap=True):
            yield f"RACK_KEYS {spread} {name}", "RACK_KEYS", {**profile.RACK_KEYS, spread: changed}


def alter_entries(entries: tuple[Any, ...], *, swap: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for at in range(len(entries)):
        yield f"without {at}", entries[:at] + entries[at + 1 :]
        if swap and at + 1 < len(entries):
            yield (
                f"{at} after {at + 1}",
                (*entries[:at], entries[at + 1], entries[at], *entries[at + 2 :]),
            )


SEEDS = range(800)


@pytest.fixture(scope="module")
def default_results() -> list[list[Any]]:
    return [run_random_site(seed) for seed in SEEDS]


@pytest.mark.parametrize(
    ("table", "changed"),
    [(t, c) for _, t, c in list_changes()],
    ids=[n for n, _, _ in list_changes()],
)
def test_every_entry_affects_placements(
    table: str, changed: Any, default_results: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    change_profile(monkeypatch, table, changed)
    assert any(changes_result(seed, default_results[seed]) for seed in SEEDS)


def changes_result(seed: int, default_results: list[Any]) -> bool:
    try:
        return run_random_site(seed) != default_results
    except AssertionError:
        # The ledger lacks capacity for a VM rejected by the dropped filter.
        return True


# --- declared dependences of keys ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_keys_depend_only_on_declared_counts(seed: int) -> None:
    """The dependence is declared as KeyDependence, for every key except unbounded ones."""
    draw = Random(seed)
    machines = [machine for n in range(3) for machine in build_rack(f"r{n}", 2)]
    ledger = Ledger(SiteTables(machines))
    records = [build_record(ledger, draw) for _ in range(12)]
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
            own = build_figure(key, usage, vm)
            other = build_figure(key, everybody, vm)
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


def build_record(ledger: Ledger, draw: Random) -> VmRecord:
    """Return the record of a small random VM on a random machine."""
    sku = draw.choice([VmSku("small", 1, 0, 4, 0), VmSku("small-xl", 1, 0, 6, 0, extra_large=True)])
    owner = draw.choice("ab")
    pool = draw.choice("pq")
    site = ledger.site
    shape = site.get_shape(sku)
    cells = site.capacity_table.add_cells((0,))
    vm = VmName(owner, owner, pool, draw.randint(0, 99))
    return VmRecord(site.add_pool(vm), shape.number, draw.randrange(6), cells, vm.number)


def build_figure(key: RankingKey, usage: Usage, vm: Demand) -> Figure:
    """Return the figures of a key as a function."""
    [(_, figure)] = prepare_sort_keys([key], usage, vm)
    return figure or (lambda _item: 0)


# --- additional rules ----------------------------------------------------------------------------


@pytest.fixture(params=["closing", "open"])
def limited(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit pool p to two VMs on a rack, as a monotonic filter and as another one."""
    rule = build_limit(2, closing=request.param == "closing")
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, rule))


def build_three_racks() -> list[Machine]:
    return [*build_rack("r1", 4), *build_rack("r2", 1, "2"), *build_rack("r3", 1, "3")]


def count_by_rack(scheduler: RackScheduler, pool: str = "p") -> dict[str, int]:
    return dict(Counter(vm.placement.rack for vm in scheduler.list_vms() if vm.vm.pool == pool))


@pytest.mark.usefixtures("limited")
class TestAddedFilter:
    def test_filter_applies_to_new_vms_and_describes_its_shortage(self) -> None:
        scheduler = RackScheduler(build_three_racks())
        answers = [scheduler.place(build_demand(number)) for number in range(7)]
        assert count_by_rack(scheduler) == {"r1": 2, "r2": 2, "r3": 2}
        shortage = answers[-1]
        assert isinstance(shortage, NoFitReason)
        assert (shortage.binding, shortage.reason) == ("pool_limit", "Every rack has 2 VMs of p.")
        assert isinstance(scheduler.place(build_demand(0, pool="q")), tuple)

    def test_released_vm_frees_capacity_again(self) -> None:
        scheduler = RackScheduler(build_three_racks())
        handles = [scheduler.place(build_demand(number))[0] for number in range(6)]
        assert scheduler.try_place(build_demand(6)) is None
        gone = scheduler.get_vm(handles[3]).placement.rack
        scheduler.release(handles[3])
        placed = scheduler.try_place(build_demand(3))
        assert placed is not None
        assert placed[1].rack == gone

    @pytest.mark.parametrize("hard", [True, False])
    def test_filter_applies_to_vms_with_hints_or_a_last_resort(self, hard: bool) -> None:
        scheduler = RackScheduler(build_three_racks())
        near = Hint(True, hard, HintScope.RACK, frozenset(), frozenset(["r1"]), "x")
        racks = [
            scheduler.try_place(build_demand(n, constraints=PlacementConstraints(hints=(near,))))
            for n in range(3)
        ]
        assert [place and place[1].rack for place in racks] == [
            "r1",
            "r1",
            None if hard else racks[2][1].rack,
        ]
        assert racks[2] is None or racks[2][1].rack != "r1"
        healed = scheduler.try_place(build_demand(9, last_resort="r2-bm01"))
        assert healed is not None
        assert healed[1].rack == "r3"

    def test_free_slots_are_counted_with_the_filter(self) -> None:
        scheduler = RackScheduler(build_three_racks())
        scheduler.place(build_demand(0, constraints=PlacementConstraints(frozenset("1"))))
        assert scheduler.count_free_slots_by_rack(build_demand(1)) == {
            "r1": Interval(1, 1),
            "r2": Interval(2, 2),
            "r3": Interval(2, 2),
        }
        assert scheduler.count_free_slots(
            build_demand(1, constraints=PlacementConstraints(frozenset("1")))
        ) == Interval(1, 1)
        assert scheduler.count_free_slots(build_demand(1, pool="q")).minimum > 5

    def test_explanations_and_pins_name_the_filter(self) -> None:
        scheduler = RackScheduler(build_three_racks())
        for number in range(2):
            scheduler.place(build_demand(number, constraints=PlacementConstraints(frozenset("1"))))
        explained = scheduler.explain(build_demand(2))
        assert (explained.filters[-1].rule, explained.filters[-1].machines) == ("pool_limit", 2)
        assert (explained.filters[-1].line, explained.filters[-1].text) == (
            "  pool_limit",
            "2 stay",
        )
        assert {r.reason for r in explained.rejections if r.rule == "pool_limit"} == {
            "2 VMs of p already"
        }
        placed = scheduler.place(build_demand(2))
        assert isinstance(placed, tuple)
        assert explained.placement == placed[1]
        assert scheduler.find_rejection("r1-bm03", build_demand(3)) == "2 VMs of p already"

    def test_certainty_includes_the_filter(self) -> None:
        base = RackScheduler(build_three_racks())
        steps = [PlaceOperation(number, build_demand(number)) for number in range(7)]
        answer = repeat_with_samples(base, steps, 20)
        (pool,) = answer.pools.values()
        assert pool.counts == {"r1": 2, "r2": 2, "r3": 2}
        assert pool.certain_racks == ("r1", "r2", "r3")
        assert all(run_operations(base, steps, seed)[6] is None for seed in range(20))


def test_added_machine_filter_does_not_affect_other_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    change_profile(
        monkeypatch, "FILTERS", (*profile.FILTERS, build_limit(1, RankedItemKind.MACHINE))
    )
    scheduler = RackScheduler(build_rack("r1", 2))
    assert [scheduler.try_place(build_demand(n)) is None for n in range(3)] == [False, False, True]
    # A rack full for pool p may have capacity for other pools with the same SKU.
    assert scheduler.try_place(build_demand(0, pool="q")) is not None
    assert scheduler.count_free_slots(build_demand(0)) == NONE_FITS


@pytest.mark.parametrize("spread", list(RackSpread))
def test_added_key_is_used_and_explained(
    spread: RackSpread, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {which: (build_last_first_key(), *keys) for which, keys in profile.RACK_KEYS.items()}
    change_profile(monkeypatch, "RACK_KEYS", keys)
    change_profile(monkeypatch, "MACHINE_KEYS", (build_last_first_key(), *profile.MACHINE_KEYS))
    scheduler = RackScheduler(build_three_racks()[:5], spread)
    for number in range(3):
        explained = scheduler.explain(build_demand(number))
        placed = scheduler.try_place(build_demand(number))
        assert placed is not None
        assert placed[1].machine == "r2-bm01"
        assert explained.placement == placed[1]
        assert explained.racks[0].keys[0].rule == "last_first"
    only_r1: Demand = build_demand(9, constraints=PlacementConstraints(frozenset("1")))
    assert scheduler.try_place(only_r1)[1].machine == "r1-bm04"


def test_added_non_monotonic_filter_is_evaluated_for_every_vm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def open_rule(usage: Usage, _demand: Demand) -> RejectionCheck:
        return lambda number: "r1 has its two first" if number and usage.pool.racks[0] < 2 else None

    rule = CountFilter(
        name="first",
        item=RankedItemKind.RACK,
        build_check=open_rule,
        describe_shortage=lambda _scene: "none",
    )
    change_profile(monkeypatch, "FILTERS", (*profile.FILTERS, rule))
    scheduler = RackScheduler([*build_rack("r1", 1), *build_rack("r2", 1)])
    placed = [scheduler.try_place(build_demand(number)) for number in range(4)]
    assert [place and place[1].rack for place in placed] == ["r1", "r1", "r2", "r2"]
    assert scheduler.count_free_slots(build_demand(9)).minimum > 4
