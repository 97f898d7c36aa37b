"""What a reviewer must know in a minute, in words: verdict, moves, certainty, age, and the room that is
free on every site before a plan and after it.

The Markdown report and the page start with the same overview.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.placement_kinds.kinds import kind_order
from nexusform.plans.impact.effects import (
    DISMISSED,
    LEAVING,
    Effect,
    EffectCount,
    beside_upgrades,
    effect_clauses,
    effect_counts,
    number_of,
)
from nexusform.plans.impact.guard_rails import GUARD_RAIL, broken_limits
from nexusform.plans.plan import (
    Action,
    Mode,
    PlacementAction,
    Plan,
    SeparationVerdict,
    SeparationViolation,
)
from nexusform.rendering.report.entries import Entries, Finding, plan_entries, plan_findings, whole_thoughts
from nexusform.rendering.report.plain_words import sure_of
from nexusform.rendering.report.report import Report
from nexusform.rendering.report.room_table import RoomRow, other_rows, room_rows, sites_with_room
from nexusform.rendering.report.stakes import endangered, ending_rules, lost_clauses
from nexusform.rendering.report.upgrade_words import upgrade_clauses
from nexusform.rendering.report.wording import plan_counts
from nexusform.weights import Level, Stake
from nexusform.words import counted, first_of, form, listed

_MOST_NAMES: Final = 3


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

    `denied` is "" when the plan may be applied, else by which rules it may not; `breaches` say how far it
    goes beyond its guard rails; `reasons` are what it was held against, `risks` the summaries of its
    `warnings` warnings, `findings` how many there are of each weight. `stake` is what is at stake,
    `endangered` whose quorum or last replica is, `ending_rules` the separation rules that end or only warn
    from now on; `warned` is the first thing that the plan makes fail. `certainty` and
    `inventory` are "" when unknown; `inventory_is_old` says that it should be read anew.
    """

    headline: str
    denied: str
    breaches: tuple[str, ...]
    reasons: tuple[str, ...]
    placements: str
    certainty: str
    sites: tuple[str, ...]
    room: tuple[RoomRow, ...]
    inventory: str
    inventory_is_old: bool
    stake: Stake
    endangered: tuple[str, ...]
    ending_rules: tuple[str, ...]
    warned: str
    warnings: int
    findings: tuple[str, ...]
    risks: tuple[str, ...]
    resources: tuple[ResourceCount, ...]
    triggers: tuple[TriggerCount, ...]


def build_overview(plan: Plan, report: Report) -> Overview:
    """The overview of a plan."""
    findings, entries = plan_findings(plan), plan_entries(plan)
    return Overview(
        headline=headline_text(plan, report),
        denied=denied_by(plan),
        breaches=tuple(diagnostic.detail for diagnostic in plan.diagnostics if diagnostic.id == GUARD_RAIL),
        reasons=_reasons(plan),
        placements=_placements(report),
        certainty=sure_of(plan),
        sites=sites_with_room(plan.room),
        room=(*room_rows(plan.room), *other_rows(plan.room, plan.room_other)),
        inventory=inventory_text(plan),
        inventory_is_old=inventory_is_old(plan),
        stake=stake_of(plan, report.summaries[0].effects),
        endangered=tuple(endangered(plan)),
        ending_rules=tuple(ending_rules(plan)),
        warned=_warned(entries),
        warnings=sum(finding.level is Level.WARNING and not finding.held_before for finding in findings),
        findings=tuple(finding_counts(findings)),
        risks=_risks(findings),
        resources=_resources(plan),
        triggers=_triggers(plan),
    )


# --- verdict -----------------------------------------------------------------------------------


def headline_text(plan: Plan, report: Report) -> str:
    """`1 to add, nothing moves`; where something leaves its place, that alone and what is destroyed:
    `3 VMs are re-created on other machines`.
    """
    if report.errored:
        return _failure(plan)
    if not report.has_changes:
        return "no changes"
    counts = report.summaries[0].effects
    waiting = effect_clauses(counts, [Effect.WAITING])
    leaving = effect_clauses(counts, LEAVING)
    if plan.upgrades:
        beside = effect_counts(beside_upgrades(plan))
        leaving = [*upgrade_clauses(plan.upgrades), *effect_clauses(beside, LEAVING)]
    leaving += lost_clauses(plan)
    verbs = ("to import", "to add", "to change", "to destroy", "to forget")
    objects = [f"{count:,} {verb}" for count, verb in zip(plan_counts(plan), verbs, strict=True) if count]
    if leaving:
        objects = [f"{plan.to_destroy:,} to destroy"] if plan.to_destroy else []
        clauses = [*leaving, *waiting, *objects]
    else:
        clauses = [*(objects or _without_objects(plan)), "nothing moves", *waiting]
    return ", ".join(["denied" if plan.denied else "", *clauses]).removeprefix(", ")


