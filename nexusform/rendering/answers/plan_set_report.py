"""Summary of several plans: a row each, and the capacity of every site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, format_list, select_form
from nexusform.interfaces.plugins import Registries
from nexusform.plans.impact.effects import LOSS_EFFECTS, count_effects, format_effect_clauses
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.plan_report import build_report
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.rendering.report.wording import count_changes

_HEADERS: Final = ("plan", "add", "change", "destroy", "place", "move", "remove", "warnings")


class _NamedPlan(Struct, frozen=True):
    """A plan with the name of its file and its overview."""

    path: str
    plan: Plan
    overview: Overview


def build_plan_set_report(plans: Sequence[tuple[str, Plan]], registries: Registries) -> Report:
    """Build the summary of plans with their file names, in the given order."""
    named_plans = [_NamedPlan(path, plan, _build_plan_overview(plan, registries)) for path, plan in plans]
    table = Table(_HEADERS, tuple(map(_build_row, named_plans)), frozenset(range(1, len(_HEADERS))))
    rejected_paths = [named_plan.path for named_plan in named_plans if named_plan.overview.rejection]
    notes = [(named_plan.path, _format_note(named_plan.overview)) for named_plan in named_plans]
    facts = tuple(f"{path}: {note}." for path, note in notes if note)
    title = f"{format_count(len(plans), 'plan')} together"
    sections = (Section("Plans", (), table=table), *_build_capacity_section(named_plans))
    return Report(title, _format_verdict(plans, rejected_paths), bool(rejected_paths), facts, sections)


def _build_plan_overview(plan: Plan, registries: Registries) -> Overview:
    return build_overview(plan, build_report(plan, registries, Detail.CHANGED))


def _format_verdict(plans: Sequence[tuple[str, Plan]], rejected_paths: Sequence[str]) -> str:
    """Return one sentence about all plans."""
    if rejected_paths:
        return f"{format_list(rejected_paths)} cannot be applied."
    rows = chain.from_iterable(plan.placements for _, plan in plans)
    moves = format_effect_clauses(count_effects(rows), LOSS_EFFECTS) or ["nothing moves"]
    changed_count = sum(plan.has_changes for _, plan in plans)
    if not changed_count:
        return "No plan has changes."
    return f"{changed_count} of {len(plans)} {select_form(changed_count, 'has', 'have')} changes; {', '.join(moves)}."


def _format_note(overview: Overview) -> str:
    """Return the reason why a plan is rejected, or its checks and risks."""
    if overview.rejection:
        return f"blocked by {overview.rejection}"
    return "; ".join([*overview.checks, *overview.risks])


def _build_row(named_plan: _NamedPlan) -> Row:
    """Build the figures of a plan."""
    _, add, change, destroy, _ = count_changes(named_plan.plan)
    actions = (PlacementAction.PLACE, PlacementAction.MOVE, PlacementAction.REMOVE)
    placed = Counter(row.action for row in named_plan.plan.placements)
    moves = [placed[action] for action in actions]
    figures = (add, change, destroy, *moves, named_plan.overview.warning_count)
    return Row((named_plan.path, *(f"{figure:,}" for figure in figures)), bool(named_plan.overview.rejection))


def _build_capacity_section(named_plans: Iterable[_NamedPlan]) -> Iterable[Section]:
    """Build the capacity before and after on every site with figures."""
    rows: list[Row] = []
    for named_plan in named_plans:
        for figure in named_plan.overview.capacity:
            for site, (before, after) in zip(named_plan.overview.sites, figure.values, strict=True):
                rows.append(Row((site, named_plan.path, figure.label, before, after)))
    if rows:
        headers = ("site", "plan", "room", "before", "after")
        yield Section("Spare capacity of the sites", (), table=Table(headers, tuple(rows), frozenset((3, 4))))
