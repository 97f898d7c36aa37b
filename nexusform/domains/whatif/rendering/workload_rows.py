"""Workloads that lose pods, as sections of an outline and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.domains.whatif.questions.pods_down import PodMove, PodsOutcome, WorkloadLeft, WorkloadVerdict
from nexusform.json_forms import Form
from nexusform.rendering.answers.outline import Row, Section, Table, spans_text
from nexusform.words import listed


def workload_table(lefts: Iterable[WorkloadLeft], *, drained: bool) -> Table:
    """A row per workload: pods that ran, that run at once and meanwhile, that stay Pending."""
    rows = tuple(_row(workload_left, drained=drained) for workload_left in lefts)
    heads = ("cluster", "workload", "ran", "at once", "then", "Pending", "")
    return Table(heads, rows, frozenset({2, 3, 4, 5}))


def _row(workload_left: WorkloadLeft, *, drained: bool) -> Row:
    """How many pods of a workload ran, and how many run meanwhile."""
    outcome = workload_left.outcome(drained=drained)
    figures = (workload_left.before, workload_left.at_once, workload_left.running, workload_left.pending)
    cells = (_name(workload_left.cluster_id), workload_left.workload, *map(str, figures), outcome.value)
    return Row(cells, outcome is PodsOutcome.LOST)


def _name(cluster_id: str) -> str:
    """The name of a cluster, of its id `site/name`."""
    return cluster_id.rpartition("/")[2]


def pending_lines(lefts: Sequence[WorkloadLeft]) -> list[str]:
    """Why pods stay Pending, a line per workload and reason; with its cluster where there are several."""
    lines: list[str] = []
    several = len({workload_left.cluster_id for workload_left in lefts}) > 1
    for workload_left in lefts:
        workload = (
            f"{_name(workload_left.cluster_id)}: {workload_left.workload}"
            if several
            else workload_left.workload
        )
        pods_by_reason: dict[str, list[str]] = {}
        for move in workload_left.moves:
            if not move.node:
                pods_by_reason.setdefault(move.reason, []).append(move.pod)
        lines += [f"{workload}: {listed(pods, 4)}: {reason}" for reason, pods in pods_by_reason.items()]
    return lines


def verdict_section(verdicts: Sequence[WorkloadVerdict], front: str) -> Section:
    """Every workload over all waves."""
    rows = tuple(_verdict_row(verdict) for verdict in verdicts)
    heads = ("cluster", "workload", "pods", "at once", "then", "Pending", "waves", "verdict")
    table = Table(heads, rows, frozenset({2, 3, 4, 5}))
    lines = [_FIGURES]
    if not all(verdict.certain for verdict in verdicts):
        lines.append("* the scheduler draws lots between equal nodes: this is one outcome among several.")
    lines += [_budget_line(verdict) for verdict in verdicts if verdict.held_up_by]
    bad = any(row.bad for row in rows)
    return Section(f"{front}Verdict by workload", tuple(lines), table=table, bad=bad)


def _verdict_row(verdict: WorkloadVerdict) -> Row:
    pods = (verdict.replicas, verdict.fewest_at_once, verdict.fewest, verdict.most_pending)
    word = verdict.outcome.value if verdict.certain else f"{verdict.outcome.value} *"
    cells = (_name(verdict.cluster_id), verdict.workload, *map(str, pods))
    return Row((*cells, spans_text(verdict.waves) or "-", word), verdict.outcome is PodsOutcome.LOST)


def _budget_line(verdict: WorkloadVerdict) -> str:
    return (
        f"{listed(verdict.held_up_by)} cannot be honoured for {verdict.workload}: its drains take the full "
        "time, and then the pods lose power all the same."
    )


_FIGURES = (
    "The fewest in any wave. At once: pods that run the moment the nodes go; then: after replacements. "
    "Pending pods run again when their nodes are back."
)


# --- data --------------------------------------------------------------------------------------


_MOVE: Final = Form(PodMove, "pod from=was to=node? reason? certain")
_WORKLOAD: Final = Form(WorkloadLeft, "cluster_id workload replicas before at_once running pending")
_LOST: Final = Form(WorkloadLeft, "budgets=held_up_by pods=moves", pods=_MOVE)
VERDICT: Final = Form(
    WorkloadVerdict,
    "cluster_id workload replicas fewest_at_once fewest_running=fewest most_pending waves verdict=outcome "
    "certain budgets=held_up_by",
)


def workload_document(workload_left: WorkloadLeft, *, drained: bool) -> dict[str, Any]:
    """One workload while nodes are down."""
    outcome = {"outcome": workload_left.outcome(drained=drained).value}
    return {**_WORKLOAD(workload_left), **outcome, **_LOST(workload_left)}
