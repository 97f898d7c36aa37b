"""Why a pod is where it is, as an answer: where, how certain, and what every node's rules say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexusform.planning.pods.phase import REASONS
from nexusform.planning.pods.reasons import PodReason
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.scheduling.pods.explanation import NodeVerdict


def pod_outline(reason: PodReason) -> Outline:
    """One pod on one cluster."""
    outcome = reason.outcome
    where = " / ".join(p for p in (outcome.node, reason.machine, reason.zone and f"zone {reason.zone}") if p)
    verdict = f"runs on {where}" if outcome.node else "stays Pending"
    sections = [_points(reason), _refusals(reason.nodes)]
    return Outline(
        f"{outcome.name} ({outcome.workload}) on {reason.cluster}",
        verdict,
        not outcome.node,
        tuple(_facts(reason)),
        tuple(s for s in sections if s is not None),
    )


def _facts(reason: PodReason) -> list[str]:
    outcome = reason.outcome
    facts = []
    if outcome.trigger:
        because = REASONS.get(outcome.trigger, outcome.trigger)
        facts.append(f"This plan decides it ({outcome.trigger}): {because}.")
    else:
        facts.append(
            "It was Pending before and is still: the rules are asked again in every plan."
            if outcome.pending
            else "It stands and stays: rules are not asked again while a pod runs."
        )
    if reason.today:
        facts.append("What follows is what the rules say of every node today.")
    elif outcome.node and outcome.certain:
        facts.append("Certain: every run of the scheduler would choose this node.")
    elif outcome.node:
        facts.append(_by_lot(reason))
    if outcome.pending and outcome.reason:
        facts.append(outcome.reason)
    return facts


def _by_lot(reason: PodReason) -> str:
    feasible = sum(v.total is not None for v in reason.nodes)
    if feasible > 1:
        return f"One possible outcome: {feasible} nodes would do, and equal ones are drawn by lot."
    return "One possible outcome: the only node left, after lots were drawn for pods before it."


def _points(reason: PodReason) -> Section | None:
    fitting = [v for v in reason.nodes if v.total is not None]
    if not fitting:
        return None
    rules = list(dict.fromkeys(rule for v in fitting for rule in v.points))
    rows = tuple(
        Row((_named(v, reason), *(str(v.points.get(rule, 0)) for rule in rules), str(v.total)))
        for v in fitting
    )
    figures = frozenset(range(1, len(rules) + 2))
    return Section("Nodes that would do, by points", table=Table(("node", *rules, "total"), rows, figures))


def _named(verdict: NodeVerdict, reason: PodReason) -> str:
    return f"{verdict.node} (chosen)" if verdict.node == reason.outcome.node else verdict.node


def _refusals(nodes: Sequence[NodeVerdict]) -> Section | None:
    refused = [v for v in nodes if v.refusals]
    if not refused:
        return None
    rows = tuple(Row((v.node, r.rule, r.reason)) for v in refused for r in v.refusals)
    return Section("Nodes that are refused", table=Table(("node", "rule", "reason"), rows))


def pod_document(reason: PodReason) -> dict[str, Any]:
    """The same as data."""
    outcome = reason.outcome
    return {
        "address": reason.address,
        "object": outcome.name,
        "kind": "pod",
        "workload": outcome.workload,
        "cluster": reason.cluster,
        "node": outcome.node or None,
        "machine": reason.machine or None,
        "availability_zone": reason.zone or None,
        "trigger": outcome.trigger,
        "certain": None if reason.today else outcome.certain,
        "reason": outcome.reason,
        "today": reason.today,
        "nodes": [
            {
                "node": verdict.node,
                "total": verdict.total,
                "points": dict(verdict.points),
                "refusals": [{"rule": r.rule, "reason": r.reason} for r in verdict.refusals],
            }
            for verdict in reason.nodes
        ],
    }
