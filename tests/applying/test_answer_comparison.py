"""Tests of the comparison of provider results with the plan: paths with a difference are named."""

from __future__ import annotations

from nexusform.applying.answer_comparison import compare_answer
from tests.planning.harness import build_all_types


def test_unplanned_entry_of_computed_map_is_a_difference() -> None:
    planned = {"nodes": {"a-0": {"machine": "m1"}}}
    answer = {"nodes": {"a-0": {"machine": "m1"}, "a-1": {"machine": "m2"}}}
    assert compare_answer(
        "nexus_kubernetes_cluster.a", None, planned, answer, ()
    ).disagreements == (("nodes", "a-1"),)


def test_additional_attribute_is_no_difference() -> None:
    comparison = compare_answer("nexus_site.a", None, {"name": "a"}, {"name": "a", "id": "a"}, ())
    assert comparison.disagreements == ()
    assert comparison.attributes == {"name": "a", "id": "a"}


def test_null_entry_of_map_counts_as_absent() -> None:
    planned = {"labels": {"a": "x"}}
    answer = {"labels": {"a": "x", "b": None}}
    assert (
        compare_answer("nexus_kubernetes_cluster.a", None, planned, answer, ()).disagreements == ()
    )


def test_object_that_waits_as_planned_is_not_counted() -> None:
    type_ = build_all_types().resource_types["fleet_cluster_resource_placement"]
    binding = {"state": "Bound", "resource_snapshot": 0, "provenance": "predicted"}
    planned = {"bindings": {"m1": binding, "m2": binding}}
    for snapshot in (0, 1):
        answer = {"bindings": {"m1": binding, "m2": {**binding, "resource_snapshot": snapshot}}}
        comparison = compare_answer(
            "fleet_cluster_resource_placement.web",
            type_.schema,
            planned,
            answer,
            [("bindings", "m1"), ("bindings", "m2")],
            accepted=[("bindings", "m2")],
        )
        assert (comparison.hits, comparison.wrong_predictions) == (1, ())
