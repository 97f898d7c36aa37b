"""Tied machines of pools are stored by class of machines, and names of earlier files are read."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.plans.plan import PlacementTable, Plan, SiteTies
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_comparison import list_different_parts
from nexusform.plans.saved.plan_file import read_plan_file, write_plan_file
from nexusform.plans.saved.tied_machines import TiedMachineReader, replace_ties_by_classes
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
    return Plan(placement_tables=tables, sites=sites)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.frozensets(st.sampled_from(MACHINES))), max_size=40
    )
)
def test_ties_by_class_and_by_name_are_the_same_machines(
    sets: list[tuple[str, frozenset[str]]],
) -> None:
    by_name = build_plan(sets, MACHINES)
    expected = [table.tied_machines for table in by_name.placement_tables]
    plan = replace_ties_by_classes(by_name)
    assert not any(table.tied_machines for table in plan.placement_tables)
    with pytest.MonkeyPatch.context() as patch:
        # As earlier versions wrote it.
        patch.setattr(plan_file, "replace_ties_by_classes", lambda plan: plan)
        earlier_file = write_plan_file(by_name, {})
    for data in (write_plan_file(by_name, {}), earlier_file):
        saved, problems = read_plan_file(data)
        assert problems == []
        assert saved is not None
        assert saved.plan == plan
        assert list_different_parts(saved.plan, by_name) == []
        reader = TiedMachineReader(saved.plan)
        assert [reader.list_machines(table) for table in saved.plan.placement_tables] == expected
    reader = TiedMachineReader(by_name)
    assert [reader.list_machines(table) for table in by_name.placement_tables] == expected


def test_pools_with_equal_ties_make_one_class_of_all_machines() -> None:
    plan = replace_ties_by_classes(build_plan([("a", frozenset(MACHINES))] * 3, MACHINES))
    assert plan.site_ties == (SiteTies("a", tuple(MACHINES), (0,) * len(MACHINES)),)
    assert {table.tied_classes for table in plan.placement_tables} == {"1"}


def test_plan_file_with_twice_the_pools_has_at_most_twice_the_bytes() -> None:
    # Ties of many small clusters differ from pool to pool: each machine is a class of its own.
    names = [f"rack{rack}-bm{number:03}" for rack in range(8) for number in range(128)]
    shuffler = random.Random(91)

    def measure_file(pools: int) -> int:
        sets = [("a", frozenset(shuffler.sample(names, 512))) for _ in range(pools)]
        return len(write_plan_file(build_plan(sets, names), {}))

    sizes = [measure_file(pools) for pools in (100, 200, 400)]
    assert sizes[1] <= 2.2 * sizes[0]
    assert sizes[2] <= 2.2 * sizes[1]
    # The names of 512 machines would need over 7 kB per pool.
    assert sizes[2] - sizes[1] < 200 * 600


def test_errored_plan_has_no_ties() -> None:
    plan = replace(build_plan([("a", frozenset(MACHINES))], MACHINES), errored=True)
    plan = replace_ties_by_classes(plan)
    assert plan.site_ties == ()
    [table] = plan.placement_tables
    assert (table.tied_machines, table.tied_classes) == ((), "")


@pytest.mark.parametrize(
    ("classes", "tied_classes"),
    [((0,), "3"), ((0, -1), "1"), ((0, 1), "4"), ((0, 1), "x"), ((0, 1), "1\n")],
)
def test_plan_file_with_invalid_ties_is_damaged(
    classes: tuple[int, ...], tied_classes: str
) -> None:
    plan = build_plan([("a", frozenset())], ["m1", "m2"])
    [table] = plan.placement_tables
    plan = replace(
        plan,
        placement_tables=(replace(table, tied_classes=tied_classes),),
        site_ties=(SiteTies("a", ("m1", "m2"), classes),),
    )
    saved, [problem] = read_plan_file(write_plan_file(plan, {}), "p.nfplan")
    assert saved is None
    assert problem.summary == "Damaged plan file"
    assert "tied machines" in problem.detail
