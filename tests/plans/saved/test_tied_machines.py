"""Tied machines of pools are stored as sets of classes, and earlier forms of files are read."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.plans.plan import PlacementFigures, PlacementTable, Plan, SiteRecords, SiteTies
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_comparison import list_different_parts
from nexusform.plans.saved.plan_file import read_plan_file, write_plan_file
from nexusform.plans.saved.tied_machines import TiedMachineReader, replace_ties_by_sets
from nexusform.plans.site_capacity.occupancy import SiteMachine, SiteVms
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Machine

MACHINES = [f"rack{rack}-bm{number:02}" for rack in (2, 10, 1) for number in range(1, 5)]


def build_machine(name: str) -> SiteMachine:
    return SiteMachine(
        Machine(name, name.split("-", maxsplit=1)[0], "1", 1, None, 2, 48, 224, 3000)
    )


def build_plan(sets: Sequence[tuple[str, frozenset[str]]], machines: Sequence[str]) -> Plan:
    """Build a plan with a pool per set of tied machines of a site, named as while it is built."""
    tables = tuple(
        PlacementTable(
            address=Address((), "managed", "nexus_kubernetes_cluster", "c", number),
            site_id=site_id,
            cluster=f"c-{number}",
            pool="w",
            vm_sku_name="NC_P22_112_v1",
            total_count=1,
            expected_racks=1,
            actual_racks=1,
            expected_vms_per_rack=(1, 1),
            actual_vms_per_rack={"rack1": 1},
            placed=1,
            tied_machines=tuple(name for name in machines if name in names),
        )
        for number, (site_id, names) in enumerate(sets)
    )
    site_machines = tuple(build_machine(name) for name in machines)
    sites = tuple(SiteVms(site_id, site_id, machines=site_machines) for site_id in ("a", "b"))
    return Plan(
        figures=PlacementFigures(placement_tables=tables), site_records=SiteRecords(sites=sites)
    )


def replace_ties_by_digits(by_name: Plan) -> Plan:
    """Build the earlier form of a plan, with a class per machine and a bit per class in pools."""
    digits = {name: 1 << position for position, name in enumerate(MACHINES)}
    tables = tuple(
        replace(
            table,
            tied_machines=(),
            tied_classes=(
                f"{sum(digits[name] for name in table.tied_machines):x}"
                if table.tied_machines
                else ""
            ),
        )
        for table in by_name.figures.placement_tables
    )
    ties = tuple(
        SiteTies(site, tuple(MACHINES), tuple(range(len(MACHINES))))
        for site in dict.fromkeys(table.site_id for table in tables if table.tied_classes)
    )
    return replace(
        by_name, figures=replace(by_name.figures, placement_tables=tables, site_ties=ties)
    )


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.frozensets(st.sampled_from(MACHINES))), max_size=40
    )
)
def test_ties_by_set_by_class_and_by_name_are_the_same_machines(
    sets: list[tuple[str, frozenset[str]]],
) -> None:
    by_name = build_plan(sets, MACHINES)
    expected = [table.tied_machines for table in by_name.figures.placement_tables]
    plan = replace_ties_by_sets(by_name)
    assert not any(table.tied_machines for table in plan.figures.placement_tables)
    with pytest.MonkeyPatch.context() as patch:
        # As earlier versions wrote it.
        patch.setattr(plan_file, "replace_ties_by_sets", lambda plan: plan)
        earlier_files = [
            write_plan_file(form, {}) for form in (by_name, replace_ties_by_digits(by_name))
        ]
    for data in (write_plan_file(by_name, {}), *earlier_files):
        saved, problems = read_plan_file(data)
        assert problems == []
        assert saved is not None
        assert saved.plan == plan
        assert list_different_parts(saved.plan, by_name) == []
        reader = TiedMachineReader(saved.plan)
        assert [
            reader.list_machines(table) for table in saved.plan.figures.placement_tables
        ] == expected
    reader = TiedMachineReader(by_name)
    assert [reader.list_machines(table) for table in by_name.figures.placement_tables] == expected


def test_pools_with_equal_ties_make_one_class_of_all_machines() -> None:
    plan = replace_ties_by_sets(build_plan([("a", frozenset(MACHINES))] * 3, MACHINES))
    [ties] = plan.figures.site_ties
    assert (ties.machines, ties.classes) == (tuple(MACHINES), (0,) * len(MACHINES))
    assert len(ties.sets) == 1
    assert {table.tied_set for table in plan.figures.placement_tables} == {0}


def test_plan_file_with_twice_the_pools_and_machines_has_twice_the_bytes() -> None:
    # Ties of many small clusters differ from pool to pool: each machine is a class of its own.
    # A pool has a few other machines than the pools before it.
    shuffler = random.Random(91)

    def measure_file(pools: int) -> int:
        names = [f"rack{rack}-bm{number:03}" for rack in range(8) for number in range(pools // 4)]
        members = set(shuffler.sample(names, pools))
        sets: list[tuple[str, frozenset[str]]] = []
        for _ in range(pools):
            sets.append(("a", frozenset(members)))
            members ^= set(shuffler.sample(names, pools // 10))
        return len(write_plan_file(build_plan(sets, names), {}))

    sizes = [measure_file(pools) for pools in (100, 200, 400)]
    assert sizes[1] <= 2.1 * sizes[0]
    assert sizes[2] <= 2.2 * sizes[1]


def test_errored_plan_has_no_ties() -> None:
    plan = replace(build_plan([("a", frozenset(MACHINES))], MACHINES), errored=True)
    plan = replace_ties_by_sets(plan)
    assert plan.figures.site_ties == ()
    [table] = plan.figures.placement_tables
    assert (table.tied_machines, table.tied_set) == ((), -1)


# Sets of class 0, and of class 1.
SET_0 = "0:0Ag"
SET_1 = "0:0Bg"


@pytest.mark.parametrize(
    ("classes", "tied_classes", "sets", "tied_set"),
    [
        ((0,), "3", (), -1),
        ((0, -1), "1", (), -1),
        ((0, 1), "4", (), -1),
        ((0, 1), "x", (), -1),
        ((0, 1), "1\n", (), -1),
        ((0, 1), "", (SET_0,), 1),
        ((0, 1), "", (SET_0,), -2),
        ((0, 0), "", (SET_1,), 0),
        ((0, 1), "", ("2" + SET_0[1:], SET_0), 0),
        ((0, 1), "", ("-1" + SET_0[1:], SET_0), 0),
        ((0, 1), "", ("",), 0),
        ((0, 1), "", ("0:0_g",), 0),
        ((0, 1), "", ("0:2Ag",), 0),
    ],
)
def test_plan_file_with_invalid_ties_is_damaged(
    monkeypatch: pytest.MonkeyPatch,
    classes: tuple[int, ...],
    tied_classes: str,
    sets: tuple[str, ...],
    tied_set: int,
) -> None:
    plan = build_plan([("a", frozenset())], ["m1", "m2"])
    [table] = plan.figures.placement_tables
    plan = replace(
        plan,
        figures=replace(
            plan.figures,
            placement_tables=(replace(table, tied_classes=tied_classes, tied_set=tied_set),),
            site_ties=(SiteTies("a", ("m1", "m2"), classes, sets),),
        ),
    )
    monkeypatch.setattr(plan_file, "replace_ties_by_sets", lambda plan: plan)
    saved, [problem] = read_plan_file(write_plan_file(plan, {}), "p.nfplan")
    assert saved is None
    assert problem.summary == "Damaged plan file"
    assert "tied machines" in problem.detail
