"""Tests of explanations: the verdict of every rule on every cluster, scores, margins and drift."""

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
    build_bound,
    build_labels_term,
    build_pick_n,
    build_property_term,
    build_snapshot,
    build_sorter,
    fleet,
    get_reasons,
    member,
    schedule,
)


def explain_placement(
    members: Iterable[Member], policy: Policy, prior: Iterable[Binding] = (), namespace: str = ""
) -> PlacementExplanation:
    return explain(prior, MemberList(members), policy, build_snapshot(policy), namespace)


def index_rows(explanation: PlacementExplanation) -> dict[str, ClusterExplanation]:
    return {row.cluster: row for row in explanation.clusters}


@pytest.mark.parametrize(
    ("name", "order", "given", "expected"),
    [
        (CPU, "Descending", ("100", "20", "10"), [("100 %", 100), ("11.11 %", 11), ("0 %", 0)]),
        (COST, "Ascending", ("1", "0.2", "0.1"), [("0 %", 0), ("88.89 %", 89), ("100 %", 100)]),
    ],
)
def test_document_scores(name: str, order: str, given: tuple[str, ...], expected: list) -> None:
    fields = "cpu" if name == CPU else "cost"
    names = ("bravelion", "smartfish", "jumpingcat")
    members = [member(n, **{fields: v}) for n, v in zip(names, given, strict=True)]  # type: ignore[arg-type]
    by_cluster = index_rows(
        explain_placement(members, build_pick_n(1, preferred_terms=(build_sorter(name, order),)))
    )
    parts = [by_cluster[n].preferences[0] for n in names]
    assert [(p.format_share(), p.points) for p in parts] == expected


def test_all_rejections_are_listed_in_filter_order() -> None:
    bad = member("a", {"env": "test"}, taints=["x"], health=Health.NOT_JOINED, namespaces=["other"])
    row = index_rows(
        explain_placement(
            [bad], build_pick_n(1, required_terms=(build_labels_term(env="prod"),)), namespace="web"
        )
    )["a"]
    assert [r.rule for r in row.rejections] == [
        "cluster_affinity",
        "cluster_eligibility",
        "namespace_affinity",
        "taint_toleration",
    ]
    assert row.reported_reason == f"ClusterUnschedulable, {row.rejections[0].reason}"
    assert not row.is_picked


def test_explanation_matches_the_cycle() -> None:
    members = [
        member("a", {"region": "x"}, nodes="3"),
        member("b", {"region": "x"}, nodes="9"),
        member("c", {"region": "y"}, taints=["t"]),
        member("d", {"region": "y"}, nodes="5"),
    ]
    policy = build_pick_n(
        1,
        preferred_terms=(build_sorter(NODES, "Descending"),),
        spread_constraints=(TopologySpreadConstraint("region"),),
    )
    said = get_reasons(schedule(members, policy))
    assert {
        name: row.reported_reason
        for name, row in index_rows(explain_placement(members, policy)).items()
    } == said


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
def test_explanation_matches_the_cycle_with_spread(
    number: int, how: str, skew: int, prior: tuple[str, ...]
) -> None:
    spread = (TopologySpreadConstraint("region", skew, how),)
    policy = build_pick_n(
        number, preferred_terms=(build_sorter(NODES, "Descending"),), spread_constraints=spread
    )
    result = schedule(REGIONS, policy, build_bound(*prior))
    explanation = explain_placement(REGIONS, policy, build_bound(*prior))
    said = get_reasons(result)
    by_cluster = index_rows(explanation)
    assert {name: by_cluster[name].reported_reason for name in said} == said
    held = {binding.cluster for binding in result.bindings if binding.state != "Unscheduled"}
    assert {name for name, row in by_cluster.items() if row.is_bound or row.is_picked} >= held
    assert {name for batch in explanation.batches for name in batch} == held - set(prior)
    assert all(len(batch) == 1 for batch in explanation.batches)
    recorded = {b.cluster: (b.topology_spread_score, b.affinity_score) for b in result.bindings}
    shown = {
        n: (r.topology_spread_score, r.affinity_score) for n, r in by_cluster.items() if n in held
    }
    assert shown == {name: recorded[name] for name in held}


def test_rank_and_margin_to_last_pick() -> None:
    members = [
        member("a", nodes="10"),
        member("b", nodes="6"),
        member("c", nodes="6"),
        member("d", nodes="1"),
    ]
    explanation = explain_placement(
        members, build_pick_n(2, preferred_terms=(build_sorter(NODES, "Descending", 90),))
    )
    by_cluster = index_rows(explanation)
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


def test_obsolete_binding_decides_ties() -> None:
    policy = build_pick_n(1)
    explanation = explain(
        build_bound("a"), MemberList(fleet("a", "b")), policy, build_snapshot(policy, 1)
    )
    assert explanation.last_pick == "a"
    margin = index_rows(explanation)["b"].margin
    assert margin is not None
    assert margin.deciding_part == "obsolete"


