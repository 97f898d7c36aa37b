"""Answer about one pod's node: location, certainty and every node's verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.fleet.workflow.placement_reasons import PodPlacementReason
from nexusform.domains.pods.planning.pod_rows import REASONS
from nexusform.domains.pods.scheduling.cluster_records import PodState
from nexusform.domains.pods.scheduling.pod_explanation import NodeVerdict
from nexusform.json_data.record_forms import RecordForm
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_MOST_NAMES: Final = 3
_UNSCHEDULED_TEXTS: Final = {
    PodState.PENDING: "stays Pending",
    PodState.GATED: "is not scheduled: SchedulingGated",
    PodState.FAILED: "is Failed: kubelet rejects it",
}


def build_pod_report(reason: PodPlacementReason) -> Report:
    """Build the report of one pod on one cluster."""
    outcome = reason.outcome
    zone = f"zone {reason.zone}" if reason.zone else ""
    location = " / ".join(text for text in (outcome.node, reason.machine, zone) if text)
    sections = []
    if any(verdict.total is not None for verdict in reason.nodes):
        sections.append(_build_node_scores_section(reason))
    if any(verdict.rejections for verdict in reason.nodes):
        sections.append(_build_rejections_section(reason.nodes))
    return Report(
        f"{outcome.name} ({outcome.workload}) on {reason.cluster}",
        f"runs on {location}" if outcome.node else _UNSCHEDULED_TEXTS[outcome.state],
        not outcome.node,
        tuple(_describe_node_choice(reason)),
        tuple(sections),
    )


def _describe_node_choice(reason: PodPlacementReason) -> Iterable[str]:
    """Yield sentences about the reason for the pod's node."""
    outcome = reason.outcome
    if outcome.trigger:
        cause = REASONS.get(outcome.trigger, outcome.trigger)
        if outcome.preempted_by:
            cause = f"{outcome.preempted_by} has a higher priority and preempts it"
        yield f"Decided in this plan ({outcome.trigger}): {cause}."
    elif outcome.is_pending:
        yield "It was Pending and still is: every plan evaluates the rules again."
    else:
        yield "It runs and stays: the rules are not evaluated again for a running pod."
    if outcome.victims:
        victims = ", ".join(f"{pod.name} (priority {pod.spec.priority})" for pod in outcome.victims)
        yield f"No node was free, so it evicts {victims}. The nodes below are those before the eviction."
    if reason.is_current:
        yield "Verdicts of the rules on every node at present:"
    elif outcome.node and outcome.is_certain:
        yield _describe_certainty(outcome.workload)
    elif outcome.alternative:
        yield f"Not certain: {outcome.node or 'no node'}, or {outcome.alternative} ({outcome.doubt})."
    elif outcome.node:
        yield _describe_uncertainty(reason)
    if not outcome.node and outcome.reason:
        yield outcome.reason


def _describe_certainty(workload: str) -> str:
    """Return a sentence about a certain node; pods of one template are interchangeable."""
    if {"StatefulSet", "DaemonSet", "Pod"}.isdisjoint(workload.split("/")[:2]):
        return "Certain: every run of the scheduler puts the same number of these pods on this node."
    return "Certain: every run of the scheduler picks this node."


def _describe_uncertainty(reason: PodPlacementReason) -> str:
    """Return a sentence about random choices that lead to this node."""
    if reason.outcome.spec is not None and reason.outcome.spec.has_unknown_rules:
        return "One possible outcome: this plan does not know all of its scheduling rules (see the warning)."
    feasible_count = sum(verdict.total is not None for verdict in reason.nodes)
    if reason.outcome.victims:
        return "One possible outcome: the scheduler picks at random among equal nodes or victims."
    if feasible_count > 1:
        return (
            f"One possible outcome: {feasible_count} nodes are feasible, and the scheduler picks at "
            "random among equal ones."
        )
    return "One possible outcome: the only node left after random choices for earlier pods."


def _build_node_scores_section(reason: PodPlacementReason) -> Section:
    """Build the section with the points of feasible nodes by rule."""
    feasible = [verdict for verdict in reason.nodes if verdict.total is not None]
    rules: dict[str, None] = {}
    for verdict in feasible:
        rules.update(dict.fromkeys(verdict.points))
    groups: dict[tuple[str, ...], list[str]] = {}
    for verdict in feasible:
        mark = "chosen" if verdict.node == reason.outcome.node else ""
        points = [str(verdict.points.get(rule, 0)) for rule in rules]
        groups.setdefault((mark, *points, f"{verdict.total:,}"), []).append(verdict.node)
    rows = [
        Row((f"{names[0]} (chosen)" if mark else _format_node_names(names), *figures))
        for (mark, *figures), names in groups.items()
    ]
    figures = frozenset(range(1, len(rules) + 2))
    return Section("Feasible nodes by points", table=Table(("node", *rules, "total"), tuple(rows), figures))


def _build_rejections_section(nodes: Sequence[NodeVerdict]) -> Section:
    """Build the section with a row per node and rejecting rule."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for verdict in nodes:
        reasons = []
        for rejection in verdict.rejections:
            hint = verdict.hints.get(rejection.rule)
            reasons.append((rejection.rule, f"{rejection.reason}: {hint}" if hint else rejection.reason))
        groups.setdefault(tuple(reasons), []).append(verdict.node)
    rows = [Row((_format_node_names(names), *reason)) for reasons, names in groups.items() for reason in reasons]
    return Section("Rejected nodes", table=Table(("node", "rule", "reason"), tuple(rows)))


def _format_node_names(names: Sequence[str]) -> str:
    """Return the names of equal nodes, few of them in full."""
    return format_first_items(names, _MOST_NAMES)


def _build_node_document(verdict: NodeVerdict) -> dict[str, Any]:
    return {
        "node": verdict.node,
        "total": verdict.total,
        "points": dict(verdict.points),
        "rejections": [
            {"rule": rejection.rule, "reason": rejection.reason, "hint": verdict.hints.get(rejection.rule)}
            for rejection in verdict.rejections
        ],
    }


# The answer about a pod's node, as JSON data.
POD_FORM: Final = RecordForm(
    PodPlacementReason,
    "address object=outcome.name kind=. workload=outcome.workload cluster node=outcome.node? machine? "
    "availability_zone=zone? trigger=outcome.trigger certain=. reason=outcome.reason today=is_current nodes",
    kind=lambda _: "pod",
    certain=lambda reason: None if reason.is_current else reason.outcome.is_certain,
    nodes=_build_node_document,
)
