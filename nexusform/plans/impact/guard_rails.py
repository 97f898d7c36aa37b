"""Guard rails: limits on the changes, risks and remaining capacity of a plan.

`-fail-on` sets limits that block a plan, `-warn-on` those that ask for a review.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning, suggest_name
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_first_items,
    format_list,
    group_by,
    select_word_form,
)
from nexusform.doubts.ledger import DoubtLedger
from nexusform.placements.consequences import ConsequenceSeverity
from nexusform.plans.impact.consequence_texts import describe_risks
from nexusform.plans.impact.consequence_views import list_plan_risks
from nexusform.plans.impact.object_effects import (
    DISRUPTIVE_EFFECTS,
    REMOVAL_EFFECTS,
    count_objects_with_effects,
    count_plan_effects,
    count_substitutions,
    describe_lost_vms,
    format_effect_clauses,
    format_kind_counts,
)
from nexusform.plans.maintenance import describe_stopped_vms, select_stopped_vms
from nexusform.plans.plan import Action, FeasibilityResult, Mode, Plan, is_fully_decided
from nexusform.plans.plan_checks import GuardRailOutcome, GuardRailResult
from nexusform.plans.site_capacity.occupancy import select_largest_sku_rows
from nexusform.scheduling.racks.uncertainty.certainty import (
    MAX_RUNS,
    MIN_RUNS,
    compute_default_runs,
)

GUARD_RAIL: Final = "guard-rail"
GUARD_RAIL_REVIEW: Final = "guard-rail-review"
# The only error with which limits are still checked.
STRANDED: Final = "deleted-machine-with-vms"
# Id for a part of another tool's plan without a prediction.
NOT_PREDICTED: Final = "resource-not-predicted"
NOTHING_TO_PREDICT: Final = "nothing-to-predict"
NOT_CHECKED: Final = "guard-rails-not-checked"
# Key in the extra data of the error.
_LIMIT: Final = "guard_rail"
_MAX_RISKS: Final = 5
_PLAN_FAILED: Final = "planning failed"


class GuardRailMeasurement(Struct, frozen=True):
    """Measured figure of a plan, None if data is missing, and the text about it."""

    value: float | None
    text: str


class GuardRail(Struct, frozen=True):
    """Meaning of a limit: `measure` returns the figures of a plan.

    `allowed` formats the limit, a minimum or a maximum. The limit is between 0 and 1 if it
    `is_fraction`, else a whole number. `is_sum`: the figures of the plans of several sites add up;
    else the limit holds for each of them. `needs_state`: the figure is unknown without the current
    state. `example` is a number for messages.
    """

    measure: Callable[[Plan], Iterable[GuardRailMeasurement]]
    allowed: str
    example: str = "0"
    is_minimum: bool = False
    is_fraction: bool = False
    is_sum: bool = False
    needs_state: bool = True

    def is_broken(self, value: float, limit: float) -> bool:
        """Return whether a figure is above the limit, or below a minimum."""
        return value < limit if self.is_minimum else value > limit


class GuardRailLimit(Struct, frozen=True):
    """One limit of a run: `moved:0`.

    `blocks` is true for a limit of -fail-on, false for one of -warn-on.
    """

    name: str
    value: float
    blocks: bool = True


def parse_guard_rail_limits(*texts: str, blocks: bool = True) -> tuple[GuardRailLimit, ...]:
    """Parse texts such as `moved:0,capacity:5`; with `blocks` limits of -fail-on, else of -warn-on.

    Raises ValueError with a list of all mistakes, and for a text without limits.
    """
    limits: dict[str, GuardRailLimit] = {}
    mistakes: list[str] = []
    items_by_text = [[*filter(None, map(str.strip, text.split(",")))] for text in texts]
    for item in chain.from_iterable(items_by_text):
        try:
            limit = _parse_limit(item, blocks=blocks)
        except ValueError as problem:
            mistakes.append(str(problem))
            continue
        if limit.name in limits:
            mistakes.append(f'"{limit.name}" is given twice.')
        # In the order of the text.
        limits[limit.name] = limit
    if mistakes:
        raise ValueError("\n".join(mistakes))
    if not all(items_by_text):
        raise ValueError(
            f"name at least one limit, for example moved:0. Known are: {', '.join(GUARD_RAILS)}."
        )
    return tuple(limits.values())


def _parse_limit(item: str, *, blocks: bool) -> GuardRailLimit:
    """Parse one limit, `name:number`.

    Raises ValueError with the mistake.
    """
    name, _, number = item.partition(":")
    # The definition of the limit.
    rail = GUARD_RAILS.get(name)
    if rail is None:
        hint = suggest_name(name, GUARD_RAILS)
        raise ValueError(f'there is no limit "{name}". Known are: {", ".join(GUARD_RAILS)}.{hint}')
    try:
        value = float(number) if rail.is_fraction else float(int(number))
    except (ValueError, OverflowError):
        value = -1.0  # rejected below
    # Not `value > 1`, which accepts `nan`.
    if value < 0 or (rail.is_fraction and not value <= 1):
        kind = "a number from 0 to 1" if rail.is_fraction else "a whole number from 0 on"
        raise ValueError(f'"{item}" needs {kind} after a colon, for example {name}:{rail.example}.')
    return GuardRailLimit(name, value, blocks)


def apply_limits(plan: Plan, limits: Iterable[GuardRailLimit]) -> Plan:
    """Check the limits set by the user.

    Return the plan with their results, and a diagnostic for every limit broken or without a known
    figure: an error if it blocks, else a warning. GUARD_RAILS defines each limit: its measurements
    of a plan, and a test for broken limits. The limits of a failed plan are not checked, unless its
    only errors are VMs without machine (STRANDED).
    """
    limits = tuple(limits)
    error_ids = {problem.id for problem in plan.errors}
    if limits and plan.errored and error_ids != {STRANDED}:
        return _add_unchecked_limits(plan, limits)
    results = []
    diagnostics: list[Diagnostic] = []
    for limit in limits:
        result, breaches = check_limit(limit, measure_limit(plan, limit.name))
        results.append(result)
        diagnostics += breaches
    return replace(
        plan,
        verdicts=replace(plan.verdicts, guard_rails=tuple(results)),
        diagnostics=(*plan.diagnostics, *diagnostics),
    )


def measure_limit(plan: Plan, name: str) -> tuple[GuardRailMeasurement, ...]:
    """Return the figures of a plan for a limit, with what makes them unknown."""
    if plan.errored and {problem.id for problem in plan.errors} != {STRANDED}:
        return (GuardRailMeasurement(value=None, text=_PLAN_FAILED),)
    measurements = list(GUARD_RAILS[name].measure(plan))
    # Resources without a prediction make every figure unknown.
    missing = count_unpredicted_resources(plan)
    if missing:
        text = f"{format_count(missing, 'resource')} could not be predicted"
        measurements.append(GuardRailMeasurement(value=None, text=text))
    if plan.is_from_state and GUARD_RAILS[name].needs_state:
        text = "a hub or site was not read, so changes made there are unknown"
        measurements.append(GuardRailMeasurement(value=None, text=text))
    return tuple(measurements)


def check_limit(
    limit: GuardRailLimit, measurements: Sequence[GuardRailMeasurement]
) -> tuple[GuardRailResult, list[Diagnostic]]:
    """Return the result of a limit, and a diagnostic for each figure that breaks it.

    An unknown figure (None) breaks every limit.
    """
    is_broken = GUARD_RAILS[limit.name].is_broken
    breaches = [
        entry
        for entry in measurements
        if entry.value is None or is_broken(entry.value, limit.value)
    ]
    result = _summarize_breaches(limit, measurements, breaches)
    return result, [_build_breach(limit, breach) for breach in breaches]


def _build_breach(limit: GuardRailLimit, breach: GuardRailMeasurement) -> Diagnostic:
    """Build the error or warning about a broken limit, or one without a known figure.

    The value of `breach` is None without a known figure.
    """
    limit_text = format_limit(limit.name, limit.value)
    _, _, number = limit_text.partition(":")
    # Such as `at least 5`.
    allowed = GUARD_RAILS[limit.name].allowed.format(number)
    # For example of a site: `lab has capacity for ...`.
    may_start_with_name = breach.value is not None
    text = breach.text if may_start_with_name else f"{breach.text[:1].upper()}{breach.text[1:]}"
    if not limit.blocks:
        detail = f"{text}; -warn-on={limit_text} asks for a review: it expects {allowed}."
        return build_warning(GUARD_RAIL_REVIEW, detail, extra={_LIMIT: limit_text})
    verb = "requires" if GUARD_RAILS[limit.name].is_minimum else "allows"
    detail = f"{text}; -fail-on={limit_text} {verb} {allowed}."
    return build_error(GUARD_RAIL, detail, extra={_LIMIT: limit_text})


def _add_unchecked_limits(plan: Plan, limits: Sequence[GuardRailLimit]) -> Plan:
    """Return a failed plan with an unknown result per limit.

    One warning for all limits replaces errors.
    """
    results = [
        _build_result(limit, None, GuardRailOutcome.UNKNOWN, _PLAN_FAILED) for limit in limits
    ]
    names = format_list(format_limit(limit.name, limit.value) for limit in limits)
    text = (
        f"{names} {select_word_form(len(limits), 'was', 'were')} not checked because "
        f"{_PLAN_FAILED}."
    )
    warning = build_warning(NOT_CHECKED, text)
    return replace(
        plan,
        verdicts=replace(plan.verdicts, guard_rails=tuple(results)),
        diagnostics=(*plan.diagnostics, warning),
    )


def _summarize_breaches(
    limit: GuardRailLimit,
    measurements: Sequence[GuardRailMeasurement],
    breaches: Sequence[GuardRailMeasurement],
) -> GuardRailResult:
    """Return the result of a limit, with the worst known figure.

    It is PASSED without breaches, and BLOCKED with some. It is UNKNOWN, and has no figure (None),
    if all breaches are unknown figures. A limit that does not block is REVIEW in both cases.
    """
    known_values = [
        float(measurement.value) for measurement in measurements if measurement.value is not None
    ]
    worst = max(known_values, default=None)
    # The smallest figure is the worst one.
    if GUARD_RAILS[limit.name].is_minimum:
        worst = min(known_values, default=None)
    if not breaches:
        return _build_result(limit, worst, GuardRailOutcome.PASSED)
    reason = "; ".join(breach.text for breach in breaches)
    if all(breach.value is None for breach in breaches):
        return _build_result(limit, None, GuardRailOutcome.UNKNOWN, reason)
    return _build_result(limit, worst, GuardRailOutcome.BLOCKED, reason)


def _build_result(
    limit: GuardRailLimit, value: float | None, result: GuardRailOutcome, reason: str = ""
) -> GuardRailResult:
    """Build the result of a limit; one that does not block is REVIEW for a breach."""
    shown_result = result
    if not limit.blocks and result is not GuardRailOutcome.PASSED:
        shown_result = GuardRailOutcome.REVIEW
    return GuardRailResult(limit.name, limit.value, value, shown_result, reason, limit.blocks)


def is_summed(name: str) -> bool:
    """Return whether the figures of several sites add up for a limit; else it holds for each."""
    return GUARD_RAILS[name].is_sum


def list_limits(plan: Plan) -> list[GuardRailLimit]:
    """Return the limits with which a plan was checked."""
    return [
        GuardRailLimit(result.name, result.limit, result.blocks)
        for result in plan.verdicts.guard_rails
    ]


def count_unpredicted_resources(plan: Plan) -> int:
    """Count the resources of another tool's plan without a prediction."""
    return sum(problem.id == NOT_PREDICTED for problem in plan.diagnostics)


