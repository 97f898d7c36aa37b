"""Report of `simulate failure -node`, as text and as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.domains.whatif.questions.node_drain import NodeDrainEffects
from nexusform.domains.whatif.questions.pod_outage import WorkloadImpact
from nexusform.domains.whatif.rendering.workload_rows import (
    build_pending_lines,
    build_workload_document,
    build_workload_table,
)
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_HEADS: Final = ("pod", "workload", "new node")


def build_drain_report(drain: NodeDrainEffects, origin: str) -> Report:
    """Build the report: evicted pods with their new nodes, and the workloads."""
    moves = [(impact, move) for impact in drain.workloads for move in impact.moves]
    sections = []
    if moves:
        rows = tuple(
            Row((move.pod, impact.workload, (move.node or "none") + ("" if move.is_certain else " *")))
            for impact, move in moves
        )
        is_certain = all(move.is_certain for _, move in moves)
        note = () if is_certain else ("* One possible outcome: kube-scheduler picks randomly among equal nodes.",)
        sections.append(Section("Evicted pods", note, table=Table(_HEADS, rows)))
        table = build_workload_table(drain.workloads, is_drained=True)
        lines = (*build_pending_lines(drain.workloads), *_build_budget_lines(drain.workloads))
        is_finding = bool(drain.lost_workloads)
        sections.append(Section("Workloads during the drain", lines, table=table, is_finding=is_finding))
    return Report(
        f"Drain of {drain.node} of {drain.cluster_id} ({origin})",
        _build_summary(drain, sum(bool(move.node) for _, move in moves), len(moves)),
        bool(drain.lost_workloads or drain.blocking_budgets),
        (),
        tuple(sections),
    )


def _build_budget_lines(workloads: Iterable[WorkloadImpact]) -> list[str]:
    """Build a line per workload and budget with the reason why the drain waits."""
    return [
        f"{impact.workload}: PodDisruptionBudget {name}: {reason}"
        for impact in workloads
        for name, reason in zip(impact.blocking_budgets, impact.blocking_reasons, strict=True)
    ]


def _build_summary(drain: NodeDrainEffects, placed_count: int, count: int) -> str:
    if not count:
        return "No pod to evict runs there."
    clauses = [f"{format_count(count, 'pod')} to evict; {placed_count} of them get another node"]
    names = [impact.workload for impact in drain.lost_workloads]
    clauses.append(f"capacity drops for {format_list(names, 4)}" if names else "no workload loses capacity")
    if drain.blocking_budgets:
        clauses.append(f"the drain waits for {format_list(drain.blocking_budgets, 4)}")
    return "; ".join(clauses) + "."


def build_drain_document(drain: NodeDrainEffects) -> dict[str, Any]:
    """Build the data of a drain."""
    workloads = [build_workload_document(impact, is_drained=True) for impact in drain.workloads]
    return {
        "cluster_id": drain.cluster_id,
        "node": drain.node,
        "budgets": list(drain.blocking_budgets),
        "workloads": workloads,
    }
