"""Several plans in one summary: a row each, and the room of every site that they touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.planning.plan import PlacementAction, Plan
from nexusform.ports import Registries
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.report.overview import Overview, build_overview
from nexusform.rendering.report.placement_rows import Detail
from nexusform.rendering.report.report import build_report
from nexusform.rendering.report.wording import plan_counts
from nexusform.words import counted, form, listed

_HEADS: Final = ("plan", "add", "change", "destroy", "place", "move", "remove", "warnings")


def plans_outline(plans: Sequence[tuple[str, Plan]], registries: Registries) -> Outline:
    """The summary of plans, each with its file's name, in the order given."""
    overviews = [_overview(plan, registries) for _, plan in plans]
    rows = [_row(path, plan, view) for (path, plan), view in zip(plans, overviews, strict=True)]
    sections = [Section("Plans", (), table=Table(_HEADS, tuple(rows), frozenset(range(1, len(_HEADS)))))]
    sections += _room(plans, overviews)
    denied = [path for (path, _), view in zip(plans, overviews, strict=True) if view.denied]
    facts = tuple(
        f"{path}: {_told(view)}." for (path, _), view in zip(plans, overviews, strict=True) if _told(view)
    )
    title = f"{counted(len(plans), 'plan')} together"
    return Outline(title, _verdict(plans, denied), bool(denied), facts, tuple(sections))


def _overview(plan: Plan, registries: Registries) -> Overview:
    return build_overview(plan, build_report(plan, registries, Detail.CHANGED))


def _verdict(plans: Sequence[tuple[str, Plan]], denied: Sequence[str]) -> str:
    """One sentence on all the plans."""
    if denied:
        return f"{listed(denied)} cannot be applied."
    moved = sum(_count(plan, PlacementAction.MOVE) for _, plan in plans)
    changed = sum(plan.has_changes for _, plan in plans)
    if not changed:
        return "No changes in any of them."
    moves = f"{counted(moved, 'placement')} {form(moved, 'moves', 'move')}" if moved else "nothing moves"
    return f"{changed} of {len(plans)} {form(changed, 'has', 'have')} changes; {moves}."


def _told(view: Overview) -> str:
    """What holds a plan back, or is to be looked at in it."""
    if view.denied:
        return f"denied by {view.denied}"
    return "; ".join([*view.reasons, *view.risks])


def _count(plan: Plan, action: PlacementAction) -> int:
    return sum(row.action is action for row in plan.placements)


def _row(path: str, plan: Plan, view: Overview) -> Row:
    _, add, change, destroy, _ = plan_counts(plan)
    actions = (PlacementAction.PLACE, PlacementAction.MOVE, PlacementAction.REMOVE)
    figures = (add, change, destroy, *(_count(plan, action) for action in actions), view.warnings)
    return Row((path, *(f"{figure:,}" for figure in figures)), bool(view.denied))


def _room(plans: Sequence[tuple[str, Plan]], overviews: Sequence[Overview]) -> Iterable[Section]:
    """Before and after on every site, where plans say it."""
    rows: list[Row] = []
    for (path, _), view in zip(plans, overviews, strict=True):
        for figure in view.room:
            for site, (before, after) in zip(view.sites, figure.values, strict=True):
                rows.append(Row((site, path, figure.label, before, after)))
    if rows:
        heads = ("site", "plan", "room", "before", "after")
        yield Section("Room on the sites", (), table=Table(heads, tuple(rows), frozenset((3, 4))))