def format_limit(name: str, value: float) -> str:
    """Format a limit as on the command line: `moved:0`."""
    return f"{name}:{value:g}" if GUARD_RAILS[name].is_fraction else f"{name}:{value:.0f}"


def list_broken_limits(plan: Plan) -> tuple[str, ...]:
    """Return the limits broken by a checked plan, as on the command line: `moved:0`."""
    limits = [get_limit_text(breach) for breach in plan.diagnostics if breach.id == GUARD_RAIL]
    return tuple(dict.fromkeys(limits))


def get_limit_text(breach: Diagnostic) -> str:
    """Return the limit broken in a guard rail error, as on the command line: `moved:0`."""
    return str(breach.extra[_LIMIT])


def _measure_moved_objects(plan: Plan) -> Iterator[GuardRailMeasurement]:
    """Count interrupted VMs, bindings and pods.

    They are moved, re-created in place, stopped by machine actions, replaced by others, or left
    without their machine or node. Other removals count for the limit `removed` instead.
    """
    counts = count_plan_effects(plan)
    substitutions = count_substitutions(plan.placements)
    clauses = format_effect_clauses(counts, DISRUPTIVE_EFFECTS)
    if substitutions:
        subjects = format_kind_counts(substitutions)
        clauses.append(
            f"{subjects} {select_word_form(sum(substitutions.values()), 'is', 'are')} "
            "replaced by others"
        )
    stopped = len(select_stopped_vms(plan.impact.machine_actions))
    clauses += describe_stopped_vms(plan.impact.machine_actions)
    clauses += describe_lost_vms(plan)
    interrupted = count_objects_with_effects(counts, *DISRUPTIVE_EFFECTS)
    # Unmanaged VMs without their machine have no row, so they are counted apart.
    total = interrupted + sum(substitutions.values()) + stopped + plan.lost_unmanaged_count
    yield GuardRailMeasurement(total, format_list(clauses))
    if _has_existing_objects(plan) and plan.ledger.may_move(_list_created_addresses(plan)):
        text = f"moved objects are unknown because {_describe_missing_data(plan.ledger)}"
        yield GuardRailMeasurement(None, text)


