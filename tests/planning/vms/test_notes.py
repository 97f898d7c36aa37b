"""Tests of placement records in private data, including edited ones."""

from typing import Any

import pytest

from nexusform.planning.vm_planning.vm_object import (
    find_placement_origin,
    get_previous_machine,
    record_previous_machines,
    record_vm_placements,
)
from nexusform.state.objects import State
from tests.planning.harness import RACKS, at, build_state, cluster, list_places, pool


@pytest.mark.parametrize(
    "private",
    [
        {"placed": "x"},
        {"placed": {"a": 1}},
        {
            "placed": [
                1,
                "x",
                None,
                [1],
                [1, "new"],
                ["1", "new", ["a"]],
                [1, 2, ["a"]],
                [1, "new", [2]],
            ]
        },
        ["placed"],
        "placed",
        None,
    ],
)
def test_invalid_records_are_ignored(private: Any) -> None:
    assert find_placement_origin(private, "a") is None
    assert record_vm_placements(private, [("a", "new")], ["a"], 3) == {
        "placed": [[3, "new", ["a"]]]
    }


def test_valid_entries_of_a_record_are_read() -> None:
    assert find_placement_origin({"placed": [[1], [2, "new", ["a", "b"]]]}, "b") == ("new", 2)


def test_previous_machine_is_recorded_until_vm_is_placed_elsewhere() -> None:
    first = record_previous_machines(None, {"a": "bm1", "b": "bm1"}, {"a", "b"}, ["a", "b"])
    assert (get_previous_machine(first, "a"), get_previous_machine(first, "c")) == ("bm1", "")
    second = record_previous_machines({**(first or {}), "placed": []}, {}, {"a"}, ["a", "b"])
    assert second == {"previous_machines": {"b": "bm1"}, "placed": []}
    assert record_previous_machines(second, {}, set(), ["a"]) == {"placed": []}
    assert record_previous_machines({"left": {"a": 7}}, {}, set(), ["a"]) is None
    assert get_previous_machine({"left": [1]}, "a") == ""


def build_evacuation(machine: str) -> str:
    rack = machine.partition("-")[0]
    return f"""machine_count = 4
  dynamic "machine_override" {{
    for_each = "r${{count.index}}" == "{rack}" ? [1] : []
    labels   = ["{machine}"]
    content {{
      evacuate = true
    }}
  }}"""


def list_previous_machines(state: State, before: State) -> dict[str, str]:
    """Return the machines VMs had to leave, by VM name."""
    instance = state.instances[at("nexus_kubernetes_cluster.a")]
    assert instance.current is not None
    noted = {
        name: get_previous_machine(instance.current.private, name) for name in list_places(before)
    }
    return {name: machine for name, machine in noted.items() if machine}


def test_only_machines_lost_or_evacuated_are_recorded() -> None:
    before = RACKS + cluster("a", pools=pool("p", 4))
    state = build_state(before)
    larger = build_state(before.replace("NC_G6_28_v1", "NC_P22_112_v1"), state)
    assert list_previous_machines(larger, state) == {}
    machine, _ = list_places(state)["a-p-0"]
    emptied = build_state(before.replace("machine_count = 4", build_evacuation(machine)), state)
    gone = [name for name, (where, _) in list_places(state).items() if where == machine]
    assert list_previous_machines(emptied, state) == dict.fromkeys(gone, machine)


def test_healed_vm_records_its_previous_machine() -> None:
    before = RACKS + cluster("a", pools=pool("p", 4))
    state = build_state(before)
    machine, _ = list_places(state)["a-p-2"]
    healed = build_state(before, state, replaces=("nexus_kubernetes_cluster.a:a-p-2",))
    assert list_previous_machines(healed, state) == {"a-p-2": machine}
