"""Workloads that lose pods, as sections of an outline and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nexusform.rendering.answers.outline import Row, Section, Table, spans
from nexusform.whatif.pods_down import (
    PodMove,
    PodsOutcome,
    WorkloadLeft,
    WorkloadVerdict,
    outcome_of,
)
from nexusform.words import listed


def workload_table(lefts: Iterable[WorkloadLeft], *, drained: bool) -> Table:
    """A row per workload: pods that ran, that run at once and meanwhile, that stay Pending."""
    rows = tuple(_row(left, drained=drained) for left in lefts)
    heads = ("cluster", "workload", "ran", "at once", "then", "Pending", "")
    return Table(heads, rows, frozenset({2, 3, 4, 5}))


def _row(left: WorkloadLeft, *, drained: bool) -> Row:
    outcome = outcome_of(left, drained=drained)
    figures = (left.before, left.at_once, left.running, left.pending)
    cells = (_name(left.cluster_id), left.workload, *map(str, figures), outcome.value)
    return Row(cells, outcome is PodsOutcome.LOST)


def _name(cluster_id: str) -> str:
    return cluster_id.rpartition("/")[2]


def pending_lines(lefts: Iterable[WorkloadLeft]) -> list[str]:
    """Why pods stay Pending, a line per workload and reason; with its cluster where there are several."""
    lines = []
    known = list(lefts)
    several = len({left.cluster_id for left in known}) > 1
    for left in known:
        workload = f"{_name(left.cluster_id)}: {left.workload}" if several else left.workload
        reasons: dict[str, list[str]] = {}
        for move in left.moves:
            if not move.node:
                reasons.setdefault(move.reason, []).append(move.pod)
        lines += [f"{workload}: {listed(pods, 4)}: {reason}" for reason, pods in reasons.items()]
    return lines


def verdict_section(verdicts: Sequence[WorkloadVerdict], front: str) -> Section:
    """Every workload over all waves."""
    rows = tuple(
        Row(
            (
                _name(verdict.cluster_id),
                verdict.workload,
                str(verdict.wanted),
                str(verdict.fewest_at_once),
                str(verdict.fewest),
                str(verdict.most_pending),
                spans(verdict.waves) or "-",
                verdict.outcome.value if verdict.certain else f"{verdict.outcome.value} *",
            ),
            verdict.outcome is PodsOutcome.LOST,
        )
        for verdict in verdicts
    )
    heads = ("cluster", "workload", "pods", "at once", "then", "Pending", "waves", "verdict")
    lines = [_FIGURES]
    if not all(verdict.certain for verdict in verdicts):
        lines.append("* the scheduler draws lots between equal nodes: this is one outcome among several.")
    lines += [
        f"{listed(v.held_up_by)} cannot be honoured for {v.workload}: its drains take the full time, and "
        "then the pods lose power all the same."
        for v in verdicts
        if v.held_up_by
    ]
    bad = any(row.bad for row in rows)
    table = Table(heads, rows, frozenset({2, 3, 4, 5}))
    return Section(f"{front}Verdict by workload", tuple(lines), table=table, bad=bad)


_FIGURES = (
    "The fewest in any wave. At once: pods that run the moment the nodes go; then: after replacements. "
    "Pending pods run again when their nodes are back."
)


# --- data --------------------------------------------------------------------------------------


def workload_document(left: WorkloadLeft, *, drained: bool) -> dict[str, Any]:
    """One workload while nodes are down."""
    return {
        "cluster_id": left.cluster_id,
        "workload": left.workload,
        "replicas": left.wanted,
        "before": left.before,
        "at_once": left.at_once,
        "running": left.running,
        "pending": left.pending,
        "outcome": outcome_of(left, drained=drained).value,
        "budgets": list(left.held_up_by),
        "pods": [_move(move) for move in left.moves],
    }


def _move(move: PodMove) -> dict[str, Any]:
    return {
        "pod": move.pod,
        "from": move.was,
        "to": move.node or None,
        "reason": move.reason or None,
        "certain": move.certain,
    }


def verdict_document(verdict: WorkloadVerdict) -> dict[str, Any]:
    """One workload over all waves."""
    return {
        "cluster_id": verdict.cluster_id,
        "workload": verdict.workload,
        "replicas": verdict.wanted,
        "fewest_at_once": verdict.fewest_at_once,
        "fewest_running": verdict.fewest,
        "most_pending": verdict.most_pending,
        "waves": list(verdict.waves),
        "verdict": verdict.outcome.value,
        "certain": verdict.certain,
        "budgets": list(verdict.held_up_by),
    }