def _has_existing_objects(plan: Plan) -> bool:
    """Return whether any VM, binding or pod exists before the plan."""
    return any(total.before for total in plan.figures.placement_totals)


def _list_created_addresses(plan: Plan) -> frozenset[str]:
    """Return the addresses of the objects that the plan creates."""
    return frozenset(
        str(change.address) for change in plan.changes if change.action is Action.CREATE
    )


def _measure_removed_objects(plan: Plan) -> Iterator[GuardRailMeasurement]:
    """Measure removed and forgotten objects, and forgotten VMs without machine."""
    counts = count_plan_effects(plan)
    # Objects on clusters, apart from their pods.
    ended = sum(consequence.objects for consequence in plan.impact.consequences)
    removed = count_objects_with_effects(counts, *REMOVAL_EFFECTS)
    total = removed + plan.lost_unmanaged_count + ended
    clauses = [*format_effect_clauses(counts, REMOVAL_EFFECTS), *describe_lost_vms(plan)]
    if ended:
        verb = select_word_form(ended, "is deleted", "are deleted")
        clauses.append(f"{format_count(ended, 'object')} on clusters {verb}")
    yield GuardRailMeasurement(total, format_list(clauses))
    if _has_existing_objects(plan) and plan.ledger.may_remove(_list_created_addresses(plan)):
        text = f"removed objects are unknown because {_describe_missing_data(plan.ledger)}"
        yield GuardRailMeasurement(None, text)