def destroyed_clause(plan: Plan) -> str:
    """`2 objects are destroyed or replaced`; where it is one of both, only that."""
    count, deleted = plan.to_destroy, plan.count(Action.DELETE)
    both = {0: "replaced", count: "destroyed"}
    return (
        f"{counted(count, 'object')} {form(count, 'is', 'are')} {both.get(deleted, 'destroyed or replaced')}"
    )


def _without_objects(plan: Plan) -> list[str]:
    """What a plan does that asks nothing of any platform."""
    if plan.mode is Mode.REFRESH_ONLY:
        outside = len(plan.drift)
        return [f"{counted(outside, 'object')} changed outside of nexusform"] if outside else ["refresh only"]
    renamed = sum(change.previous_address is not None for change in plan.changes)
    if renamed:
        return [f"{renamed:,} to rename"]
    return ["outputs only"]


_MOST: Final = 3


def denied_by(plan: Plan) -> str:
    """The rules, errors and guard rails that keep a plan from being applied, in this order; "" when nothing
    does.
    """
    if not plan.denied:
        return ""
    reasons = _broken_rules(plan)
    errors = list(_own_errors(plan))
    if errors:
        several = "an error" if len(errors) == 1 else f"{len(errors):,} errors"
        titles = list(dict.fromkeys(map(_title, errors)))
        reasons.append(f"{several}: {first_of(titles, _MOST, '; ')}")
    limits = broken_limits(plan)
    if limits:
        reasons.append(f"{form(len(limits), 'guard rail')} {listed(limits)}")
    return "; ".join(reasons) or "an error"


def _failure(plan: Plan) -> str:
    """`planning failed: cluster-b/pool1 does not fit, and 2 more errors`."""
    reasons = [f"{rule} does not hold" for rule in _broken_rules(plan)]
    reasons += map(_title, _own_errors(plan))
    others = len(reasons) - 1
    more = f", and {counted(others, 'more error')}" if others > 0 else ""
    return f"planning failed: {reasons[0]}{more}" if reasons else "planning failed"


def _broken_rules(plan: Plan) -> list[str]:
    return [f"separation rule {verdict.address}" for verdict in plan.separation_rules if _denies(verdict)]


def _own_errors(plan: Plan) -> Iterator[Diagnostic]:
    """The errors of a plan without those that say of a separation rule or a guard rail that it is broken."""
    broken = {str(verdict.address) for verdict in plan.separation_rules if _denies(verdict)}
    for diagnostic in plan.diagnostics:
        is_error = diagnostic.severity is Severity.ERROR and diagnostic.id != GUARD_RAIL
        if is_error and diagnostic.address not in broken:
            yield diagnostic


def _title(diagnostic: Diagnostic) -> str:
    """An error in as few words as a title has room for."""
    text = diagnostic.brief or diagnostic.summary
    # It goes on a sentence, unless it begins with an abbreviation.
    return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"


def _denies(verdict: SeparationVerdict) -> bool:
    return verdict.enforcement == "deny" and verdict.holds != "always"


_HOLDS: Final = {
    "always": "holds in every outcome",
    "sometimes": "does not hold in every outcome",
    "never": "does not hold",
}


def violation_text(violation: SeparationViolation) -> str:
    """One violation of a separation rule: `machine rack1-bm01: a-0, b-1; joined by b-1 (new)`."""
    places = (("machine", violation.machine), ("rack", violation.rack), ("site", violation.site_id))
    place = next((f"{kind} {name}" for kind, name in places if name), "")
    why = f" ({violation.trigger})" if violation.trigger else ""
    joined = f"; joined by {violation.joined_by}{why}" if violation.joined_by else ""
    return f"{place}: {', '.join(violation.members)}{joined}"


def _reasons(plan: Plan) -> tuple[str, ...]:
    """What the plan was held against: draws of cells that nobody told, separation rules and conditions."""
    reasons = list(_draws_reason(plan))
    reasons += [_separation_reason(verdict) for verdict in plan.separation_rules]
    counts = condition_counts(plan)
    if any(check.status != "pass" for check in plan.checks):
        reasons += [f"{counted(count, 'condition')} {verb}" for count, verb in counts]
    return tuple(reasons)


def _draws_reason(plan: Plan) -> Iterator[str]:
    draws = plan.draws
    if draws is not None and not plan.errored and draws.fitting < draws.runs:
        fitting = f"{draws.fitting:,} of {draws.runs:,}"
        yield f"everything fits in {fitting} draws of unknown NUMA cells, not in all"


def condition_counts(plan: Plan) -> list[tuple[int, str]]:
    """How many conditions do what, as far as the plan predicts: (2, "hold"), (1, "fails")."""
    statuses = Counter(check.status for check in plan.checks)
    counts = [(statuses[status], verbs) for status, verbs in _CONDITION_VERBS.items()]
    return [(count, form(count, *verbs)) for count, verbs in counts if count]


_CONDITION_VERBS: Final = {
    "pass": ("holds", "hold"),
    "fail": ("fails", "fail"),
    "error": ("cannot be evaluated", "cannot be evaluated"),
    "unknown": ("is not known yet", "are not known yet"),
}


