"""Tests of the comparison of provider results with the plan: paths with a difference are named."""

from __future__ import annotations

from nexusform.applying.answer_comparison import compare_answer


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
