"""Tests of the loss of a member cluster in a hypothetical plan."""

from __future__ import annotations

from nexusform.planning.hypothesis.assumptions import parse_assumption
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_node_count,
    build_placement,
    list_binding_changes,
)
from tests.planning.harness import build_request

MEMBERS = "".join(build_member(f"c{n}", {"n": str(n)}, build_node_count(n)) for n in (1, 2, 3))


def test_lost_member_gets_no_new_placement() -> None:
    request = build_request(build_hub() + MEMBERS + build_placement())
    hypothesis = plan_hypothesis(request, [])
    assumption = parse_assumption(
        "lost:member/c2", hypothesis.before, request.registries.resource_types
    )
    after = plan_hypothesis(request, assumption.edits, hypothesis.before).after
    assert set(list_binding_changes(hypothesis.before)) == {"c1", "c2", "c3"}
    assert set(list_binding_changes(after)) == {"c1", "c3"}
