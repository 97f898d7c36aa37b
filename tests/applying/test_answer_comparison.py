"""An answer of a provider agrees with the plan, or the paths that differ are named."""

from __future__ import annotations

from nexusform.applying.answer_comparison import compare_answer


def test_an_unplanned_entry_of_a_computed_map_is_a_disagreement() -> None:
    planned = {"nodes": {"a-0": {"machine": "m1"}}}
    answer = {"nodes": {"a-0": {"machine": "m1"}, "a-1": {"machine": "m2"}}}
    assert compare_answer("nexus_kubernetes_cluster.a", None, planned, answer, ()).disagreements == (("nodes", "a-1"),)


def test_a_further_attribute_of_the_object_is_no_disagreement() -> None:
    comparison = compare_answer("nexus_site.a", None, {"name": "a"}, {"name": "a", "id": "a"}, ())
    assert comparison.disagreements == ()
    assert comparison.attributes == {"name": "a", "id": "a"}