def test_bound_clusters_have_current_rejections() -> None:
    members = [member("a", taints=["x"]), member("b")]
    row = index_rows(explain_placement(members, build_pick_n(1), build_bound("a")))["a"]
    assert row.binding is not None
    assert [r.rule for r in row.rejections] == ["taint_toleration"]
    assert row.reported_reason.startswith("Successfully scheduled resources")


def test_hard_spread_constraints_reject_in_explanations() -> None:
    members = [
        member("a1", {"region": "a"}),
        member("a2", {"region": "a"}),
        member("b1", {"region": "b"}),
    ]
    row = index_rows(
        explain_placement(
            members,
            build_pick_n(2, spread_constraints=(TopologySpreadConstraint("region"),)),
            build_bound("a1"),
        )
    )["a2"]
    assert [r.rule for r in row.rejections] == ["topology_spread"]
    assert row.topology_spread_score is None
    assert row.affinity_score == 0


def test_pick_all_and_pick_fixed() -> None:
    members = [member("a", {"env": "prod"}), member("b")]
    every = index_rows(
        explain_placement(members, Policy(ALL, required_terms=(build_labels_term(env="prod"),)))
    )
    assert (every["a"].is_picked, every["b"].is_picked, every["a"].rank) == (True, False, None)
    named = index_rows(explain_placement(members, Policy(FIXED, cluster_names=("z", "b"))))
    assert list(named) == ["a", "b", "z"]
    assert named["a"].rejections[0].reason == "the policy does not name this cluster"
    assert named["b"].is_picked
    assert named["z"].reported_reason == 'Specified cluster "z" is not found'


def test_stopped_scheduler_is_explained() -> None:
    members = [member("a", nodes="3"), member("b", nodes="many")]
    explanation = explain_placement(
        members, build_pick_n(1, preferred_terms=(build_sorter(NODES, "Descending"),))
    )
    assert explanation.abort is not None
    assert "not a valid quantity" in explanation.abort.message


def test_drift_is_difference_to_a_fresh_schedule() -> None:
    members = [member("a", nodes="1"), member("b", nodes="9")]
    policy = build_pick_n(1, preferred_terms=(build_sorter(NODES, "Descending"),))
    difference = compute_policy_drift(
        build_bound("a"), MemberList(members), policy, build_snapshot(policy)
    )
    assert (difference.gained_clusters, difference.lost_clusters) == (("b",), ("a",))
    same = compute_policy_drift(
        build_bound("b"), MemberList(members), policy, build_snapshot(policy)
    )
    assert (same.gained_clusters, same.lost_clusters) == ((), ())


def test_unreadable_property_of_required_term_stops_the_scheduler() -> None:
    policy = Policy(ALL, required_terms=(build_property_term(NODES, "Ge", "1"),))
    explanation = explain_placement(
        [member("a", nodes="x", taints=["t"]), member("b", nodes="5")], policy
    )
    assert explanation.abort is not None
    assert explanation.abort.cluster == "a"
    rows = index_rows(explanation)
    assert [rows["a"].reported_reason, rows["b"].reported_reason] == [explanation.abort.message, ""]
    # Rules without an answer reject no cluster.
    assert [[rejection.rule for rejection in row.rejections] for row in rows.values()] == [
        ["taint_toleration"],
        [],
    ]


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
        build_label_selector(
            {}, [Requirement("shelf", "Exists"), Requirement("env", "NotIn", ("canary",))]
        )
    )
    by_cluster = index_rows(explain_placement(members, build_pick_n(1, required_terms=(prod,))))
    assert {name: row.details for name, row in by_cluster.items()} == {
        "a": ("label env is canary (required: prod)",),
        "b": (f"{NODES} is 4 (required: > 5)",),
        "c": (f"no property {NODES} (required: > 5)",),
        "d": ("no label env (required: prod)",),
        "e": (),
    }
    by_cluster = index_rows(
        explain_placement(members, build_pick_n(1, required_terms=(prod, shelf)))
    )
    assert by_cluster["a"].details == (
        "term 1: label env is canary (required: prod)",
        "term 2: no label shelf; label env is canary (required: not in canary)",
    )


def test_spread_rejection_lists_picks_by_domain() -> None:
    members = [
        member(name, {"zone": zone})
        for name, zone in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"))
    ]
    policy = build_pick_n(
        2, spread_constraints=(TopologySpreadConstraint("zone", 1, "DoNotSchedule"),)
    )
    by_cluster = index_rows(
        explain_placement(members, policy, schedule(members, build_pick_n(3)).bindings[:1])
    )
    refused = {name: row.details for name, row in by_cluster.items() if row.details}
    assert all(said[0].startswith("picks by zone: ") for said in refused.values())


def test_pick_fixed_keeps_its_bindings() -> None:
    members = fleet("a", "b")
    policy = Policy(FIXED, cluster_names=("a", "b"))
    by_cluster = index_rows(explain_placement(members, policy, build_bound("a")))
    assert {name: (row.is_bound, row.is_picked) for name, row in by_cluster.items()} == {
        "a": (True, False),
        "b": (False, True),
    }
