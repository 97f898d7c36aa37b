"""Tests of edited states: contradictions are errors, valid edits are not."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.planning.verification.state_consistency import (
    check_consistency,
    check_missing_dependencies,
)
from nexusform.resources.address import parse_address
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import RACKS, build_all_types, build_state, cluster, pool

CLUSTER = "nexus_kubernetes_cluster.a"


@cache
def build_applied_state() -> State:
    return build_state(
        RACKS + cluster("a", pools=pool("p", 7, "NC_P22_112_v1")) + cluster("b", pools=pool("p", 2))
    )


def list_findings(state: State) -> tuple[list[str], list[str]]:
    """Return the details of errors and warnings."""
    problems = check_consistency(state, build_all_types().resource_types, ["simulated"])
    errors = [problem.detail for problem in problems if problem.severity is Severity.ERROR]
    return errors, [
        problem.detail for problem in problems if problem.severity is not Severity.ERROR
    ]


def edit_state(state: State, address: str, **fields: Any) -> State:
    where = parse_address(address)
    current = state.instances[where].current
    assert current is not None
    return state.replace_instance(where, InstanceState(replace(current, **fields)))


def edit_nodes(change: Callable[[dict[str, Any]], None], state: State | None = None) -> State:
    state = state or build_applied_state()
    current = state.instances[parse_address(CLUSTER)].current
    assert current is not None
    attributes = deepcopy(dict(current.attributes))
    change(attributes["nodes"])
    return edit_state(state, CLUSTER, attributes=attributes)


def move_all_into_one_cell(nodes: dict[str, Any]) -> None:
    place = {
        name: nodes["a-p-0"][name]
        for name in ("machine", "rack", "availability_zone", "numa_cells")
    }
    for node in nodes.values():
        node.update(place)


def use_missing_cell(nodes: dict[str, Any]) -> None:
    nodes["a-p-1"]["numa_cells"] = [2]


def use_cell_twice(nodes: dict[str, Any]) -> None:
    nodes["a-p-1"]["numa_cells"] = [1, 1]


def use_too_many_cells(nodes: dict[str, Any]) -> None:
    nodes["a-p-1"]["numa_cells"] = [0, 1]


def duplicate_node_number(nodes: dict[str, Any]) -> None:
    nodes["a-p-1"]["number"] = 0


def use_name_of_another_cluster(state: State) -> State:
    other = parse_address("nexus_kubernetes_cluster.b")
    current = state.instances[parse_address(CLUSTER)].current
    assert current is not None
    return edit_state(state, str(other), attributes=current.attributes)


def test_applied_state_is_consistent() -> None:
    assert list_findings(build_applied_state()) == ([], [])


def test_seven_vms_in_one_cell_warn() -> None:
    errors, (warning,) = list_findings(edit_nodes(move_all_into_one_cell))
    assert errors == []
    assert "A cell runs more VMs than fit" in warning


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            edit_nodes(use_cell_twice),
            'the VM "a-p-1" of nexus_kubernetes_cluster.a is recorded twice in one cell',
        ),
        (edit_nodes(use_too_many_cells), "in 2 cells, but its size needs 1"),
        (edit_nodes(duplicate_node_number), "have the same number in one pool, 0"),
        (use_name_of_another_cluster(build_applied_state()), "have the same id"),
        (edit_state(build_applied_state(), CLUSTER, creation=1), "have the creation number 1"),
        (
            edit_state(build_applied_state(), CLUSTER, provider="mine.second"),
            'the provider "mine.second"',
        ),
        (edit_state(build_applied_state(), "nexus_site.s", dependencies=(CLUSTER,)), "in a cycle"),
    ],
)
def test_contradiction_is_an_error(state: State, words: str) -> None:
    errors, _ = list_findings(state)
    assert any(words in detail for detail in errors), errors
    assert "state rollback" in errors[0]


def test_missing_cell_is_a_warning_because_hardware_may_change() -> None:
    errors, (warning,) = list_findings(edit_nodes(use_missing_cell))
    assert errors == []
    assert 'has no cell 2, which the state records for the VM "a-p-1"' in warning


def test_observed_placements_are_never_errors() -> None:
    def mark_as_observed(nodes: dict[str, Any]) -> None:
        use_cell_twice(nodes)
        nodes["a-p-1"]["provenance"] = "observed"

    assert list_findings(edit_nodes(mark_as_observed))[0] == []


def test_missing_machine_is_no_contradiction() -> None:
    gone = {a: i for a, i in build_applied_state().instances.items() if a.type != "nexus_rack"}
    assert list_findings(replace(build_applied_state(), instances=gone)) == ([], [])


def test_dependency_on_missing_object_is_named() -> None:
    assert check_missing_dependencies(build_applied_state()) == []
    (problem,) = check_missing_dependencies(
        edit_state(build_applied_state(), CLUSTER, dependencies=("nexus_site.x",))
    )
    assert "nexus_site.x" in problem.detail
    assert problem.severity is Severity.WARNING


def test_machines_of_equal_names_on_two_sites_are_both_named() -> None:
    text = RACKS + cluster("a", pools=pool("p", 7, "NC_P22_112_v1"))
    other = (
        text.replace('"s"', '"t"').replace("site.s.", "site.t.").replace('rack" "r"', 'rack" "q"')
    )
    state = build_state(text + other.replace('cluster" "a"', 'cluster" "b"').replace('"a"', '"b"'))
    for name in "ab":
        current = state.instances[parse_address(f"nexus_kubernetes_cluster.{name}")].current
        assert current is not None
        attributes = deepcopy(dict(current.attributes))
        first = attributes["nodes"][f"{name}-p-0"]
        place = {key: first[key] for key in ("rack", "availability_zone", "numa_cells")} | {
            "machine": "r0-bm01"
        }
        for node in attributes["nodes"].values():
            node.update(place)
        state = edit_state(state, f"nexus_kubernetes_cluster.{name}", attributes=attributes)
    errors, (warning,) = list_findings(state)
    assert errors == []
    assert "on r0-bm01 (s), r0-bm01 (t). Causes" in warning