def _measure_spare_capacity(plan: Plan) -> Iterator[GuardRailMeasurement]:
    """Yield the spare capacity of each site for its largest VM SKU in use.

    Then yield the value None for sites without a figure, and for missing data. In a plan without
    errors, a site without VMs needs a figure only if no site has one.
    """
    if plan.options.mode is Mode.REFRESH_ONLY:
        yield GuardRailMeasurement(None, "a refresh-only plan does not compute the spare capacity")
        return
    rows = select_largest_sku_rows(plan.site_records.capacity)
    for row, after in rows:
        text = f"{row.site} has capacity for {after.free:,} more {row.sku} after this plan"
        yield GuardRailMeasurement(after.free, text)
    counted_sites = {row.site_id for row, _ in rows}
    uncounted = [
        site.name
        for site in plan.site_records.sites
        if not site.is_removed and site.id not in counted_sites
    ]
    if uncounted and (plan.errored or not rows):
        reason = _PLAN_FAILED if plan.errored else "no pool there uses a VM SKU"
        yield GuardRailMeasurement(
            None, f"the spare capacity of {format_list(uncounted)} is unknown: {reason}"
        )
    elif not rows:
        yield GuardRailMeasurement(
            None, "spare capacity is unknown: no site exists after this plan"
        )
    remaining_sites = {site.id for site in plan.site_records.sites if not site.is_removed}
    ledger = plan.ledger.select_sites(counted_sites | remaining_sites)
    if ledger.has_unknown_capacity:
        yield GuardRailMeasurement(
            None, f"spare capacity is unknown because {_describe_missing_data(ledger)}"
        )


def _describe_missing_data(ledger: DoubtLedger) -> str:
    """Return the end of a sentence on the missing data: an unread fact, or the warnings."""
    facts = ledger.describe()
    return f"a fact is not read: {facts}" if facts else "data is missing (see the warnings)"


def has_enough_samples(plan: Plan) -> bool:
    """Return whether the samples of a plan suffice for a statement about certainty."""
    return plan.figures.samples >= MIN_RUNS


def has_default_of_fewer_samples(plan: Plan) -> bool:
    """Return whether plans with so many VMs have fewer samples than others, or none."""
    return plan.placed_vms > 0 and compute_default_runs(plan.placed_vms) < MAX_RUNS