def _separation_reason(verdict: SeparationVerdict) -> str:
    warned = "" if verdict.holds == "always" else ", warned only"
    return f"separation {verdict.address} {_HOLDS.get(verdict.holds, verdict.holds)}{warned}"


def _placements(report: Report) -> str:
    outcomes = report.summaries[0].outcomes
    return ", ".join(f"{count:,} {words}" for count, words in outcomes)


# --- age and risks -----------------------------------------------------------------------------


def inventory_text(plan: Plan) -> str:
    """`8 h old`, of the oldest inventory; "" when the plan read none."""
    if not plan.inventories:
        return ""
    ages = _ages(plan)
    known = [age for age in ages if age is not None]
    several = f" (the oldest of {len(ages):,})" if len(ages) > 1 else ""
    if len(known) < len(ages):
        return f"of unknown age{several}"
    return f"{age_text(max(known))} old{several}"


def inventory_is_old(plan: Plan) -> bool:
    """Whether an inventory was old when the plan was made."""
    return any(read.is_old for read in plan.inventories)


def _ages(plan: Plan) -> list[float | None]:
    return [_age(read.exported_at, plan.timestamp) for read in plan.inventories]


def _age(taken_at: str, now: str) -> float | None:
    """Seconds between two times; None where one of them is no time."""
    try:
        seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(taken_at)).total_seconds()
    except (ValueError, TypeError):
        return None
    return max(seconds, 0.0)


def age_text(seconds: float) -> str:
    """`25 min`, `8 h`, `3 days`."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 2:
        return f"{minutes} min"
    return f"{hours} h" if hours < 48 else f"{days} days"


def _risks(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The summaries of what fails."""
    warnings = (finding for finding in findings if finding.level is Level.WARNING and not finding.held_before)
    counts = Counter(finding.diagnostic.summary for finding in warnings)
    return tuple(f"{text} ({count:,} times)" if count > 1 else text for text, count in counts.items())


def finding_counts(findings: Sequence[Finding]) -> list[str]:
    """`2 errors`, `1 warning`, `1 piece of advice`, `3 not caused by this plan`."""
    standing = sum(finding.held_before for finding in findings)
    levels = Counter(finding.level for finding in findings if not finding.held_before)
    nouns = {
        Level.ERROR: ("error", "errors"),
        Level.WARNING: ("warning", "warnings"),
        Level.ADVICE: ("piece of advice", "pieces of advice"),
        Level.NOTE: ("note", "notes"),
    }
    texts = [counted(levels[level], *noun) for level, noun in nouns.items() if levels[level]]
    return [*texts, f"{standing:,} not caused by this plan"] if standing else texts


_LONGEST: Final = 120  # characters


def _warned(entries: Entries) -> str:
    """The first of what the plan makes fail, in a clause, and how much more there is; "" for nothing."""
    failing = [entry for entry in entries.caused if entry.level is Level.WARNING]
    if not failing:
        return ""
    first_entry = failing[0]
    who = first_of(first_entry.subjects, _MOST_NAMES)
    thoughts = [text.rstrip(".") for text in whole_thoughts(first_entry.text)]
    thought = next((text for text in thoughts if len(text) <= _LONGEST), thoughts[-1])
    if len(thought) > _LONGEST:
        thought = f"{thought[:_LONGEST].rpartition(' ')[0]} ..."
    text = ": ".join(words for words in (who, thought) if words)
    further = len(failing) - 1
    return f"{text} ({first_entry.id})" + (f", and {counted(further, 'more warning')}" if further else "")


def stake_of(plan: Plan, counts: Sequence[EffectCount]) -> Stake:
    """What is at stake in a plan that may be applied; `counts` are of all its placements."""
    if plan.denied or number_of(counts, Effect.LOST, Effect.UNPLACED, *DISMISSED) > 0:
        return Stake.LOSES
    if any(endangered(plan)) or any(ending_rules(plan)):
        return Stake.LOSES
    unsure = (
        number_of(counts, *LEAVING, Effect.WAITING) > 0
        or plan.to_destroy > 0
        or inventory_is_old(plan)
        or any(verdict.holds != "always" for verdict in plan.separation_rules)
        or any(check.status in ("fail", "error") for check in plan.checks)
    )
    return Stake.MOVES if unsure else Stake.NOTHING


# --- counts ------------------------------------------------------------------------------------

_ADDS: Final = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_DESTROYS: Final = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def _resources(plan: Plan) -> tuple[ResourceCount, ...]:
    """How many objects of each type come, change and go; types without any are left out."""
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
    triggers = [TriggerCount(*key, count) for key, count in counts.items()]
    return tuple(sorted(triggers, key=_trigger_order))


_ACTIONS: Final = tuple(PlacementAction)


def _trigger_order(trigger: TriggerCount) -> tuple[int, int, str]:
    return kind_order(trigger.kind), _ACTIONS.index(trigger.action), trigger.trigger
