from __future__ import annotations

from typing import Any

from nexusform.applying.step_results import MachineLocations
from nexusform.resources.address import parse_address
from nexusform.state.objects import InstanceState, ObjectState, State


def state_of(**objects: dict[str, Any]) -> State:
    made = {
        parse_address(name.replace("__", ".")): InstanceState(ObjectState(attributes, number))
        for number, (name, attributes) in enumerate(objects.items())
    }
    return State(instances=made)


STATE = state_of(
    nexus_rack__a={"id": "s/ra", "name": "ra", "availability_zone": "1", "machines": {"ra-bm01": {"slot": 1}}},
    nexus_rack__b={"id": "s/rb", "name": "rb", "availability_zone": "2", "machines": {"rb-bm01": {"slot": 1}}},
    nexus_rack__o={"id": "t/rb", "name": "rb", "availability_zone": "9", "machines": {"rb-bm01": {"slot": 1}}},
    nexus_bare_metal_machine__m={"id": "s/rb/odd", "name": "odd", "rack_id": "s/rb"},
)


def node(machine: str | None, rack: str, zone: str) -> dict[str, Any]:
    return {"machine": machine, "rack": rack, "availability_zone": zone, "numa_cells": [0]}


def followed(attributes: dict[str, Any]) -> dict[str, Any]:
    return dict(MachineLocations(lambda: STATE).update_locations(attributes))


def test_a_node_on_another_machine_is_in_that_machines_rack_and_zone() -> None:
    before = {"id": "s/c", "nodes": {"n0": node("rb-bm01", "ra", "1"), "n1": node("ra-bm01", "ra", "1")}}
    after = followed(before)
    assert after["nodes"] == {"n0": node("rb-bm01", "rb", "2"), "n1": node("ra-bm01", "ra", "1")}


def test_a_machine_that_stands_for_itself_is_known_too() -> None:
    assert followed({"id": "s/c", "nodes": {"n": node("odd", "ra", "1")}})["nodes"]["n"]["rack"] == "rb"


def test_a_plain_vm_follows_too() -> None:
    assert followed({"id": "s/vm", **node("rb-bm01", "ra", "1")})["availability_zone"] == "2"


def test_machines_are_those_of_the_site() -> None:
    assert followed({"id": "t/vm", **node("rb-bm01", "ra", "1")})["availability_zone"] == "9"


def test_what_is_in_order_or_not_known_stays_as_it_is() -> None:
    for attributes in (
        {"id": "s/c", "nodes": {"n": node("ra-bm01", "ra", "1")}, "labels": {"machine": "rb-bm01"}},
        {"id": "s/c", "nodes": {"n": node("elsewhere", "rx", "7"), "m": node(None, "ra", "1")}},
    ):
        assert followed(attributes) is not None
        assert followed(attributes) == attributes


def test_a_rack_that_came_later_is_found() -> None:
    states = [State(), STATE]
    whereabouts = MachineLocations(lambda: states.pop(0))
    vm = {"id": "s/vm", **node("rb-bm01", "ra", "1")}
    assert whereabouts.update_locations(vm) == vm
    assert whereabouts.update_locations(vm)["rack"] == "rb"
