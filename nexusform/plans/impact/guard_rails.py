"""Guard rails: limits on what a plan may do and must leave, set by `-fail-on`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity, build_error, build_warning, suggest_name
from nexusform.diagnostics.phrases import format_count, format_list, select_form
from nexusform.placement_kinds.kinds import get_noun
from nexusform.plans.impact.effects import (
    DISRUPTIVE_EFFECTS,
    REMOVAL_EFFECTS,
    count_effects,
    count_objects,
    count_substitutions,
    format_effect_clauses,
)
from nexusform.plans.plan import Plan, is_fully_decided

GUARD_RAIL: Final = "guard-rail"
STRANDED: Final = "deleted-machine-with-vms"  # the only error with which limits are still checked
NOT_CHECKED: Final = "guard-rails-not-checked"
_LIMIT: Final = "guard_rail"  # key in the extra data of the error


class GuardRail(Struct, frozen=True):
    """Meaning of a limit: `measure` describes each excess of a plan over the limit; `allowed` formats the
    limit; `is_fraction`: it is between 0 and 1, else a whole number.
    """

    measure: Callable[[Plan, float], Iterable[str]]
    allowed: str
    is_fraction: bool = False


class Limit(Struct, frozen=True):
    """One limit of a run: `moved:0`."""

    name: str
    value: float


def parse_limits(text: str) -> tuple[Limit, ...]:
    """Parse `moved:0,capacity:5`. Raises ValueError with a message that lists every mistake."""
    limits: dict[str, Limit] = {}
    mistakes: list[str] = []
    for item in filter(None, map(str.strip, text.split(","))):
        try:
            limit = _parse_limit(item)
        except ValueError as problem:
            mistakes.append(str(problem))
            continue
        if limit.name in limits:
            mistakes.append(f'"{limit.name}" is given twice.')
        limits[limit.name] = limit
    if mistakes:
        raise ValueError("\n".join(mistakes))
    if not limits:
        raise ValueError(f"name at least one limit, for example moved:0. Known are: {', '.join(GUARD_RAILS)}.")
    return tuple(limits.values())


def _parse_limit(item: str) -> Limit:
    """Parse one limit, `name:number`. Raises ValueError with the mistake."""
    name, _, number = item.partition(":")
    rail = GUARD_RAILS.get(name)
    if rail is None:
        hint = suggest_name(name, GUARD_RAILS)
        raise ValueError(f'there is no limit "{name}". Known are: {", ".join(GUARD_RAILS)}.{hint}')
    try:
        value = float(number) if rail.is_fraction else int(number)
    except ValueError:
        value = -1
    if value < 0 or (rail.is_fraction and not value <= 1):
        kind = "a number from 0 to 1" if rail.is_fraction else "a whole number from 0 on"
        raise ValueError(f'"{item}" needs {kind} after a colon, for example {name}:{_EXAMPLES[name]}.')
    return Limit(name, value)


def apply_limits(plan: Plan, limits: Iterable[Limit]) -> Plan:
    """Return the plan with an error for every broken limit, so that it is rejected everywhere. The limits of
    a plan with errors are not checked, with a warning, except if the only error is VMs without machine.
    """
    limits = tuple(limits)
    errors = {problem.id for problem in plan.diagnostics if problem.severity is Severity.ERROR}
    if limits and plan.errored and errors != {STRANDED}:
        names = format_list([_format_limit(limit) for limit in limits])
        text = f"{names} {select_form(len(limits), 'was', 'were')} not checked because planning failed."
        return replace(plan, diagnostics=(*plan.diagnostics, build_warning(NOT_CHECKED, text)))
    broken = _check_limits(plan, limits)
    return replace(plan, diagnostics=(*plan.diagnostics, *broken)) if broken else plan


def _format_limit(limit: Limit) -> str:
    """Format a limit as on the command line: `moved:0`."""
    return f"{limit.name}:{limit.value:g}" if GUARD_RAILS[limit.name].is_fraction else f"{limit.name}:{limit.value:.0f}"


def list_broken_limits(plan: Plan) -> tuple[str, ...]:
    """Return the limits broken by a checked plan, as on the command line: `moved:0`."""
    limits = [get_limit_text(breach) for breach in plan.diagnostics if breach.id == GUARD_RAIL]
    return tuple(dict.fromkeys(limits))


def get_limit_text(breach: Diagnostic) -> str:
    """Return the limit of such an error."""
    return str(breach.extra[_LIMIT])


def _check_limits(plan: Plan, limits: Iterable[Limit]) -> list[Diagnostic]:
    diagnostics = []
    for limit in limits:
        rail = GUARD_RAILS[limit.name]
        limit_text = _format_limit(limit)
        for measurement in rail.measure(plan, limit.value):
            allowed = rail.allowed.format(limit_text.partition(":")[2])
            detail = f"{measurement}; -fail-on={limit_text} allows {allowed}."
            diagnostics.append(build_error(GUARD_RAIL, detail, extra={_LIMIT: limit_text}))
    return diagnostics


# --- the limits ----------------------------------------------------------------------------------


def _measure_moved(plan: Plan, maximum: float) -> Iterable[str]:
    """Measure VMs, bindings and pods that do not keep running at their location. Also counts re-creation in
    place, VMs that lose their machine (forgotten ones, too), pods that lose their node, and bindings and pods
    replaced by others. Other removals follow from the configuration and count for `removed`.
    """
    counts = count_effects(plan.placements)
    substitutions = count_substitutions(plan.placements)
    if count_objects(counts, *DISRUPTIVE_EFFECTS) + sum(substitutions.values()) + plan.lost_unmanaged_count <= maximum:
        return []
    clauses = format_effect_clauses(counts, DISRUPTIVE_EFFECTS)
    if substitutions:
        subjects = format_list([format_count(count, get_noun(kind)) for kind, count in substitutions.items()])
        clauses.append(f"{subjects} {select_form(sum(substitutions.values()), 'is', 'are')} replaced by others")
    return [format_list([*clauses, *_format_lost_unmanaged(plan)])]


def _measure_removed(plan: Plan, maximum: float) -> Iterable[str]:
    """Measure objects that are removed or forgotten, and forgotten VMs that lose their machine."""
    counts = count_effects(plan.placements)
    if count_objects(counts, *REMOVAL_EFFECTS) + plan.lost_unmanaged_count <= maximum:
        return []
    return [format_list([*format_effect_clauses(counts, REMOVAL_EFFECTS), *_format_lost_unmanaged(plan)])]


def _format_lost_unmanaged(plan: Plan) -> list[str]:
    count = plan.lost_unmanaged_count
    verb = select_form(count, "loses its machine", "lose their machine")
    return [f"{format_count(count, 'forgotten VM')} {verb}"] if count else []


def _measure_capacity(plan: Plan, minimum: float) -> Iterable[str]:
    """Measure the spare capacity of each site for its largest VM SKU in use after the plan."""
    sites_counted: set[str] = set()
    for row in plan.capacity:  # the largest SKU of a site is first
        if row.site_id in sites_counted or row.after is None:
            continue
        sites_counted.add(row.site_id)
        free = row.after.free
        if free < minimum:
            yield f"On {row.site} {free:,} more {row.sku} {select_form(free, 'fits', 'fit')} after this plan"


def _measure_certainty(plan: Plan, minimum: float) -> Iterable[str]:
    """Measure the fraction of placed VMs with the same rack count of their pool in every sample."""
    placed_count = sum(table.placed for table in plan.placement_tables)
    if not placed_count or is_fully_decided(plan.placement_tables):
        return []
    if not plan.samples:
        return ["Certainty was not computed: there are no samples"]
    certain = sum(table.racks_certain for table in plan.placement_tables)
    if certain >= minimum * placed_count:
        return []
    return [f"VMs per rack are certain for {certain:,} of the {placed_count:,} VMs placed"]


GUARD_RAILS: Final[Mapping[str, GuardRail]] = {
    "moved": GuardRail(_measure_moved, "at most {}"),
    "removed": GuardRail(_measure_removed, "at most {}"),
    "capacity": GuardRail(_measure_capacity, "at least {}"),
    "certainty": GuardRail(_measure_certainty, "at least {}", is_fraction=True),
}
_EXAMPLES: Final = {"moved": "0", "removed": "0", "capacity": "5", "certainty": "0.9"}
