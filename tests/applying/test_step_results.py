from __future__ import annotations

from typing import Any

from nexusform.applying.step_results import MachineLocations
from nexusform.resources.address import parse_address
from nexusform.state.objects import InstanceState, ObjectState, State


def build_state(**objects: dict[str, Any]) -> State:
    made = {
        parse_address(name.replace("__", ".")): InstanceState(ObjectState(attributes, number))
        for number, (name, attributes) in enumerate(objects.items())
    }
    return State(instances=made)


STATE = build_state(
    nexus_rack__a={
        "id": "s/ra",
        "name": "ra",
        "availability_zone": "1",
        "machines": {"ra-bm01": {"slot": 1}},
    },
    nexus_rack__b={
        "id": "s/rb",
        "name": "rb",
        "availability_zone": "2",
        "machines": {"rb-bm01": {"slot": 1}},
    },
    nexus_rack__o={
        "id": "t/rb",
        "name": "rb",
        "availability_zone": "9",
        "machines": {"rb-bm01": {"slot": 1}},
    },
    nexus_bare_metal_machine__m={"id": "s/rb/odd", "name": "odd", "rack_id": "s/rb"},
)


def build_node(machine: str | None, rack: str, zone: str) -> dict[str, Any]:
    return {"machine": machine, "rack": rack, "availability_zone": zone, "numa_cells": [0]}


def apply_location_update(attributes: dict[str, Any]) -> dict[str, Any]:
    return dict(MachineLocations(lambda: STATE).update_locations(attributes))


def test_node_on_other_machine_gets_its_rack_and_zone() -> None:
    before = {
        "id": "s/c",
        "nodes": {"n0": build_node("rb-bm01", "ra", "1"), "n1": build_node("ra-bm01", "ra", "1")},
    }
    after = apply_location_update(before)
    assert after["nodes"] == {
        "n0": build_node("rb-bm01", "rb", "2"),
        "n1": build_node("ra-bm01", "ra", "1"),
    }


def test_standalone_machine_is_known() -> None:
    assert (
        apply_location_update({"id": "s/c", "nodes": {"n": build_node("odd", "ra", "1")}})["nodes"][
            "n"
        ]["rack"]
        == "rb"
    )


def test_vm_without_cluster_is_updated() -> None:
    assert (
        apply_location_update({"id": "s/vm", **build_node("rb-bm01", "ra", "1")})[
            "availability_zone"
        ]
        == "2"
    )


def test_machines_of_own_site_only() -> None:
    assert (
        apply_location_update({"id": "t/vm", **build_node("rb-bm01", "ra", "1")})[
            "availability_zone"
        ]
        == "9"
    )


def test_correct_or_unknown_location_is_kept() -> None:
    for attributes in (
        {
            "id": "s/c",
            "nodes": {"n": build_node("ra-bm01", "ra", "1")},
            "labels": {"machine": "rb-bm01"},
        },
        {
            "id": "s/c",
            "nodes": {"n": build_node("elsewhere", "rx", "7"), "m": build_node(None, "ra", "1")},
        },
    ):
        assert apply_location_update(attributes) is not None
        assert apply_location_update(attributes) == attributes


def test_rack_created_later_is_found() -> None:
    states = [State(), STATE]
    whereabouts = MachineLocations(lambda: states.pop(0))
    vm = {"id": "s/vm", **build_node("rb-bm01", "ra", "1")}
    assert whereabouts.update_locations(vm) == vm
    assert whereabouts.update_locations(vm)["rack"] == "rb"
