"""Workloads with lost pods, as report sections and as data."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import format_list
from nexusform.domains.whatif.questions.pod_outage import PodMove, WorkloadImpact, WorkloadOutcome, WorkloadVerdict
from nexusform.json_data.record_forms import RecordForm
from nexusform.rendering.answers.explanation_text import format_spans
from nexusform.rendering.report.report_tree import Row, Section, Table


def build_workload_table(impacts: Iterable[WorkloadImpact], *, is_drained: bool) -> Table:
    """Build a row per workload: pods before, at once, meanwhile, and pending."""
    rows = []
    for impact in impacts:
        outcome = impact.determine_outcome(is_drained=is_drained)
        figures = (impact.before, impact.at_once, impact.running, impact.pending)
        cells = (_extract_name(impact.cluster_id), impact.workload, *map(str, figures), outcome.value)
        rows.append(Row(cells, outcome is WorkloadOutcome.LOST))
    heads = ("cluster", "workload", "ran", "at once", "then", "Pending", "")
    return Table(heads, tuple(rows), frozenset({2, 3, 4, 5}))


def _extract_name(cluster_id: str) -> str:
    """Return the name in a cluster id `site/name`."""
    return cluster_id.rpartition("/")[2]


def build_pending_lines(impacts: Sequence[WorkloadImpact]) -> list[str]:
    """Build a line per workload and reason of pending pods, with the cluster if there are several."""
    lines: list[str] = []
    has_several_clusters = len({impact.cluster_id for impact in impacts}) > 1
    for impact in impacts:
        workload = f"{_extract_name(impact.cluster_id)}: {impact.workload}" if has_several_clusters else impact.workload
        pods_by_reason: dict[str, list[str]] = {}
        for move in impact.moves:
            if not move.node:
                pods_by_reason.setdefault(move.reason, []).append(move.pod)
        lines += [f"{workload}: {format_list(pods, 4)}: {reason}" for reason, pods in pods_by_reason.items()]
    return lines


def build_verdict_section(verdicts: Sequence[WorkloadVerdict], prefix: str) -> Section:
    """Build the section of workloads, with the result of each over all waves."""
    rows = []
    for verdict in verdicts:
        pods = (verdict.replicas, verdict.minimum_at_once, verdict.minimum_running, verdict.maximum_pending)
        outcome_text = verdict.outcome.value if verdict.is_certain else f"{verdict.outcome.value} *"
        cells = (_extract_name(verdict.cluster_id), verdict.workload, *map(str, pods))
        is_lost = verdict.outcome is WorkloadOutcome.LOST
        rows.append(Row((*cells, format_spans(verdict.waves) or "-", outcome_text), is_lost))
    heads = ("cluster", "workload", "pods", "at once", "then", "Pending", "waves", "verdict")
    table = Table(heads, tuple(rows), frozenset({2, 3, 4, 5}))
    lines = [_COLUMN_NOTE]
    if not all(verdict.is_certain for verdict in verdicts):
        lines.append("* kube-scheduler picks randomly among equal nodes: this is one possible outcome.")
    lines += [
        f"{format_list(verdict.blocking_budgets)} cannot be respected for {verdict.workload}: drains time out, then "
        "the pods lose power."
        for verdict in verdicts
        if verdict.blocking_budgets
    ]
    return Section(f"{prefix}Verdict by workload", tuple(lines), table=table, is_finding=table.has_findings)


_COLUMN_NOTE = (
    "Minimum over all waves. At once: pods running when the nodes go down; then: after replacements. "
    "Pending pods restart when their nodes return."
)


_MOVE: Final = RecordForm(PodMove, "pod from=old_node to=node? reason? certain=is_certain")
_WORKLOAD: Final = RecordForm(WorkloadImpact, "cluster_id workload replicas before at_once running pending")
_LOST: Final = RecordForm(WorkloadImpact, "budgets=blocking_budgets pods=moves", pods=_MOVE)
VERDICT: Final = RecordForm(
    WorkloadVerdict,
    "cluster_id workload replicas fewest_at_once=minimum_at_once fewest_running=minimum_running "
    "most_pending=maximum_pending waves verdict=outcome "
    "certain=is_certain budgets=blocking_budgets",
)


def build_workload_document(impact: WorkloadImpact, *, is_drained: bool) -> dict[str, Any]:
    """Build the data of one workload while nodes are down."""
    outcome = {"outcome": impact.determine_outcome(is_drained=is_drained).value}
    return {**_WORKLOAD(impact), **outcome, **_LOST(impact)}
