"""The profile is what runs: every filter, dropped, lets a cluster in that it keeps out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from nexusform.domains.fleet.scheduling import profile
from nexusform.domains.fleet.scheduling.bindings import Binding, Health, Member, Policy, TopologySpreadConstraint
from tests.domains.fleet.scheduling.samples import ALL, bound, labels_term, member, pick, place

REGION = TopologySpreadConstraint("region", 1)
# Per filter: members, a policy, what is held before, and the namespace of the placement.
Case = tuple[Sequence[Member], Policy, Sequence[Binding], str]
CASES: Final[Mapping[str, Case]] = {
    "cluster_affinity": (
        [member("a", {"ring": "x"}), member("b")],
        Policy(ALL, required_terms=(labels_term(ring="x"),)),
        (),
        "",
    ),
    "cluster_eligibility": ([member("a"), member("b", health=Health.UNHEALTHY)], Policy(ALL), (), ""),
    "namespace_affinity": (
        [member("a", namespaces=["web"]), member("b", namespaces=["other"])],
        Policy(ALL),
        (),
        "web",
    ),
    "taint_toleration": ([member("a"), member("b", taints=["key"])], Policy(ALL), (), ""),
    "same_placement_affinity": ([member("a"), member("b")], pick(2), bound("b", index=1), ""),
    "topology_spread": (
        [*(member(name, {"region": "x"}) for name in "abd"), member("c", {"region": "y"})],
        pick(4, spread_constraints=(REGION,)),
        (),
        "",
    ),
}


def outcome(case: Case) -> tuple[object, ...]:
    """Every binding that comes of it, and what is said of every cluster."""
    members, policy, prior, namespace = case
    result = place(members, policy, prior, 1, namespace)
    decisions = result.status.list_decisions() if result.status is not None else ()
    return result.bindings, tuple(decisions)


@pytest.mark.parametrize("name", [rule.rule for rule in profile.FILTERS])
def test_every_filter_decides_something(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = outcome(CASES[name])
    left = tuple(rule for rule in profile.FILTERS if rule.rule != name)
    monkeypatch.setattr(profile, "FILTERS", left)
    assert outcome(CASES[name]) != before
