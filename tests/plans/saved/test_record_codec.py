"""Tests of record tables: long tuples of records are stored by column.

A column has one field, with each value once.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.json_data.plain_data import ConversionProblem
from nexusform.placements.vm_demands import PlacedVm
from nexusform.plans.plan import PlacementAction, PlacementChange, PlacementTotal
from nexusform.plans.saved.record_codec import (
    MINIMUM_ROWS,
    get_annotation_shape,
    read_record,
    write_record,
)
from nexusform.plans.site_capacity.occupancy import PoolVms, SiteMachine, SiteVms
from nexusform.resources.address import Address, parse_address
from nexusform.scheduling.racks.vms import Machine, Placement, UnschedulableReason, VmSku

CLUSTER = Address((), "managed", "nexus_kubernetes_cluster", "c")
SKU = VmSku("NC_G6_28_v1", 6, 0, 28, 300)


def build_pool(count: int) -> PoolVms:
    vms = [
        PlacedVm(
            "p", n, f"c-p-{n}", SKU.name, Placement(f"m{n % 7}", "r", "z", (n % 2,)), trigger="new"
        )
        for n in range(count)
    ]
    return PoolVms(CLUSTER, "c", "p", SKU, added=tuple(vms))


@pytest.mark.parametrize("count", [0, 1, 31, 32, 500])
def test_records_round_trip(count: int) -> None:
    data = json.loads(json.dumps(write_record(build_pool(count))))
    assert read_record(PoolVms, data) == build_pool(count)


def test_many_records_form_a_table_and_share_equal_objects() -> None:
    data = write_record(build_pool(500))
    columns = data["added"]["columns"]
    assert data["added"]["rows"] == 500
    assert columns["pool"] == {"all": "p"}
    assert len(columns["placement"]["of"]) == 14
    places = [vm.placement for vm in read_record(PoolVms, data).added]
    assert len({id(place) for place in places}) == 14


def test_equal_records_are_written_individually() -> None:
    alike = PoolVms(CLUSTER, "c", "p", SKU, added=build_pool(1).added * 40)
    data = write_record(alike)
    assert isinstance(data["added"], list)
    assert read_record(PoolVms, data) == alike


def damage_table(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(write_record(build_pool(40))))
    data["added"]["columns"] |= changes
    return data


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strange": {"all": 1}}, '"strange" is not known'),
        ({"pool": 3}, "a column expected"),
        ({"pool": {"some": 3}}, '"all", "each", or "of" and "at" expected'),
        ({"pool": {"each": ["p"]}}, "40 values expected"),
        ({"pool": {"all": 3}}, "str expected"),
        ({"pool": {"of": ["p"], "at": [0] * 39 + [1]}}, "numbers from 0 to 0 expected"),
        ({"pool": {"of": ["p"], "at": [0] * 39 + [-1]}}, "numbers from 0 to 0 expected"),
        ({"pool": {"of": ["p"], "at": [0] * 39 + [False]}}, "a list of int expected"),
        ({"pool": {"of": [], "at": []}}, "40 values expected"),
    ],
)
def test_invalid_columns_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionProblem, match=message) as rejection:
        read_record(PoolVms, damage_table(**changes))
    assert rejection.value.path[:2] == ("added", "columns")


@pytest.mark.parametrize(
    "table", [{}, {"rows": 10**12, "columns": {"pool": {"all": "p"}}}, {"rows": "1"}]
)
def test_invalid_tables_are_rejected(table: dict[str, Any]) -> None:
    with pytest.raises(ConversionProblem):
        read_record(PoolVms, {**write_record(build_pool(0)), "added": table})


def test_machines_of_earlier_plan_files_are_read() -> None:
    machine = Machine("bm1", "r1", "1", 1, None, 2, 48, 224, 3500)
    data = write_record(machine)
    earlier = {
        **data,
        "unschedulable_reason": "without the role compute-plane, cordoned",
        "is_healthy": False,
    }
    reasons = (
        UnschedulableReason("without the role compute-plane", "roles"),
        UnschedulableReason("cordoned", "cordoned"),
    )
    expected = replace(machine, unschedulable_reasons=reasons)
    assert read_record(Machine, earlier) == expected
    site = SiteVms("lab", "lab", machines=tuple(number_machines(MINIMUM_ROWS)))
    table = write_record(site)
    columns = table["machines"]["columns"]["facts"]["each"]["columns"]
    columns["unschedulable_reason"] = {"of": ["", "cordoned"], "at": [0] * 31 + [1]}
    columns["is_healthy"] = {"all": False}
    read = read_record(SiteVms, table).machines
    assert [entry.facts.unschedulable_reason for entry in read] == [""] * 31 + ["cordoned"]


def number_machines(count: int) -> Iterator[SiteMachine]:
    for number in range(count):
        yield SiteMachine(Machine(f"bm{number}", "r1", "1", number, None, 2, 48, 224, 3500))


def test_totals_with_earlier_names_are_read() -> None:
    earlier = {
        "kind": "vm",
        "before": 15,
        "stays": 1,
        "moves": 2,
        "recreated": 3,
        "leaves": 4,
        "loses_machine": 5,
        "comes": 6,
        "after": 12,
    }
    total = read_record(PlacementTotal, earlier)
    assert total == PlacementTotal(
        "vm",
        before=15,
        unchanged=1,
        moved=2,
        recreated=3,
        removed=4,
        host_lost=5,
        added=6,
        after=12,
    )
    assert not {"stays", "moves", "leaves", "loses_machine", "comes"} & write_record(total).keys()


def test_two_names_of_one_field_are_rejected() -> None:
    with pytest.raises(ConversionProblem, match="not known"):
        read_record(PlacementTotal, {"kind": "vm", "stays": 1, "unchanged": 1})


@pytest.mark.parametrize("count", [1, 40])
def test_rows_with_an_earlier_action_are_read(count: int) -> None:
    address = parse_address("nexus_kubernetes_cluster.a")
    rows = tuple(
        PlacementChange(
            address=address,
            kind="vm",
            object=f"a-{number}",
            action=PlacementAction.LOSE,
            source=None,
            target=None,
            trigger="machine_removed",
        )
        for number in range(count)
    )
    text = json.dumps(get_annotation_shape(tuple[PlacementChange, ...]).write(rows))
    earlier = json.loads(text.replace("host_lost", "lose_machine"))
    assert earlier != json.loads(text)
    assert get_annotation_shape(tuple[PlacementChange, ...]).read(earlier) == rows