def _measure_certain_fraction(plan: Plan) -> Iterator[GuardRailMeasurement]:
    """Measure the fraction of placed VMs with equal rack counts in every sample.

    The counts are those of their pool. Yield nothing without placed VMs.
    """
    placed_count = plan.placed_vms
    is_decided = is_fully_decided(plan.figures.placement_tables)
    uncertain_count = plan.uncertain_vms
    if not placed_count or (is_decided and not uncertain_count):
        # No placement is predicted.
        return
    if not is_decided and not has_enough_samples(plan):
        text = (
            f"certainty was not computed: it needs {MIN_RUNS} samples, and the plan has "
            f"{plan.figures.samples}"
        )
        yield GuardRailMeasurement(value=None, text=text)
        return
    ledger = plan.ledger.select_sites(
        {table.site_id for table in plan.figures.placement_tables if table.placed}
    )
    if ledger.has_unknown_capacity:
        yield GuardRailMeasurement(
            None, f"certainty is unknown because {_describe_missing_data(ledger)}"
        )
    certain = sum(table.racks_certain for table in plan.figures.placement_tables)
    text = f"rack counts are exact for {certain:,} of {format_count(placed_count, 'VM')}"
    text += enclose("; not read: ", ledger.describe() if uncertain_count else "")
    yield GuardRailMeasurement(certain / placed_count, text)


def _measure_empty_plan(plan: Plan) -> Iterator[GuardRailMeasurement]:
    """Measure whether a plan has no resources, for example for a wrong file or directory.

    The figure is 1 if it has none, else 0.
    """
    is_empty = (
        any(problem.id == NOTHING_TO_PREDICT for problem in plan.diagnostics) or not plan.changes
    )
    yield GuardRailMeasurement(int(is_empty), "the plan contains no resources" if is_empty else "")


def _measure_infeasible_bindings(plan: Plan) -> Iterator[GuardRailMeasurement]:
    """Measure the bindings with pods unable to run on their cluster, even with more nodes.

    Unknown ones are measured separately.
    """
    # Without clusters rejected by the placement.
    bindings = [row for row in plan.workloads.feasibility if row.is_selected]
    bindings_by_result = group_by(bindings, lambda row: row.result)
    results = (FeasibilityResult.CANNOT_RUN, FeasibilityResult.WAITS, FeasibilityResult.REJECTED)
    infeasible = [row for row in bindings if row.result in results]
    names = format_list(f"{row.placement.name} on {row.cluster}" for row in infeasible)
    text = enclose(f"{format_count(len(infeasible), 'binding')} cannot run: ", names)
    yield GuardRailMeasurement(len(infeasible), text)
    unknown = len(bindings_by_result.get(FeasibilityResult.UNKNOWN, []))
    if unknown:
        yield GuardRailMeasurement(
            None, f"nodes or pods of {format_count(unknown, 'binding')} are not known"
        )


def _measure_risks(plan: Plan, severity: ConsequenceSeverity) -> Iterator[GuardRailMeasurement]:
    """Count the risks of one severity; they depend on hosts that may not be known."""
    risks = [risk for risk in list_plan_risks(plan.impact) if risk.severity is severity]
    count = format_count(len(risks), f"{severity.value} risk")
    names = format_first_items([text for text, _ in describe_risks(risks)], _MAX_RISKS, "; ")
    if plan.errored:
        yield GuardRailMeasurement(None, f"risks are unknown: {_PLAN_FAILED}")
    else:
        yield GuardRailMeasurement(len(risks), enclose(f"{count}: ", names))
    ledger = plan.ledger
    if not all(
        ledger.has_certain_hosts(table.placed_pool) for table in plan.figures.placement_tables
    ):
        yield GuardRailMeasurement(
            None, f"risks are unknown because {_describe_missing_data(ledger)}"
        )


GUARD_RAILS: Final[Mapping[str, GuardRail]] = {
    "moved": GuardRail(_measure_moved_objects, "at most {}", is_sum=True),
    "removed": GuardRail(_measure_removed_objects, "at most {}", is_sum=True),
    "capacity": GuardRail(
        _measure_spare_capacity, "at least {}", "5", is_minimum=True, needs_state=False
    ),
    "certainty": GuardRail(
        _measure_certain_fraction, "at least {}", "0.9", is_minimum=True, is_fraction=True
    ),
    "empty": GuardRail(_measure_empty_plan, "{} such plans", is_sum=True, needs_state=False),
    "infeasible": GuardRail(_measure_infeasible_bindings, "at most {}", is_sum=True),
    "risk": GuardRail(
        partial(_measure_risks, severity=ConsequenceSeverity.LASTING), "at most {}", is_sum=True
    ),
    "temporary_risk": GuardRail(
        partial(_measure_risks, severity=ConsequenceSeverity.TEMPORARY),
        "at most {}",
        "2",
        is_sum=True,
    ),
}
