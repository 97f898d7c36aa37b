"""Guard rails: what a plan may do at most and must leave at least, given from outside (`-fail-on`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity, did_you_mean, error, warning
from nexusform.placement_kinds.kinds import noun_of
from nexusform.plans.impact.effects import (
    DISMISSED,
    DISTURBING,
    effect_clauses,
    effect_counts,
    made_anew,
    number_of,
)
from nexusform.plans.plan import Plan, all_decided
from nexusform.words import counted, form, listed

GUARD_RAIL: Final = "guard-rail"
STRANDED: Final = "machine-goes-with-vms-on-it"  # the one refusal beside which limits are judged still
NOT_JUDGED: Final = "guard-rails-were-not-judged"
_LIMIT: Final = "guard_rail"  # among what the error carries


class GuardRail(Struct, frozen=True):
    """A limit's meaning: `measure` says in words what of a plan goes beyond a limit; `allowed` says the limit
    itself; `fraction`: it is one between 0 and 1, else a whole number.
    """

    measure: Callable[[Plan, float], Iterable[str]]
    allowed: str
    fraction: bool = False


class Limit(Struct, frozen=True):
    """One limit that a run was given: `moved:0`."""

    name: str
    value: float


def limits_of(text: str) -> tuple[Limit, ...]:
    """The limits of `moved:0,room:5,certainty:0.9`. Raises ValueError; its message is for the user, and tells
    of every mistake.
    """
    limits: dict[str, Limit] = {}
    mistakes: list[str] = []
    for written in filter(None, map(str.strip, text.split(","))):
        try:
            limit = _limit(written)
        except ValueError as problem:
            mistakes.append(str(problem))
            continue
        if limit.name in limits:
            mistakes.append(f'"{limit.name}" is given twice.')
        limits[limit.name] = limit
    if mistakes:
        raise ValueError("\n".join(mistakes))
    if not limits:
        raise ValueError(
            f"name at least one limit, for example moved:0. Known are: {', '.join(GUARD_RAILS)}."
        )
    return tuple(limits.values())


def _limit(written: str) -> Limit:
    """One limit, `name:number`. Raises ValueError with what is wrong."""
    name, _, number = written.partition(":")
    rail = GUARD_RAILS.get(name)
    if rail is None:
        hint = did_you_mean(name, GUARD_RAILS)
        raise ValueError(f'there is no limit "{name}". Known are: {", ".join(GUARD_RAILS)}.{hint}')
    try:
        value = float(number) if rail.fraction else int(number)
    except ValueError:
        value = -1
    if value < 0 or (rail.fraction and not value <= 1):
        kind = "a number from 0 to 1" if rail.fraction else "a whole number from 0 on"
        raise ValueError(f'"{written}" needs {kind} after a colon, for example {name}:{_EXAMPLES[name]}.')
    return Limit(name, value)


def guarded(plan: Plan, limits: Iterable[Limit]) -> Plan:
    """The plan with an error for every limit that it breaks, so that whatever tells of it denies it.

    A plan in error is not judged, and says so, but for one that would leave VMs without their machine.
    """
    limits = tuple(limits)
    errors = {problem.id for problem in plan.diagnostics if problem.severity is Severity.ERROR}
    if limits and plan.errored and errors != {STRANDED}:
        names = listed([_written(limit) for limit in limits])
        text = f"{names} {form(len(limits), 'was', 'were')} not judged, as planning failed."
        return replace(plan, diagnostics=(*plan.diagnostics, warning(NOT_JUDGED, text)))
    broken = _breaches(plan, limits)
    return replace(plan, diagnostics=(*plan.diagnostics, *broken)) if broken else plan


def _written(limit: Limit) -> str:
    """A limit as it is given: `moved:0`."""
    return (
        f"{limit.name}:{limit.value:g}"
        if GUARD_RAILS[limit.name].fraction
        else f"{limit.name}:{limit.value:.0f}"
    )


def broken_limits(plan: Plan) -> tuple[str, ...]:
    """The limits that a guarded plan breaks, each as it was given: `moved:0`."""
    limits = [limit_of(breach) for breach in plan.diagnostics if breach.id == GUARD_RAIL]
    return tuple(dict.fromkeys(limits))


def limit_of(breach: Diagnostic) -> str:
    """The limit that such an error speaks of."""
    return str(breach.extra[_LIMIT])


def _breaches(plan: Plan, limits: Iterable[Limit]) -> list[Diagnostic]:
    diagnostics = []
    for limit in limits:
        rail = GUARD_RAILS[limit.name]
        given = _written(limit)
        for measured in rail.measure(plan, limit.value):
            allowed = rail.allowed.format(given.partition(":")[2])
            detail = f"{measured}; -fail-on={given} allows {allowed}."
            diagnostics.append(error(GUARD_RAIL, detail, extra={_LIMIT: given}))
    return diagnostics


# --- the limits ----------------------------------------------------------------------------------


def _moved(plan: Plan, most: float) -> Iterable[str]:
    """VMs, bindings and pods that do not go on running where they run: also what is made anew in its place,
    VMs that lose their machine (forgotten ones, too), pods that lose their node, and bindings and pods that
    go while others come in their stead. What else is removed was taken out of the configuration, and counts
    for `removed`.
    """
    counts = effect_counts(plan.placements)
    anew = made_anew(plan.placements)
    if number_of(counts, *DISTURBING) + sum(anew.values()) + plan.forgotten_and_lost <= most:
        return []
    clauses = effect_clauses(counts, DISTURBING)
    if anew:
        subjects = listed([counted(count, noun_of(kind)) for kind, count in anew.items()])
        clauses.append(
            f"{subjects} {form(sum(anew.values()), 'goes', 'go')} while others come in their stead"
        )
    return [listed([*clauses, *_lost(plan)])]


def _removed(plan: Plan, most: float) -> Iterable[str]:
    """VMs, bindings and pods that leave, or that nobody manages any more; also VMs that were forgotten and do
    not run on.
    """
    counts = effect_counts(plan.placements)
    if number_of(counts, *DISMISSED) + plan.forgotten_and_lost <= most:
        return []
    return [listed([*effect_clauses(counts, DISMISSED), *_lost(plan)])]


def _lost(plan: Plan) -> list[str]:
    lost = plan.forgotten_and_lost
    loses = form(lost, "loses its machine", "lose their machine")
    return [f"{counted(lost, 'forgotten VM')} {loses}"] if lost else []


def _room(plan: Plan, least: float) -> Iterable[str]:
    """What still fits on each site of its largest VM SKU in play, once the plan is applied."""
    sites_counted: set[str] = set()
    for row in plan.room:  # the largest SKU of a site comes first
        if row.site_id in sites_counted or row.after is None:
            continue
        sites_counted.add(row.site_id)
        free = row.after.free
        if free < least:
            yield f"On {row.site} {free:,} more {row.sku} {form(free, 'fits', 'fit')} after this plan"


def _certainty(plan: Plan, least: float) -> Iterable[str]:
    """The part of the VMs placed whose rack's count of their pool holds in every tie-break."""
    placed = sum(table.placed for table in plan.placement_tables)
    if not placed or all_decided(plan.placement_tables):
        return []
    if not plan.tie_breaks:
        return ["Certainty was not computed: no tie-breaks were repeated"]
    sure = sum(table.racks_certain for table in plan.placement_tables)
    if sure >= least * placed:
        return []
    return [f"VMs per rack are certain for {sure:,} of the {placed:,} VMs placed"]


GUARD_RAILS: Final[Mapping[str, GuardRail]] = {
    "moved": GuardRail(_moved, "{} at most"),
    "removed": GuardRail(_removed, "{} at most"),
    "room": GuardRail(_room, "no fewer than {}"),
    "certainty": GuardRail(_certainty, "no smaller part than {}", fraction=True),
}
_EXAMPLES: Final = {"moved": "0", "removed": "0", "room": "5", "certainty": "0.9"}
