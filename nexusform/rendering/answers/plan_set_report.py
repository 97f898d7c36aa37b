"""Summary of several plans: a row each, and the capacity of every site."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.diagnostics.summaries import get_summary
from nexusform.plans.impact.object_effects import (
    LOSS_EFFECTS,
    Effect,
    count_effects,
    format_effect_clauses,
)
from nexusform.plans.maintenance import describe_stopped_vms
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.json.json_placements import build_decision_document
from nexusform.rendering.report.capacity_table import build_capacity_table
from nexusform.rendering.report.decision_lines import describe_effects
from nexusform.rendering.report.finding_entries import FindingEntries, build_finding_entries
from nexusform.rendering.report.plan_sentences import count_resource_changes
from nexusform.rendering.report.plan_verdict import build_notes, describe_rejection
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_CHECKS: Final = ("NUMA cells", "Separation", "Conditions")
_HEADERS: Final = ("plan", "add", "change", "destroy", "place", "move", "remove", "warnings")


class _NamedPlan(Struct, frozen=True):
    """A plan with the name of its file and its warnings."""

    path: str
    plan: Plan
    entries: FindingEntries


def build_plan_set_report(plans: Sequence[tuple[str, Plan]]) -> Report:
    """Build the summary of plans with their file names, in the given order."""
    named_plans = [_NamedPlan(path, plan, build_finding_entries(plan)) for path, plan in plans]
    # All columns but the first.
    number_columns = frozenset(range(1, len(_HEADERS)))
    table = Table(_HEADERS, tuple(map(_build_plan_row, named_plans)), number_columns)
    rejected_paths = [named_plan.path for named_plan in named_plans if named_plan.plan.is_rejected]
    facts: list[str] = []
    for named_plan in named_plans:
        if named_plan.plan.is_rejected:
            note = f"blocked by {describe_rejection(named_plan.plan)}"
        else:
            # The results of its checks, such as separation rules, and a summary per kind of warning
            # that it caused.
            checks = [
                text.rstrip(".")
                for heading, text in build_notes(named_plan.plan)
                if heading in _CHECKS
            ]
            warnings = (
                entry for entry in named_plan.entries.caused if entry.level is Level.WARNING
            )
            note = "; ".join([*checks, *dict.fromkeys(get_summary(entry.id) for entry in warnings)])
        if note:
            facts.append(f"{named_plan.path}: {note}.")
    title = f"{format_count(len(plans), 'plan')} together"
    sections = (Section("Plans", table=table), *_build_capacity_section(named_plans))
    verdict = _format_verdict(plans, rejected_paths)
    return Report(
        title, verdict, is_finding=bool(rejected_paths), facts=tuple(facts), sections=sections
    )


def build_plan_set_document(plans: Sequence[tuple[str, Plan]]) -> dict[str, Any]:
    """Build the decisions of plans as JSON data."""
    documents = [
        {"plan": path, "rejected": plan.is_rejected, "decision": build_decision_document(plan)}
        for path, plan in plans
    ]
    return {"format_version": "1.0", "plans": documents}


def _format_verdict(plans: Sequence[tuple[str, Plan]], rejected_paths: Sequence[str]) -> str:
    """Return a sentence about all plans.

    It is `2 of 3 have changes; ..., nothing moves.`, or names the rejected plans.
    """
    if rejected_paths:
        return f"{format_list(rejected_paths)} cannot be applied."
    changed_count = sum(plan.has_changes for _, plan in plans)
    if not changed_count:
        return "No plan has changes."
    counts = count_effects(chain.from_iterable(plan.placements for _, plan in plans))
    stopped = describe_stopped_vms(
        chain.from_iterable(plan.impact.machine_actions for _, plan in plans)
    )
    disruptions = [*format_effect_clauses(counts, LOSS_EFFECTS), *stopped]
    clauses = [*describe_effects(counts, [Effect.PLACED]), *(disruptions or ["nothing moves"])]
    verb = select_word_form(changed_count, "has", "have")
    return f"{changed_count} of {len(plans)} {verb} changes; {', '.join(clauses)}."


def _build_plan_row(named_plan: _NamedPlan) -> Row:
    """Build the row of a plan: its file, and its numbers of changes and warnings.

    The numbers count changed objects, placements by action, and warnings.
    """
    # Without imports and forgotten objects.
    _, add, change, destroy, _ = count_resource_changes(named_plan.plan)
    actions = (PlacementAction.PLACE, PlacementAction.MOVE, PlacementAction.REMOVE)
    placement_counts = Counter(row.action for row in named_plan.plan.placements)
    # By the plan.
    warning_count = sum(entry.level is Level.WARNING for entry in named_plan.entries.caused)
    figures = (
        add,
        change,
        destroy,
        *(placement_counts[action] for action in actions),
        warning_count,
    )
    cells = (named_plan.path, *(f"{figure:,}" for figure in figures))
    return Row(cells, is_finding=named_plan.plan.is_rejected)


def _build_capacity_section(named_plans: Iterable[_NamedPlan]) -> Iterable[Section]:
    """Yield a section with the capacity before and after each plan.

    Yield nothing if no plan has such figures.
    """
    rows: list[Row] = []
    for named_plan in named_plans:
        table, _note = build_capacity_table(
            named_plan.plan.site_records.capacity, named_plan.plan.site_records.other_capacity
        )
        rows += [Row((named_plan.path, *row.cells)) for row in table.rows]
    if rows:
        headers = ("plan", "capacity", "before", "after")
        table = Table(headers, tuple(rows), number_columns=frozenset({2, 3}))  # before, after
        yield Section("Spare capacity of the sites", table=table)
