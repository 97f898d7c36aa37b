"""Several plans in one summary: a row each, and the room of every site that they touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.plans.impact.effects import LEAVING, effect_clauses, effect_counts
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.ports import Registries
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.report import build_report
from nexusform.rendering.report.wording import plan_counts
from nexusform.words import counted, form, listed

_HEADS: Final = ("plan", "add", "change", "destroy", "place", "move", "remove", "warnings")


class _NamedPlan(Struct, frozen=True):
    """A plan with the name of its file, and what is to be seen in it at first sight."""

    path: str
    plan: Plan
    overview: Overview


def plans_outline(plans: Sequence[tuple[str, Plan]], registries: Registries) -> Outline:
    """The summary of plans, each with its file's name, in the order given."""
    named = [_NamedPlan(path, plan, _overview(plan, registries)) for path, plan in plans]
    table = Table(_HEADS, tuple(map(_row, named)), frozenset(range(1, len(_HEADS))))
    denied = [named_plan.path for named_plan in named if named_plan.overview.denied]
    remarks = [(named_plan.path, _remark(named_plan.overview)) for named_plan in named]
    facts = tuple(f"{path}: {remark}." for path, remark in remarks if remark)
    title = f"{counted(len(plans), 'plan')} together"
    sections = (Section("Plans", (), table=table), *_room(named))
    return Outline(title, _verdict(plans, denied), bool(denied), facts, sections)


def _overview(plan: Plan, registries: Registries) -> Overview:
    return build_overview(plan, build_report(plan, registries, Detail.CHANGED))


def _verdict(plans: Sequence[tuple[str, Plan]], denied: Sequence[str]) -> str:
    """One sentence on all the plans."""
    if denied:
        return f"{listed(denied)} cannot be applied."
    rows = chain.from_iterable(plan.placements for _, plan in plans)
    moves = effect_clauses(effect_counts(rows), LEAVING) or ["nothing moves"]
    changed = sum(plan.has_changes for _, plan in plans)
    if not changed:
        return "No changes in any of them."
    return f"{changed} of {len(plans)} {form(changed, 'has', 'have')} changes; {', '.join(moves)}."


def _remark(overview: Overview) -> str:
    """What holds a plan back, or is to be looked at in it."""
    if overview.denied:
        return f"denied by {overview.denied}"
    return "; ".join([*overview.reasons, *overview.risks])


def _count(plan: Plan, action: PlacementAction) -> int:
    return sum(row.action is action for row in plan.placements)


def _row(named_plan: _NamedPlan) -> Row:
    """What a plan does, in figures."""
    _, add, change, destroy, _ = plan_counts(named_plan.plan)
    actions = (PlacementAction.PLACE, PlacementAction.MOVE, PlacementAction.REMOVE)
    moves = [_count(named_plan.plan, action) for action in actions]
    figures = (add, change, destroy, *moves, named_plan.overview.warnings)
    return Row((named_plan.path, *(f"{figure:,}" for figure in figures)), bool(named_plan.overview.denied))


def _room(named: Iterable[_NamedPlan]) -> Iterable[Section]:
    """Before and after on every site, where plans say it."""
    rows: list[Row] = []
    for named_plan in named:
        for figure in named_plan.overview.room:
            for site, (before, after) in zip(named_plan.overview.sites, figure.values, strict=True):
                rows.append(Row((site, named_plan.path, figure.label, before, after)))
    if rows:
        heads = ("site", "plan", "room", "before", "after")
        yield Section("Room on the sites", (), table=Table(heads, tuple(rows), frozenset((3, 4))))
