"""The fleet on the page: placements by clusters with scores and refusals, and pods by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.planning.plan import PlacementAction, PlacementChange, Plan
from nexusform.rendering.notation.markup import Markup, Part, element
from nexusform.rendering.notation.places import place_text
from nexusform.rendering.page.page_parts import section, table
from nexusform.scheduling.fleet.model import Binding

_SIGNS: Final = {
    PlacementAction.PLACE: "+",
    PlacementAction.MOVE: "~",
    PlacementAction.REMOVE: "\N{MINUS SIGN}",
    PlacementAction.UPDATE: "~",
    PlacementAction.KEEP: "",
}
_MOST_ROWS: Final = 2000
_WIDEST_GRID: Final = 40
_MEMBER: Final = "fleet_member_cluster"


def fleet_part(plan: Plan) -> Part:
    """The section of bindings and pods; nothing when the plan has none."""
    bindings = [row for row in plan.placements if row.kind == "binding"]
    pods = [row for row in plan.placements if row.kind == "pod"]
    if not bindings and not pods:
        return None
    parts = [_grid(bindings, _members(plan)), _refusals(bindings)] if bindings else []
    return section("fleet", "Fleet", parts, _pods(pods))


def _members(plan: Plan) -> set[str]:
    """The members that the fleet has after the plan, whether a placement wants them or not."""
    names = (
        change.after.get("name")
        for change in plan.changes
        if change.address.type == _MEMBER and change.after is not None and not change.sensitive_after
    )
    return {name for name in names if isinstance(name, str)}


def _cluster(row: PlacementChange) -> str:
    place = row.target or row.source
    return place.cluster if isinstance(place, Binding) else row.object


def _grid(rows: Sequence[PlacementChange], members: set[str]) -> Part:
    refused = {(str(row.address), r.candidate): r.rule for row in rows for r in row.rejected}
    clusters = sorted({_cluster(row) for row in rows} | {candidate for _, candidate in refused})
    if len(clusters) > _WIDEST_GRID:
        return _listed(rows)
    if len(members.union(clusters)) <= _WIDEST_GRID:
        clusters = sorted(members.union(clusters))
    placements = dict.fromkeys(str(row.address) for row in rows)
    cells = {(str(row.address), _cluster(row)): row for row in rows}
    shown = [
        [a, *(_cell(cells[a, c]) if (a, c) in cells else _empty(refused.get((a, c))) for c in clusters)]
        for a in list(placements)[:_MOST_ROWS]
    ]
    return [_cut(len(placements)), table("Placements by cluster", ("Placement", *clusters), shown)]


def _listed(rows: Sequence[PlacementChange]) -> Part:
    """Too many clusters for a grid: a line per binding."""
    shown = [[str(row.address), _cluster(row), _cell(row)] for row in rows[:_MOST_ROWS]]
    return [_cut(len(rows)), table("Placements by cluster", ("Placement", "Cluster", "Binding"), shown)]


def _cut(count: int) -> Part:
    return element("p", f"The first {_MOST_ROWS:,} of {count:,} are listed.") if count > _MOST_ROWS else None


def _empty(rule: str | None) -> Markup:
    return element("span", f"refused: {rule}" if rule else "\N{EN DASH}", class_="quiet")


def _cell(row: PlacementChange) -> Part:
    place = row.target or row.source
    state = str(place.state) if isinstance(place, Binding) else row.action.value
    scores = ", ".join(f"{name} {value}" for name, value in row.scores.items())
    why = ": ".join(text for text in (row.trigger, row.reason if row.reason != row.trigger else "") if text)
    return [
        element("span", f"{_SIGNS[row.action]} {state}".strip(), class_=f"mark-{row.action.value}"),
        element("div", why, class_="quiet small") if why else None,
        element("div", scores, class_="quiet small") if scores else None,
    ]


def _refusals(rows: Sequence[PlacementChange]) -> Part:
    listed = dict.fromkeys(
        (str(row.address), refused.candidate, refused.rule, refused.reason)
        for row in rows
        for refused in row.rejected
    )
    if not listed:
        hint = "Why a cluster was not picked: plan with -placements=all, or ask nexusform explain."
        return element("p", hint, class_="quiet")
    heads = ("Placement", "Cluster", "Rule", "Why")
    return [_cut(len(listed)), table("Clusters that were refused", heads, list(listed)[:_MOST_ROWS])]


def _pods(rows: Sequence[PlacementChange]) -> Part:
    if not rows:
        return None
    shown = [
        (
            row.object,
            row.pool,
            f"{_SIGNS[row.action]} {row.action.value}".strip(),
            place_text(row.source) if row.source else "",
            place_text(row.target) if row.target else "",
            row.trigger,
        )
        for row in rows[:_MOST_ROWS]
    ]
    heads = ("Pod", "Workload", "Action", "From", "To", "Trigger")
    return [_cut(len(rows)), table("Pods", heads, shown, firm=True)]
