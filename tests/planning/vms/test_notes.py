"""The note of who was placed when and why, as a state that somebody edited may hold it."""

from typing import Any

import pytest

from nexusform.planning.vm_planning.vm_object import (
    find_placement_origin,
    get_previous_machine,
    record_previous_machines,
    record_vm_placements,
)
from nexusform.state.objects import State
from tests.planning.harness import RACKS, at, cluster, places, pool, state_of


@pytest.mark.parametrize(
    "private",
    [
        {"placed": "x"},
        {"placed": {"a": 1}},
        {"placed": [1, "x", None, [1], [1, "new"], ["1", "new", ["a"]], [1, 2, ["a"]], [1, "new", [2]]]},
        ["placed"],
        "placed",
        None,
    ],
)
def test_an_edited_note_says_nothing_and_does_no_harm(private: Any) -> None:
    assert find_placement_origin(private, "a") is None
    assert record_vm_placements(private, [("a", "new")], ["a"], 3) == {"placed": [[3, "new", ["a"]]]}


def test_what_is_right_in_it_is_read() -> None:
    assert find_placement_origin({"placed": [[1], [2, "new", ["a", "b"]]]}, "b") == ("new", 2)


def test_the_machine_that_a_vm_had_to_leave_is_remembered_until_it_comes_elsewhere() -> None:
    first = record_previous_machines(None, {"a": "bm1", "b": "bm1"}, {"a", "b"}, ["a", "b"])
    assert (get_previous_machine(first, "a"), get_previous_machine(first, "c")) == ("bm1", "")
    second = record_previous_machines({**(first or {}), "placed": []}, {}, {"a"}, ["a", "b"])
    assert second == {"left": {"b": "bm1"}, "placed": []}
    assert record_previous_machines(second, {}, set(), ["a"]) == {"placed": []}
    assert record_previous_machines({"left": {"a": 7}}, {}, set(), ["a"]) is None
    assert get_previous_machine({"left": [1]}, "a") == ""


def evacuated(machine: str) -> str:
    rack = machine.partition("-")[0]
    return f"""machine_count = 4
  dynamic "machine_override" {{
    for_each = "r${{count.index}}" == "{rack}" ? [1] : []
    labels   = ["{machine}"]
    content {{
      evacuate = true
    }}
  }}"""


def lefts(state: State, before: State) -> dict[str, str]:
    """The machines that VMs had to leave, by the VM's name."""
    instance = state.instances[at("nexus_kubernetes_cluster.a")]
    assert instance.current is not None
    noted = {name: get_previous_machine(instance.current.private, name) for name in places(before)}
    return {name: machine for name, machine in noted.items() if machine}


def test_only_a_machine_that_fails_its_vms_is_remembered() -> None:
    before = RACKS + cluster("a", pools=pool("p", 4))
    state = state_of(before)
    larger = state_of(before.replace("NC_G6_28_v1", "NC_P22_112_v1"), state)
    assert lefts(larger, state) == {}
    machine, _ = places(state)["a-p-0"]
    emptied = state_of(before.replace("machine_count = 4", evacuated(machine)), state)
    gone = [name for name, (where, _) in places(state).items() if where == machine]
    assert lefts(emptied, state) == dict.fromkeys(gone, machine)


def test_whoever_is_made_anew_remembers_where_it_was_not_well() -> None:
    before = RACKS + cluster("a", pools=pool("p", 4))
    state = state_of(before)
    machine, _ = places(state)["a-p-2"]
    healed = state_of(before, state, replaces=("nexus_kubernetes_cluster.a:a-p-2",))
    assert lefts(healed, state) == {"a-p-2": machine}
