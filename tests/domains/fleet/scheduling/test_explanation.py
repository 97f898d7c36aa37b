"""Every rule's word on every cluster, scores, margins and drift."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    ClusterSelectorTerm,
    Health,
    Member,
    Policy,
    PropertyRequirement,
    TopologySpreadConstraint,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.placement_explanation import (
    ClusterExplanation,
    PlacementExplanation,
    compute_policy_drift,
    explain,
)
from nexusform.kubernetes.matching import Requirement, build_label_selector
from tests.domains.fleet.scheduling.samples import (
    ALL,
    COST,
    CPU,
    FIXED,
    NODES,
    bound,
    fleet,
    labels_term,
    member,
    pick,
    place,
    reasons,
    snapshot,
    sorted_by,
)


def why(
    members: Iterable[Member], policy: Policy, prior: Iterable[Binding] = (), namespace: str = ""
) -> PlacementExplanation:
    return explain(prior, MemberList(members), policy, snapshot(policy), namespace)


def rows(explanation: PlacementExplanation) -> dict[str, ClusterExplanation]:
    return {row.cluster: row for row in explanation.clusters}


@pytest.mark.parametrize(
    ("name", "order", "given", "expected"),
    [
        (CPU, "Descending", ("100", "20", "10"), [("100 %", 100), ("11.11 %", 11), ("0 %", 0)]),
        (COST, "Ascending", ("1", "0.2", "0.1"), [("0 %", 0), ("88.89 %", 89), ("100 %", 100)]),
    ],
)
def test_the_documents_numbers(name: str, order: str, given: tuple[str, ...], expected: list) -> None:
    fields = "cpu" if name == CPU else "cost"
    names = ("bravelion", "smartfish", "jumpingcat")
    members = [member(n, **{fields: v}) for n, v in zip(names, given, strict=True)]  # type: ignore[arg-type]
    by_cluster = rows(why(members, pick(1, preferred_terms=(sorted_by(name, order),))))
    parts = [by_cluster[n].preferences[0] for n in names]
    assert [(p.format_share(), p.points) for p in parts] == expected


def test_all_refusals_the_first_as_reported() -> None:
    bad = member("a", {"env": "test"}, taints=["x"], health=Health.NOT_JOINED, namespaces=["other"])
    row = rows(why([bad], pick(1, required_terms=(labels_term(env="prod"),)), namespace="web"))["a"]
    assert [r.rule for r in row.rejections] == [
        "cluster_affinity",
        "cluster_eligibility",
        "namespace_affinity",
        "taint_toleration",
    ]
    assert row.first_rejection is not None
    assert row.reported_reason == f"ClusterUnschedulable, {row.first_rejection.reason}"
    assert not row.is_picked


def test_it_says_what_the_cycle_says() -> None:
    members = [
        member("a", {"region": "x"}, nodes="3"),
        member("b", {"region": "x"}, nodes="9"),
        member("c", {"region": "y"}, taints=["t"]),
        member("d", {"region": "y"}, nodes="5"),
    ]
    policy = pick(
        1, preferred_terms=(sorted_by(NODES, "Descending"),), spread_constraints=(TopologySpreadConstraint("region"),)
    )
    said = reasons(place(members, policy))
    assert {name: row.reported_reason for name, row in rows(why(members, policy)).items()} == said


REGIONS = [
    member("a1", {"region": "a"}, nodes="9"),
    member("a2", {"region": "a"}, nodes="8"),
    member("a3", {"region": "a"}, nodes="7"),
    member("b1", {"region": "b"}, nodes="3"),
    member("b2", {"region": "b"}, nodes="1"),
    member("c1", {"region": "c"}, taints=["t"]),
    member("d1", nodes="5"),
]


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("how", ["DoNotSchedule", "ScheduleAnyway"])
@pytest.mark.parametrize("skew", [1, 2])
@pytest.mark.parametrize("prior", [(), ("a2",), ("a1", "d1")])
def test_it_is_the_decision_itself_where_picks_are_spread(
    number: int, how: str, skew: int, prior: tuple[str, ...]
) -> None:
    spread = (TopologySpreadConstraint("region", skew, how),)
    policy = pick(number, preferred_terms=(sorted_by(NODES, "Descending"),), spread_constraints=spread)
    result = place(REGIONS, policy, bound(*prior))
    explanation = why(REGIONS, policy, bound(*prior))
    said, by_cluster = reasons(result), rows(explanation)
    assert {name: by_cluster[name].reported_reason for name in said} == said
    held = {binding.cluster for binding in result.bindings if binding.state != "Unscheduled"}
    assert {name for name, row in by_cluster.items() if row.is_bound or row.is_picked} >= held
    assert {name for batch in explanation.batches for name in batch} == held - set(prior)
    assert all(len(batch) == 1 for batch in explanation.batches)
    recorded = {b.cluster: (b.topology_spread_score, b.affinity_score) for b in result.bindings}
    shown = {n: (r.topology_spread_score, r.affinity_score) for n, r in by_cluster.items() if n in held}
    assert shown == {name: recorded[name] for name in held}


def test_rank_and_margin_to_the_last_one_picked() -> None:
    members = [member("a", nodes="10"), member("b", nodes="6"), member("c", nodes="6"), member("d", nodes="1")]
    explanation = why(members, pick(2, preferred_terms=(sorted_by(NODES, "Descending", 90),)))
    by_cluster = rows(explanation)
    assert explanation.last_pick == "c"
    assert [by_cluster[n].rank for n in "abcd"] == [1, 3, 2, 4]
    assert [by_cluster[n].is_picked for n in "abcd"] == [True, False, True, False]
    margins = {n: by_cluster[n].margin for n in "abcd"}
    assert [(m.affinity, m.deciding_part) for m in margins.values() if m] == [
        (40, "affinity"),
        (0, "name"),
        (0, "name"),
        (-50, "affinity"),
    ]


def test_an_obsolete_binding_decides_ties() -> None:
    policy = pick(1)
    explanation = explain(bound("a"), MemberList(fleet("a", "b")), policy, snapshot(policy, 1))
    assert explanation.last_pick == "a"
    margin = rows(explanation)["b"].margin
    assert margin is not None
    assert margin.deciding_part == "obsolete"


def test_held_clusters_tell_what_would_refuse_them_today() -> None:
    members = [member("a", taints=["x"]), member("b")]
    row = rows(why(members, pick(1), bound("a")))["a"]
    assert row.binding is not None
    assert [r.rule for r in row.rejections] == ["taint_toleration"]
    assert row.reported_reason.startswith("Successfully scheduled resources")


def test_hard_spread_constraints_refuse_in_explanations_too() -> None:
    members = [member("a1", {"region": "a"}), member("a2", {"region": "a"}), member("b1", {"region": "b"})]
    row = rows(why(members, pick(2, spread_constraints=(TopologySpreadConstraint("region"),)), bound("a1")))["a2"]
    assert [r.rule for r in row.rejections] == ["topology_spread"]
    assert row.topology_spread_score is None
    assert row.affinity_score == 0


def test_pick_all_and_pick_fixed() -> None:
    members = [member("a", {"env": "prod"}), member("b")]
    every = rows(why(members, Policy(ALL, required_terms=(labels_term(env="prod"),))))
    assert (every["a"].is_picked, every["b"].is_picked, every["a"].rank) == (True, False, None)
    named = rows(why(members, Policy(FIXED, cluster_names=("z", "b"))))
    assert list(named) == ["a", "b", "z"]
    assert named["a"].rejections[0].reason == "the policy does not name this cluster"
    assert named["b"].is_picked
    assert named["z"].reported_reason == 'Specified cluster "z" is not found'


def test_a_stopped_scheduler_is_explained() -> None:
    members = [member("a", nodes="3"), member("b", nodes="many")]
    explanation = why(members, pick(1, preferred_terms=(sorted_by(NODES, "Descending"),)))
    assert explanation.abort is not None
    assert "not a valid quantity" in explanation.abort.message


def test_drift_is_what_a_fresh_schedule_would_choose() -> None:
    members = [member("a", nodes="1"), member("b", nodes="9")]
    policy = pick(1, preferred_terms=(sorted_by(NODES, "Descending"),))
    difference = compute_policy_drift(bound("a"), MemberList(members), policy, snapshot(policy))
    assert (difference.gained_clusters, difference.lost_clusters) == (("b",), ("a",))
    same = compute_policy_drift(bound("b"), MemberList(members), policy, snapshot(policy))
    assert (same.gained_clusters, same.lost_clusters) == ((), ())


def test_rejection_details_compare_values_with_terms() -> None:
    members = [
        member("a", {"env": "canary"}, nodes="4"),
        member("b", {"env": "prod"}, nodes="4"),
        member("c", {"env": "prod"}),
        member("d"),
        member("e", {"env": "prod"}, nodes="9"),
    ]
    more_nodes = PropertyRequirement(NODES, "Gt", ("5",))
    prod = ClusterSelectorTerm(build_label_selector({"env": "prod"}), (more_nodes,))
    shelf = ClusterSelectorTerm(
        build_label_selector(None, [Requirement("shelf", "Exists"), Requirement("env", "NotIn", ("canary",))])
    )
    by_cluster = rows(why(members, pick(1, required_terms=(prod,))))
    assert {name: row.details for name, row in by_cluster.items()} == {
        "a": ("label env is canary (required: prod)",),
        "b": (f"{NODES} is 4 (required: > 5)",),
        "c": (f"no property {NODES} (required: > 5)",),
        "d": ("no label env (required: prod)",),
        "e": (),
    }
    by_cluster = rows(why(members, pick(1, required_terms=(prod, shelf))))
    assert by_cluster["a"].details == (
        "term 1: label env is canary (required: prod)",
        "term 2: no label shelf; label env is canary (required: not in canary)",
    )


def test_spread_rejection_lists_picks_by_domain() -> None:
    members = [member(name, {"zone": zone}) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"))]
    policy = pick(2, spread_constraints=(TopologySpreadConstraint("zone", 1, "DoNotSchedule"),))
    by_cluster = rows(why(members, policy, place(members, pick(3)).bindings[:1]))
    refused = {name: row.details for name, row in by_cluster.items() if row.details}
    assert all(said[0].startswith("picks by zone: ") for said in refused.values())


def test_a_pick_fixed_holds_what_it_held() -> None:
    members = fleet("a", "b")
    policy = Policy(FIXED, cluster_names=("a", "b"))
    by_cluster = rows(why(members, policy, bound("a")))
    assert {name: (row.is_bound, row.is_picked) for name, row in by_cluster.items()} == {
        "a": (True, False),
        "b": (False, True),
    }
