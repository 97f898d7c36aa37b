"""States that somebody edited: what cannot be is an error, what is lawful is not."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.planning.verification.state_consistency import check_consistency, check_missing_dependencies
from nexusform.resources.address import parse_address
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import RACKS, all_types, cluster, pool, state_of

CLUSTER = "nexus_kubernetes_cluster.a"


@cache
def standing() -> State:
    return state_of(RACKS + cluster("a", pools=pool("p", 7, "NC_P22_112_v1")) + cluster("b", pools=pool("p", 2)))


def told(state: State) -> tuple[list[str], list[str]]:
    """The details of the errors and of the warnings."""
    problems = check_consistency(state, all_types().resource_types, ["simulated"])
    errors = [problem.detail for problem in problems if problem.severity is Severity.ERROR]
    return errors, [problem.detail for problem in problems if problem.severity is not Severity.ERROR]


def edited(state: State, address: str, **fields: Any) -> State:
    where = parse_address(address)
    current = state.instances[where].current
    assert current is not None
    return state.replace_instance(where, InstanceState(replace(current, **fields)))


def with_nodes(change: Callable[[dict[str, Any]], None], state: State | None = None) -> State:
    state = state or standing()
    current = state.instances[parse_address(CLUSTER)].current
    assert current is not None
    attributes = deepcopy(dict(current.attributes))
    change(attributes["nodes"])
    return edited(state, CLUSTER, attributes=attributes)


def all_in_one_cell(nodes: dict[str, Any]) -> None:
    place = {name: nodes["a-p-0"][name] for name in ("machine", "rack", "availability_zone", "numa_cells")}
    for node in nodes.values():
        node.update(place)


def in_a_cell_that_is_not_there(nodes: dict[str, Any]) -> None:
    nodes["a-p-1"]["numa_cells"] = [2]


def in_too_many_cells(nodes: dict[str, Any]) -> None:
    nodes["a-p-1"]["numa_cells"] = [0, 1]


def under_one_number(nodes: dict[str, Any]) -> None:
    nodes["a-p-1"]["number"] = 0


def under_a_name_of_another(state: State) -> State:
    other = parse_address("nexus_kubernetes_cluster.b")
    current = state.instances[parse_address(CLUSTER)].current
    assert current is not None
    return edited(state, str(other), attributes=current.attributes)


def test_a_state_as_it_was_applied_is_well() -> None:
    assert told(standing()) == ([], [])


def test_seven_vms_in_one_cell_warn() -> None:
    errors, (warning,) = told(with_nodes(all_in_one_cell))
    assert errors == []
    assert "A cell runs more VMs than fit" in warning


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (with_nodes(in_a_cell_that_is_not_there), 'has no cell 2, which the state records for the VM "a-p-1"'),
        (with_nodes(in_too_many_cells), "in 2 cells, but its size needs 1"),
        (with_nodes(under_one_number), "have the same number in one pool, 0"),
        (under_a_name_of_another(standing()), "have the same id"),
        (edited(standing(), CLUSTER, creation=1), "have the creation number 1"),
        (edited(standing(), CLUSTER, provider="mine.second"), 'the provider "mine.second"'),
        (edited(standing(), "nexus_site.s", dependencies=(CLUSTER,)), "in a cycle"),
    ],
)
def test_what_cannot_be_is_an_error(state: State, words: str) -> None:
    errors, _ = told(state)
    assert any(words in detail for detail in errors), errors
    assert "state rollback" in errors[0]


def test_places_that_were_observed_are_never_wrong() -> None:
    def observed(nodes: dict[str, Any]) -> None:
        in_a_cell_that_is_not_there(nodes)
        nodes["a-p-1"]["provenance"] = "observed"

    assert told(with_nodes(observed))[0] == []


def test_a_machine_that_is_gone_is_no_contradiction() -> None:
    gone = {a: i for a, i in standing().instances.items() if a.type != "nexus_rack"}
    assert told(replace(standing(), instances=gone)) == ([], [])


def test_a_dependency_on_what_is_gone_is_named() -> None:
    assert check_missing_dependencies(standing()) == []
    (problem,) = check_missing_dependencies(edited(standing(), CLUSTER, dependencies=("nexus_site.x",)))
    assert "nexus_site.x" in problem.detail
    assert problem.severity is Severity.WARNING
