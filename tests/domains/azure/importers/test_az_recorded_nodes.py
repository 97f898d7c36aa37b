"""Which number a node gets by what state foretold."""

from __future__ import annotations

from nexusform.domains.azure.importers.az_recorded_nodes import (
    PredictedNodeLocation,
    RecordedPoolNodes,
    assign_node_numbers,
)
from nexusform.domains.azure.importers.az_records import AzNode, AzVmLocation, AzVmSize


def node(name: str, machine: str, rack: str) -> AzNode:
    return AzNode(name, "c", "p", "Worker", None, AzVmSize(4, 8, 10, 1), AzVmLocation(machine, rack, None))


def names_of(nodes: list[AzNode], **foretold: str) -> dict[int, str]:
    """Number -> name, where `n0="m1/r1"` foretells number 0."""
    places = {int(number[1:]): PredictedNodeLocation(*place.split("/")) for number, place in foretold.items()}
    return {
        number: one.name
        for number, one in assign_node_numbers(nodes, 3, RecordedPoolNodes(predicted_locations=places)).items()
    }


def test_the_machine_counts_before_the_rack() -> None:
    on_m1, elsewhere_in_r1 = node("a", "m1", "r1"), node("b", "m9", "r1")
    assert names_of([on_m1, elsewhere_in_r1], n0="m2/r1", n1="m1/r1") == {1: "a", 0: "b"}


def test_the_rack_counts_before_the_order_of_names() -> None:
    assert names_of([node("a", "m7", "r2"), node("b", "m9", "r1")], n0="m2/r1") == {0: "b", 1: "a"}
