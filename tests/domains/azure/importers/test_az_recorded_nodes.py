"""Tests of node numbers assigned by the predictions in the state."""

from __future__ import annotations

from nexusform.domains.azure.importers.az_recorded_nodes import (
    PredictedNodeLocation,
    RecordedPoolNodes,
    assign_node_numbers,
)
from nexusform.domains.azure.importers.az_records import AzNode, AzVmLocation, AzVmSize


def build_node(name: str, machine: str, rack: str) -> AzNode:
    return AzNode(
        name, "c", "p", "Worker", None, AzVmSize(4, 8, 10, 1), AzVmLocation(machine, rack, None)
    )


def assign_names(nodes: list[AzNode], **foretold: str) -> dict[int, str]:
    """Return names by number, with `n0="m1/r1"` as the prediction for number 0."""
    places = {
        int(number[1:]): PredictedNodeLocation(*place.split("/"))
        for number, place in foretold.items()
    }
    return {
        number: one.name
        for number, one in assign_node_numbers(
            nodes, 3, RecordedPoolNodes(predicted_locations=places)
        ).items()
    }


def test_machine_takes_precedence_over_rack() -> None:
    on_m1 = build_node("a", "m1", "r1")
    elsewhere_in_r1 = build_node("b", "m9", "r1")
    assert assign_names([on_m1, elsewhere_in_r1], n0="m2/r1", n1="m1/r1") == {1: "a", 0: "b"}


def test_rack_takes_precedence_over_order_of_names() -> None:
    assert assign_names([build_node("a", "m7", "r2"), build_node("b", "m9", "r1")], n0="m2/r1") == {
        0: "b",
        1: "a",
    }
