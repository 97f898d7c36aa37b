"""Tests of the profile: without any one filter, a rejected cluster is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from nexusform.domains.fleet.scheduling import profile
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    Health,
    Member,
    Policy,
    TopologySpreadConstraint,
)
from tests.domains.fleet.scheduling.samples import (
    ALL,
    build_bound,
    build_labels_term,
    build_pick_n,
    member,
    schedule,
)

REGION = TopologySpreadConstraint("region", 1)
# Per filter: members, a policy, prior bindings, and the namespace of the placement.
Case = tuple[Sequence[Member], Policy, Sequence[Binding], str]
CASES: Final[Mapping[str, Case]] = {
    "cluster_affinity": (
        [member("a", {"ring": "x"}), member("b")],
        Policy(ALL, required_terms=(build_labels_term(ring="x"),)),
        (),
        "",
    ),
    "cluster_eligibility": (
        [member("a"), member("b", health=Health.UNHEALTHY)],
        Policy(ALL),
        (),
        "",
    ),
    "namespace_affinity": (
        [member("a", namespaces=["web"]), member("b", namespaces=["other"])],
        Policy(ALL),
        (),
        "web",
    ),
    "taint_toleration": ([member("a"), member("b", taints=["key"])], Policy(ALL), (), ""),
    "same_placement_affinity": (
        [member("a"), member("b")],
        build_pick_n(2),
        build_bound("b", index=1),
        "",
    ),
    "topology_spread": (
        [*(member(name, {"region": "x"}) for name in "abd"), member("c", {"region": "y"})],
        build_pick_n(4, spread_constraints=(REGION,)),
        (),
        "",
    ),
}


def compute_outcome(case: Case) -> tuple[object, ...]:
    """Return all resulting bindings, and the decision on every cluster."""
    members, policy, prior, namespace = case
    result = schedule(members, policy, prior, 1, namespace)
    decisions = result.status.list_decisions() if result.status is not None else ()
    return result.bindings, tuple(decisions)


@pytest.mark.parametrize("name", [rule.rule for rule in profile.FILTERS])
def test_every_filter_changes_a_decision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compute_outcome(CASES[name])
    left = tuple(rule for rule in profile.FILTERS if rule.rule != name)
    monkeypatch.setattr(profile, "FILTERS", left)
    assert compute_outcome(CASES[name]) != before
