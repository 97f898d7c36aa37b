"""Tests of placement explanations: ranks, margins, shares, rejections, and scheduler stops."""

from __future__ import annotations

from nexusform.domains.fleet.rendering.placement_report import build_placement_report
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    ClusterSelectorTerm,
    Member,
    PlacementType,
    Policy,
    PreferredTerm,
    PropertySorter,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.placement_explanation import compute_policy_drift, explain
from nexusform.domains.fleet.scheduling.policy_snapshots import build_next_snapshot
from nexusform.domains.fleet.workflow.placement_reasons import PlacementReason
from nexusform.kubernetes.matching import Taint
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.rendering.json.report_document import build_report_document
from nexusform.rendering.report.report_tree import Report
from nexusform.resources.address import parse_address
from tests.answer_rows import read_rows

P = parse_address("fleet_cluster_resource_placement.p")
COST = "kubernetes.azure.com/per-cpu-core-cost"
SORTED = Policy(
    PlacementType.PICK_N,
    2,
    preferred_terms=(
        PreferredTerm(100, ClusterSelectorTerm(property_sorter=PropertySorter(COST, "Ascending"))),
    ),
)
PRICES = {"bravelion": "1", "smartfish": "0.2", "jumpingcat": "0.1"}
FLEET = MemberList(
    [Member(n, properties={COST: p}) for n, p in PRICES.items()]
    + [Member("dodo", taints=(Taint("x"),))]
)
HELD = (Binding("bravelion", BindingState.BOUND, 0, 0, 0),)


def build_report(cluster: str = "", fleet: MemberList = FLEET, policy: Policy = SORTED) -> Report:
    snapshot = build_next_snapshot(None, policy)
    explanation = explain((), fleet, policy, snapshot)
    return build_placement_report(
        PlacementReason(
            P, cluster, explanation, compute_policy_drift(HELD, fleet, policy, snapshot)
        )
    )


def test_all_clusters_with_rank_margin_and_rejections() -> None:
    table = build_report().sections[0].table
    assert table is not None
    cells = {row.cells[0]: row.cells for row in table.rows}
    assert cells["jumpingcat"][2:6] == ("1", "0", "100", "+11 affinity")
    assert cells["smartfish"][2:6] == ("2", "0", "89", "last picked")
    assert cells["bravelion"][2:6] == ("3", "0", "0", "-89 affinity")
    assert cells["dodo"][-1].startswith("taint_toleration: taint &{Key:x Value: Effect:NoSchedule}")


def test_share_has_two_decimals() -> None:
    lines = [line for s in build_report("smartfish").sections for line in s.lines]
    assert any("89 of 100" in line and "88.89 % of the weight" in line for line in lines)


def test_fresh_schedule_differences() -> None:
    facts = " ".join(build_report().facts)
    assert "Fresh scheduling would pick jumpingcat and smartfish and drop bravelion" in facts


def test_scheduler_stop_is_the_verdict() -> None:
    broken = build_report(
        fleet=MemberList([*FLEET.members, Member("odd", properties={COST: "cheap"})])
    )
    assert broken.is_finding
    assert broken.verdict.startswith(
        "the scheduler stops: failed to prepare plugin state: value cheap"
    )


def test_document_has_every_verdict() -> None:
    snapshot = build_next_snapshot(None, SORTED)
    explanation = explain((), FLEET, SORTED, snapshot)
    drift = compute_policy_drift((), FLEET, SORTED, snapshot)
    reason = PlacementReason(P, "", explanation, drift)
    document = build_report_document(build_placement_report(reason))
    clusters, *preferences = document["sections"]
    by_name = {row["cluster"]: row for row in read_rows(clusters)}
    assert by_name["dodo"]["verdict"].startswith("taint_toleration: ")
    assert by_name["smartfish"]["verdict"] == "picked"
    assert by_name["jumpingcat"]["margin"].endswith(" affinity")
    [smartfish] = [part for part in preferences if part["title"] == "Preferences of smartfish"]
    assert "88.89 %" in smartfish["lines"][0]


def test_bound_cluster_with_present_rejection() -> None:
    held = tuple(Binding(name, BindingState.BOUND, 0, 0, 0) for name in ("bravelion", "smartfish"))
    fleet = MemberList(
        [*FLEET.members[:1], Member("smartfish", taints=(Taint("x"),), properties={COST: "0.2"})]
    )
    snapshot = build_next_snapshot(None, SORTED)
    explanation = explain(held, fleet, SORTED, snapshot)
    place = Binding("smartfish", BindingState.BOUND, 0, 0, 0)
    row = PlacementChange(
        P, "binding", "smartfish", PlacementAction.KEEP, place, place, "taint_added", "r"
    )
    told = build_placement_report(
        PlacementReason(
            P,
            "smartfish",
            explanation,
            compute_policy_drift(held, fleet, SORTED, snapshot),
            rows={"smartfish": row},
            kept_reason="a fulfilled PickN is not re-evaluated",
        )
    )
    said = [line for section in told.sections for line in section.lines]
    assert not any("Successfully scheduled" in line for line in said)
    assert said[0] == "Already bound: existing bindings are not rescheduled."
    assert said[1].startswith("taint_toleration would reject a new pick: taint &{Key:x")
    (fact,) = [fact for fact in told.facts if fact.startswith("In this plan")]
    assert fact.startswith(
        "In this plan smartfish is kept (taint_added): a fulfilled PickN is not re-evaluated."
    )
    assert "A new pick would be rejected: taint &{Key:x" in fact
