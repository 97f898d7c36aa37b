"""What a reviewer must know in a minute, in words: verdict, moves, certainty, room, age.

The Markdown report and the page start with the same overview.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.plan import Action, PlacementAction, Plan
from nexusform.rendering.report.report import Report
from nexusform.rendering.report.room import RoomRow, room_rows, sites_with_room
from nexusform.rendering.report.wording import plan_counts
from nexusform.words import counted

SeparationRule = Mapping[str, Any]


class ResourceCount(Struct, frozen=True):
    """How many objects of a type the plan adds, changes, destroys (replaced ones count as both)."""

    type: str
    add: int
    change: int
    destroy: int


class TriggerCount(Struct, frozen=True):
    """How many placements of a kind do what, for one reason."""

    kind: str
    action: PlacementAction
    trigger: str
    count: int


class Overview(Struct, frozen=True):
    """The first lines.

    `denied` is "" when the plan may be applied, else by which rules it may not; `reasons` are what
    it was held against, `risks` the summaries of its `warnings` warnings. `certainty` and
    `inventory` are "" when unknown.
    """

    headline: str
    denied: str
    reasons: tuple[str, ...]
    placements: str
    certainty: str
    sites: tuple[str, ...]
    room: tuple[RoomRow, ...]
    inventory: str
    warnings: int
    risks: tuple[str, ...]
    resources: tuple[ResourceCount, ...]
    triggers: tuple[TriggerCount, ...]


def overview(plan: Plan, report: Report, rules: Sequence[SeparationRule] = ()) -> Overview:
    """The overview of a plan; `rules` are its separation rules as JSON shows them."""
    return Overview(
        headline=headline_text(plan, report),
        denied=_denied(plan, rules),
        reasons=_reasons(plan, rules),
        placements=_placements(report),
        certainty=_certainty(report),
        sites=sites_with_room(plan.room),
        room=room_rows(plan.room),
        inventory=inventory_text(plan),
        warnings=sum(d.severity is Severity.WARNING for d in plan.diagnostics),
        risks=_risks(plan.diagnostics),
        resources=_resources(plan),
        triggers=_triggers(plan),
    )


# --- verdict -----------------------------------------------------------------------------------


def headline_text(plan: Plan, report: Report) -> str:
    """`1 to add, nothing moves`."""
    if report.errored:
        return "planning failed"
    if not report.has_changes:
        return "no changes"
    words = ("to import", "to add", "to change", "to destroy", "to forget")
    parts = [f"{n:,} {word}" for n, word in zip(plan_counts(plan), words, strict=True) if n]
    moves = f"{counted(report.moves, 'placement')} {'moves' if report.moves == 1 else 'move'}"
    return ", ".join([*(parts or ["outputs only"]), moves if report.moves else "nothing moves"])


_MOST: Final = 3


def _denied(plan: Plan, rules: Iterable[SeparationRule]) -> str:
    if not plan.errored:
        return ""
    broken = [str(rule["address"]) for rule in rules if _breaks(rule)]
    errors = [d for d in plan.diagnostics if d.severity is Severity.ERROR and d.address not in broken]
    said = dict.fromkeys([*(f"separation rule {a}" for a in broken), *(_title(d) for d in errors)])
    listed = "; ".join(list(said)[:_MOST])
    more = f" and {len(said) - _MOST} more" if len(said) > _MOST else ""
    return f"{listed}{more}" or "an error"


# A pull request's title has no room for the figures in these summaries, or names the rule.
_NAMED_BY_ID: Final = frozenset({"does-not-fit", "sensitive-value-decides", "separation"})


def _title(found: Diagnostic) -> str:
    return found.id if found.id in _NAMED_BY_ID else found.summary


def _breaks(rule: SeparationRule) -> bool:
    return rule.get("enforcement") == "deny" and rule.get("holds") != "always"


_HOLDS: Final = {
    "always": "holds in every outcome",
    "sometimes": "does not hold in every outcome",
    "never": "does not hold",
}


def violation_text(given: Any) -> str:
    """One violation of a separation rule: `machine rack1-bm01: a-0, b-1; joined by b-1 (new)`."""
    if not isinstance(given, Mapping):
        return str(given)
    place = next((f"{k} {given[k]}" for k in ("machine", "rack", "site") if given.get(k)), "")
    members = ", ".join(str(member) for member in given.get("members") or ())
    why = f" ({given['trigger']})" if given.get("trigger") else ""
    joined = f"; joined by {given['joined_by']}{why}" if given.get("joined_by") else ""
    return f"{place}: {members}{joined}"


def _reasons(plan: Plan, rules: Iterable[SeparationRule]) -> tuple[str, ...]:
    found = [
        f"separation {rule['address']} {_HOLDS.get(str(rule['holds']), rule['holds'])}"
        f"{'' if rule['holds'] == 'always' else ', warned only'}"
        for rule in rules
    ]
    statuses = Counter(check.status for check in plan.checks)
    words = (("pass", "passes", "pass"), ("fail", "fails", "fail"), ("error", "is in error", "are in error"))
    for status, one, many in (*words, ("unknown", "is not known yet", "are not known yet")):
        if statuses[status]:
            found.append(f"{counted(statuses[status], 'check')} {one if statuses[status] == 1 else many}")
    return tuple(found)


def _placements(report: Report) -> str:
    total = report.summaries[0]
    if not total.anything:
        return ""
    return f"{total.place:,} placed, {total.move:,} moved, {total.remove:,} removed, {total.keep:,} kept"


def _certainty(report: Report) -> str:
    if not report.placed:
        return ""
    if not report.tie_breaks:
        return "certainty not computed"
    return (
        f"racks certain for {report.racks_certain:,} of {report.placed:,}, machines for "
        f"{report.machines_certain:,} (over {report.tie_breaks} tie-breaks)"
    )


# --- age and risks -----------------------------------------------------------------------------


def inventory_text(plan: Plan) -> str:
    """`8 h old`, of the oldest inventory; "" when the plan read none."""
    if not plan.inventories:
        return ""
    ages = [_age(read.exported_at, plan.timestamp) for read in plan.inventories]
    known = [age for age in ages if age is not None]
    several = f" (the oldest of {len(ages)})" if len(ages) > 1 else ""
    if len(known) < len(ages):
        return f"of unknown age{several}"
    return f"{age_text(max(known))} old{several}"


def _age(taken_at: str, now: str) -> float | None:
    try:
        seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(taken_at)).total_seconds()
    except (ValueError, TypeError):
        return None
    return max(seconds, 0.0)


def age_text(seconds: float) -> str:
    """`25 min`, `8 h`, `3 days`."""
    if seconds < 2 * 3600:
        return f"{int(seconds // 60)} min"
    return f"{int(seconds // 3600)} h" if seconds < 48 * 3600 else f"{int(seconds // 86400)} days"


def _risks(diagnostics: Iterable[Diagnostic]) -> tuple[str, ...]:
    counts = Counter(d.summary for d in diagnostics if d.severity is Severity.WARNING)
    return tuple(f"{summary}{f' ({n} times)' if n > 1 else ''}" for summary, n in counts.items())


# --- counts ------------------------------------------------------------------------------------

_ADDS: Final = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_DESTROYS: Final = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def _resources(plan: Plan) -> tuple[ResourceCount, ...]:
    counts: dict[str, Counter[str]] = {}
    for change in plan.changes:
        count = counts.setdefault(change.address.type, Counter())
        count["add"] += change.action in _ADDS
        count["change"] += change.action is Action.UPDATE
        count["destroy"] += change.action in _DESTROYS
    return tuple(
        ResourceCount(kind, count["add"], count["change"], count["destroy"])
        for kind, count in sorted(counts.items())
        if any(count.values())
    )


def _triggers(plan: Plan) -> tuple[TriggerCount, ...]:
    counts = Counter((row.kind, row.action, row.trigger) for row in plan.placements if row.trigger)
    order = {action: n for n, action in enumerate(PlacementAction)}
    kinds = {"vm": 0, "binding": 1, "pod": 2}
    ranked = sorted(
        counts.items(), key=lambda item: (kinds.get(item[0][0], 3), order[item[0][1]], item[0][2])
    )
    return tuple(TriggerCount(*key, count) for key, count in ranked)
