"""Lines about a plan as a whole: machines out of service, and the feasibility of each placement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import shorten
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_first_items, format_list
from nexusform.plans.plan import Feasibility, FeasibilityResult, Plan
from nexusform.rendering.report.out_of_service_lines import describe_out_of_service

_MAX_CLUSTERS: Final = 3
_MAX_REASON: Final = 160


def describe_plan_conditions(plan: Plan) -> tuple[str, ...]:
    """Return a line per site with machines out of service, per machine action, and per placement with pods."""
    return (*describe_out_of_service(plan), *_describe_machine_actions(plan), *describe_feasibility(plan))


def _describe_machine_actions(plan: Plan) -> Iterator[str]:
    if plan.machine_actions:
        from nexusform.rendering.report.machine_action_lines import describe_machine_actions

        yield from describe_machine_actions(plan)


def describe_feasibility(plan: Plan) -> Iterator[str]:
    """Yield a line per placement: `payments: runs on 3 of 4; west needs 2 more nodes in pool workers (...)`.
    Placements running everywhere share a line. Lines about lost machines, lost racks and rejected clusters follow
    where they were computed.
    """
    selected = [row for row in plan.feasibility if row.is_selected]
    placements = [(address, list(rows)) for address, rows in groupby(selected, key=lambda row: row.placement)]
    complete = [(address, rows) for address, rows in placements if all(map(_is_binding_running, rows))]
    if len(complete) < 2:
        complete = []
    else:
        names = format_list(address.name for address, _ in complete)
        yield f"{names}: run on all {sum(len(rows) for _, rows in complete):,} selected clusters"
    done = {address for address, _ in complete}
    for address, rows in placements:
        if address not in done:
            yield f"{address.name}: {_describe_placement_feasibility(rows)}"
    yield from describe_suggested_fixes(selected)
    if plan.untested_bindings:
        bindings = format_count(plan.untested_bindings, "binding")
        yield f"Fixes not tested for {bindings} with waiting pods: the plan is large (-details tests up to 12)"
    for address, rows in placements:
        yield from _describe_loss_effects(address.name, rows)
    candidates = [row for row in plan.feasibility if not row.is_selected]
    for address, candidate_rows in groupby(candidates, key=lambda row: row.placement):
        yield f"{address.name}, clusters not selected: {'; '.join(map(describe_candidate, candidate_rows))}"


def describe_suggested_fixes(rows: Iterable[Feasibility]) -> Iterator[str]:
    """Yield a line per suggested fix, with the bindings that run after it."""
    bindings: dict[str, list[Feasibility]] = {}
    for row in rows:
        for fix in row.suggested_fixes:
            bindings.setdefault(fix["text"], []).append(row)
    for text, solved in bindings.items():
        names = format_first_items([f"{row.placement.name} on {row.cluster}" for row in solved], _MAX_CLUSTERS)
        yield f"Suggested fix (tested) for {names}: {text}"


def _describe_loss_effects(name: str, rows: Sequence[Feasibility]) -> Iterator[str]:
    """Yield a line on the loss of one machine, and one on the loss of one rack."""
    for lost, effects in (
        ("machine", [(row.cluster, row.one_machine_down) for row in rows]),
        ("rack", [(row.cluster, row.one_rack_down) for row in rows]),
    ):
        known = [(cluster, effect) for cluster, effect in effects if effect is not None]
        if not known:
            continue
        waiting = [
            f"{format_count(effect.waiting_pods, 'pod')} of {cluster} {'has' if effect.waiting_pods == 1 else 'have'} "
            f"no node without {effect.lost}"
            for cluster, effect in known
            if effect.waiting_pods
        ]
        text = format_first_items(waiting, _MAX_CLUSTERS, "; ") if waiting else "all pods have a node"
        yield f"{name}, one {lost} down: {text}"


def describe_candidate(row: Feasibility) -> str:
    """Describe the feasibility on an unselected cluster: `west would run it`."""
    describe = _DESCRIPTIONS.get(row.result)
    return describe(row) if describe is not None else f"{row.cluster} would run it"


def _is_binding_running(row: Feasibility) -> bool:
    return row.result is FeasibilityResult.RUNS


def _describe_placement_feasibility(rows: Sequence[Feasibility]) -> str:
    running = sum(map(_is_binding_running, rows))
    clauses = [f"runs on {running:,} of {len(rows):,}"]
    for result, describe in _DESCRIPTIONS.items():
        matching = [row for row in rows if row.result is result]
        if matching:
            clauses.append(format_first_items([describe(row) for row in matching], _MAX_CLUSTERS, "; "))
    return "; ".join(clauses)


def _describe_missing_nodes(row: Feasibility) -> str:
    nodes = [
        format_count(count, "more node") + (f" in pool {pool}" if pool else "")
        for pool, count in row.missing_pools.items()
    ]
    return f"{row.cluster} needs {format_list(nodes)} (site capacity: {row.site_capacity})"


def _describe_infeasible_cluster(row: Feasibility) -> str:
    return f"{row.cluster} cannot run it ({_format_truncated_reason(row)})"


def _format_truncated_reason(row: Feasibility) -> str:
    return shorten(row.reason.rstrip("."), _MAX_REASON, placeholder=" ...", break_on_hyphens=False)


_DESCRIPTIONS: Final[Mapping[FeasibilityResult, Callable[[Feasibility], str]]] = {
    FeasibilityResult.RUNS_AFTER: _describe_missing_nodes,
    FeasibilityResult.CANNOT_RUN: _describe_infeasible_cluster,
    FeasibilityResult.UNKNOWN: lambda row: f"{row.cluster} is unknown ({_format_truncated_reason(row)})",
}
