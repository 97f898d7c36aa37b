"""Why one pod is where it is, as an answer: where, how certain, and what every node's rules say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.domains.fleet.workflow.reasons import PodReason
from nexusform.domains.pods.planning.rows import REASONS
from nexusform.domains.pods.scheduling.explanation import NodeVerdict
from nexusform.domains.pods.scheduling.workloads import PodState
from nexusform.json_forms import Form
from nexusform.rendering.answers.outline import Outline, Row, Section, Table

_WITHOUT: Final = {
    PodState.PENDING: "stays Pending",
    PodState.GATED: "is not looked at: SchedulingGated",
    PodState.FAILED: "is Failed: kubelet refuses it",
}


def pod_outline(reason: PodReason) -> Outline:
    """One pod on one cluster."""
    outcome = reason.outcome
    zone = f"zone {reason.zone}" if reason.zone else ""
    place = " / ".join(text for text in (outcome.node, reason.machine, zone) if text)
    sections = []
    if any(verdict.total is not None for verdict in reason.nodes):
        sections.append(_points(reason))
    if any(verdict.refusals for verdict in reason.nodes):
        sections.append(_refusals(reason.nodes))
    return Outline(
        f"{outcome.name} ({outcome.workload}) on {reason.cluster}",
        f"runs on {place}" if outcome.node else _WITHOUT[outcome.state],
        not outcome.node,
        tuple(_facts(reason)),
        tuple(sections),
    )


def _facts(reason: PodReason) -> Iterable[str]:
    """Why the pod is where it is, in sentences."""
    outcome = reason.outcome
    if outcome.trigger:
        because = REASONS.get(outcome.trigger, outcome.trigger)
        if outcome.preempted_by:
            because = f"{outcome.preempted_by}, of higher priority, takes its place"
        yield f"This plan decides it ({outcome.trigger}): {because}."
    elif outcome.pending:
        yield "It was Pending before and is still: the rules are asked again in every plan."
    else:
        yield "It stands and stays: rules are not asked again while a pod runs."
    if outcome.victims:
        victims = ", ".join(f"{pod.name} (priority {pod.spec.priority})" for pod in outcome.victims)
        yield f"No node was free, so it evicts {victims}: what follows are the nodes before that."
    if reason.today:
        yield "What follows is what the rules say of every node today."
    elif outcome.node and outcome.certain:
        yield "Certain: every run of the scheduler would choose this node."
    elif outcome.node:
        yield _by_lot(reason)
    if not outcome.node and outcome.reason:
        yield outcome.reason


def _by_lot(reason: PodReason) -> str:
    """What was drawn by lot on the way to this place, in a sentence."""
    if reason.outcome.spec is not None and reason.outcome.spec.unforeseen:
        return "One possible outcome: what else decides about it is not known here, as a warning says."
    feasible = sum(verdict.total is not None for verdict in reason.nodes)
    if reason.outcome.victims:
        return "One possible outcome: of nodes or victims that matter equally, some are drawn by lot."
    if feasible > 1:
        return f"One possible outcome: {feasible} nodes would do, and equal ones are drawn by lot."
    return "One possible outcome: the only node left, after lots were drawn for pods before it."


def _points(reason: PodReason) -> Section:
    """Points by rule of the nodes that would do."""
    fitting = [verdict for verdict in reason.nodes if verdict.total is not None]
    rules: dict[str, None] = {}
    for verdict in fitting:
        rules.update(dict.fromkeys(verdict.points))
    rows = tuple(_points_row(verdict, rules, chosen=reason.outcome.node) for verdict in fitting)
    figures = frozenset(range(1, len(rules) + 2))
    return Section("Nodes that would do, by points", table=Table(("node", *rules, "total"), rows, figures))


def _points_row(verdict: NodeVerdict, rules: Iterable[str], *, chosen: str) -> Row:
    name = f"{verdict.node} (chosen)" if verdict.node == chosen else verdict.node
    points = [str(verdict.points.get(rule, 0)) for rule in rules]
    return Row((name, *points, f"{verdict.total:,}"))


def _refusals(nodes: Sequence[NodeVerdict]) -> Section:
    """A row per node and rule that refuses the pod there."""
    rows: list[Row] = []
    for verdict in nodes:
        for refusal in verdict.refusals:
            hint = verdict.hints.get(refusal.rule)
            reason = f"{refusal.reason}: {hint}" if hint else refusal.reason
            rows.append(Row((verdict.node, refusal.rule, reason)))
    return Section("Nodes that are refused", table=Table(("node", "rule", "reason"), tuple(rows)))


def _node_document(verdict: NodeVerdict) -> dict[str, Any]:
    return {
        "node": verdict.node,
        "total": verdict.total,
        "points": dict(verdict.points),
        "refusals": [
            {"rule": refusal.rule, "reason": refusal.reason, "hint": verdict.hints.get(refusal.rule)}
            for refusal in verdict.refusals
        ],
    }


# Why a pod is where it is, as JSON data.
POD_ANSWER: Final = Form(
    PodReason,
    "address object=outcome.name kind=. workload=outcome.workload cluster node=outcome.node? machine? "
    "availability_zone=zone? trigger=outcome.trigger certain=. reason=outcome.reason today nodes",
    kind=lambda _: "pod",
    certain=lambda reason: None if reason.today else reason.outcome.certain,
    nodes=_node_document,
)
