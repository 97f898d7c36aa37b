"""Lines about a plan as a whole: machines out of service, and the feasibility of each placement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_first, format_list
from nexusform.plans.plan import Feasibility, FeasibilityResult, Plan
from nexusform.rendering.report.out_of_service import describe_out_of_service

_MAX_CLUSTERS: Final = 3
_MAX_REASON: Final = 160


def describe_conditions(plan: Plan) -> tuple[str, ...]:
    """Return a line per site with machines out of service, per machine action, and per placement with pods."""
    return (*describe_out_of_service(plan), *_describe_actions(plan), *describe_feasibility(plan))


def _describe_actions(plan: Plan) -> Iterator[str]:
    if plan.machine_actions:
        from nexusform.rendering.report.machine_action_lines import describe_machine_actions

        yield from describe_machine_actions(plan)


def describe_feasibility(plan: Plan) -> Iterator[str]:
    """Yield a line per placement: `payments: runs on 3 of 4; west needs 2 more nodes in pool workers (...)`.
    Placements running everywhere share a line.
    """
    placements = [(address, list(rows)) for address, rows in groupby(plan.feasibility, key=lambda row: row.placement)]
    complete = [(address, rows) for address, rows in placements if all(map(_is_running, rows))]
    if len(complete) < 2:
        complete = []
    else:
        names = format_list(address.name for address, _ in complete)
        yield f"{names}: run on all {sum(len(rows) for _, rows in complete):,} selected clusters"
    done = {address for address, _ in complete}
    for address, rows in placements:
        if address not in done:
            yield f"{address.name}: {_describe_placement(rows)}"


def _is_running(row: Feasibility) -> bool:
    return row.result is FeasibilityResult.RUNS


def _describe_placement(rows: Sequence[Feasibility]) -> str:
    running = sum(map(_is_running, rows))
    clauses = [f"runs on {running:,} of {len(rows):,}"]
    for result, describe in _DESCRIPTIONS.items():
        matching = [row for row in rows if row.result is result]
        if matching:
            clauses.append(format_first([describe(row) for row in matching], _MAX_CLUSTERS, "; "))
    return "; ".join(clauses)


def _describe_missing_nodes(row: Feasibility) -> str:
    pool = f" in pool {row.pool}" if row.pool else ""
    nodes = format_count(row.missing_nodes or 0, "more node")
    return f"{row.cluster} needs {nodes}{pool} (site capacity: {row.site_capacity})"


def _describe_rejection(row: Feasibility) -> str:
    reason = row.reason if len(row.reason) <= _MAX_REASON else f"{row.reason[:_MAX_REASON]}..."
    return f"{row.cluster} cannot run it ({reason.rstrip('.')})"


_DESCRIPTIONS: Final[Mapping[FeasibilityResult, Callable[[Feasibility], str]]] = {
    FeasibilityResult.RUNS_AFTER: _describe_missing_nodes,
    FeasibilityResult.CANNOT_RUN: _describe_rejection,
    FeasibilityResult.UNKNOWN: lambda row: f"{row.cluster} is unknown ({row.reason})",
}
