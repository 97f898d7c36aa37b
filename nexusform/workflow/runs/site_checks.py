"""Checks of a plan against the site as it is now, at the moment of the write.

The limits of `-fail-on` and separation rules held when the plan was made. Between plan and apply,
others may have changed the site.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    build_error,
    build_warning,
    has_errors,
    select_errors,
)
from nexusform.diagnostics.phrases import format_count, format_first_items, format_list
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.plans.impact.guard_rails import (
    GUARD_RAIL,
    GUARD_RAIL_REVIEW,
    apply_limits,
    format_limit,
    get_limit_text,
    list_limits,
)
from nexusform.plans.plan import Mode, Plan, SeparationVerdict
from nexusform.plans.plan_checks import GuardRailOutcome
from nexusform.plans.saved.plan_comparison import list_visible_differences
from nexusform.plans.site_capacity.occupancy import SiteVms, list_out_of_service
from nexusform.resources.address import Address
from nexusform.state.objects import ObjectState, State, get_current_object
from nexusform.workflow.opening.provider_setup import create_providers
from nexusform.workflow.opening.stored_state import StoredState, compute_state_digest
from nexusform.workflow.runs.run import Run, build_base_request, get_plan_options
from nexusform.workflow.runs.state_refresh import refresh_request

# A plan is checked again if no step started for this time.
MAXIMUM_WAIT_SECONDS: Final = 600.0
_MAX_NAMES: Final = 5
_SEPARATION: Final = "separation"


def has_conditions(plan: Plan) -> bool:
    """Return whether a plan has guard rails, or separation rules that deny."""
    return bool(plan.guard_rails) or any(map(_is_denying, plan.separation_verdicts))


def check_observed_site(
    run: Run, plan: Plan, *, compares_changes: bool = False
) -> list[Diagnostic]:
    """Check a saved plan against the site as observed now.

    Return errors for broken guard rails and separation rules, and warnings about machines that
    failed since the plan and, with `compares_changes`, about other changes in a new plan.
    """
    is_needed = has_conditions(plan) or _observes_machines(run, plan)
    if plan.mode is Mode.REFRESH_ONLY or not is_needed:
        return []
    new_plan = run.plan(get_plan_options(plan)).plan
    problems = _list_broken_conditions(plan, new_plan)
    if new_plan.is_failed and not problems:
        return [_build_unread_warning(new_plan)]
    problems += _list_failed_machines(plan, new_plan)
    # Each of them has a cause of its own.
    if compares_changes and not problems:
        problems += _list_other_changes(plan, new_plan)
    return problems


def _list_other_changes(plan: Plan, new_plan: Plan) -> Iterator[Diagnostic]:
    """Yield a warning that names what a new plan of the site as observed now changes otherwise."""
    names = list_visible_differences(plan, new_plan)
    if names:
        yield build_warning(
            "site-changed-since-plan",
            "Since the plan, the site changed, and a new plan differs: "
            f"{format_first_items(names, _MAX_NAMES)}. The plan is applied as reviewed. To use "
            "what the site has now, plan again.",
        )


def check_conditions(run: Run, plan: Plan, state: State) -> list[Diagnostic]:
    """Return errors for guard rails and separation rules that the site as observed now breaks.

    `state` is the current one, of an apply in progress. The site is read by new providers: those of
    the run keep what they read before.
    """
    if plan.mode is Mode.REFRESH_ONLY or not has_conditions(plan):
        return []
    with _begin_new_reading(run, state) as (check, problems):
        if has_errors(problems):
            return problems
        return _list_broken_conditions(plan, check.plan(get_plan_options(plan)).plan)


@contextmanager
def _begin_new_reading(run: Run, state: State) -> Iterator[tuple[Run, list[Diagnostic]]]:
    """Yield a run on `state` with new providers, and the problems of creating these."""
    stored = StoredState(state, digest=compute_state_digest(state))
    request = build_base_request(run.project, stored)
    with ExitStack() as exit_stack:
        providers, problems = create_providers(request, run.project.context, exit_stack)
        yield (
            Run(run.project, run.clock, stored=stored, providers=providers, notices=run.notices),
            problems,
        )


def read_drift_after_approval(run: Run, plan: Plan) -> tuple[Plan, list[Diagnostic]]:
    """Return the plan that a person approved with its drift as read now, and diagnostics.

    Approval takes time. A refresh-only plan records nothing else than this drift, so another one
    now is an error.
    """
    if not plan.refreshed_objects:
        return plan, []
    with _begin_new_reading(run, run.stored.state) as (check, problems):
        if has_errors(problems):
            return plan, problems
        if plan.mode is not Mode.REFRESH_ONLY:
            return read_drift_again(check, plan)
        new_plan = check.plan(get_plan_options(plan)).plan
    if new_plan.errored:
        reason = f"planning again fails: {_describe_failure(new_plan)}"
    else:
        names = list_visible_differences(plan, new_plan)
        if not names:
            return new_plan, []
        reason = f"a new plan differs: {format_first_items(names, _MAX_NAMES)}"
    detail = (
        f"Since the question, {reason}. No changes were made. Run the command again, and review "
        "the new plan."
    )
    return plan, [build_error("site-changed-since-approval", detail)]


def read_drift_again(run: Run, plan: Plan) -> tuple[Plan, list[Diagnostic]]:
    """Return the plan with its drift as read now, and a warning about what changed again.

    Apply records drift, so it must be what apply itself has read. What cannot be read is not
    recorded. Objects with a step keep what the plan read: their provider compares it before it
    writes, and the step records its own result.
    """
    own_addresses: set[Address | None] = set()
    for step in plan.steps:
        change = plan.changes[step.change]
        own_addresses |= {change.address, change.previous_address}
    kept = {
        address: planned
        for address, planned in plan.refreshed_objects.items()
        if address in own_addresses
    }
    drifted = {
        address: planned
        for address, planned in plan.refreshed_objects.items()
        if address not in own_addresses
    }
    if plan.mode is Mode.REFRESH_ONLY or not drifted:
        return plan, []
    request = build_base_request(run.project, run.stored)
    try:
        # In silence: the objects were listed before.
        refreshed, _ = refresh_request(request, run.providers, lambda _address, _id: None)
    except ProviderProblem as problem:
        warning = build_warning(
            "drift-not-recorded",
            f"Changes made outside of nexusform are not recorded: {_list_names(drifted)}. To "
            f"record them, run `nexusform apply -refresh-only`. They cannot be read now: {problem}",
        )
        return replace(plan, refreshed_objects=kept), [warning]
    observed = refreshed.refreshed_objects
    current = {address: observed[address] for address in drifted if address in observed}
    changed_again = {
        address: planned
        for address, planned in drifted.items()
        if _get_attributes(current.get(address, _get_recorded(run, address)))
        != _get_attributes(planned)
    }
    warnings = []
    if changed_again:
        warning = build_warning(
            "drift-changed-since-plan",
            f"Since the plan, other values were set outside of nexusform: "
            f"{_list_names(changed_again)}. The state records what was read now. Changes and "
            "outputs are those of the plan. To use what the site has now, plan again.",
        )
        warnings.append(warning)
    return replace(plan, refreshed_objects={**kept, **current}), warnings


def _get_recorded(run: Run, address: Address) -> ObjectState | None:
    return get_current_object(run.stored.state.instances.get(address))


def _get_attributes(current: ObjectState | None) -> Mapping[str, object] | None:
    return None if current is None else current.attributes


def _list_names(objects: Mapping[Address, object]) -> str:
    return format_first_items(sorted(map(str, objects)), _MAX_NAMES)


def _observes_machines(run: Run, plan: Plan) -> bool:
    """Return whether a provider or an inventory shows the machines of the plan."""
    has_observation = bool(plan.basis.data_files) or any(
        provider.observes_objects for provider in run.providers.values()
    )
    return has_observation and bool(plan.sites)


def _list_broken_conditions(plan: Plan, new_plan: Plan) -> list[Diagnostic]:
    """Return the errors of a new plan with the limits and separation rules of a plan."""
    problems = list(_list_broken_separation_rules(plan, new_plan))
    limits = list_limits(plan)
    checked_plan = apply_limits(new_plan, limits)
    problems += _list_breaches(plan, checked_plan)
    if has_errors(problems) or not has_conditions(plan) or not new_plan.errored:
        return problems
    limits = [limit for limit in limits if limit.blocks]
    names = [format_limit(limit.name, limit.value) for limit in limits]
    names += [str(verdict.address) for verdict in plan.separation_verdicts if _is_denying(verdict)]
    if not names:
        # These are only limits of -warn-on.
        return problems
    unchecked = not limits or any(
        result.result == GuardRailOutcome.UNKNOWN for result in checked_plan.guard_rails
    )
    if not unchecked:
        return problems
    detail = (
        f"{format_list(names)} cannot be checked against the site: {_describe_failure(new_plan)}. "
        "No further changes were made. Repair the cause, or plan again."
    )
    return [build_error("saved-plan-guard-rail", detail)]


def _list_breaches(plan: Plan, checked_plan: Plan) -> Iterator[Diagnostic]:
    """Yield the limits that the site breaks now: errors, and warnings for those of -warn-on.

    A limit of -warn-on that asked for a review in the plan already was reviewed.
    """
    reviewed_limits = {
        format_limit(result.name, result.limit)
        for result in plan.guard_rails
        if result.result == GuardRailOutcome.REVIEW
    }
    for breach in checked_plan.diagnostics:
        changed = f"The site changed since the plan. {breach.detail}"
        if breach.id == GUARD_RAIL:
            detail = f"{changed} No further changes were made. Plan again and review the new plan."
            yield build_error("saved-plan-guard-rail", detail)
        elif breach.id == GUARD_RAIL_REVIEW and get_limit_text(breach) not in reviewed_limits:
            yield build_warning("saved-plan-guard-rail", changed)


def _is_denying(verdict: SeparationVerdict) -> bool:
    return verdict.enforcement != "warn"


def _list_broken_separation_rules(plan: Plan, new_plan: Plan) -> Iterator[Diagnostic]:
    """Yield an error for each separation rule that held in the plan, and not in the new one."""
    planned_verdicts = {verdict.address: verdict for verdict in plan.separation_verdicts}
    for verdict in new_plan.separation_verdicts:
        planned = planned_verdicts.get(verdict.address)
        if planned is None or not _is_denying(verdict) or verdict.satisfied == "always":
            continue
        if verdict.satisfied == planned.satisfied and verdict.violations == planned.violations:
            continue
        places = [
            " on ".join(filter(None, (format_list(violation.members), violation.machine)))
            for violation in verdict.violations
        ]
        reason = f" ({format_first_items(places, _MAX_NAMES)})" if places else ""
        yield build_error(
            "saved-plan-separation",
            f"The site changed since the plan: {verdict.address} holds "
            f"{verdict.satisfied}{reason}; in the plan it was {planned.satisfied}. No further "
            "changes were made. Plan again and review the new plan.",
        )


def _list_failed_machines(plan: Plan, new_plan: Plan) -> Iterator[Diagnostic]:
    """Yield a warning that names the machines that failed, or are missing, since the plan."""
    known = {(row.site_id, row.machine) for row in list_out_of_service(plan.sites)}
    failed = [
        f"{row.machine} on {row.site}"
        for row in list_out_of_service(new_plan.sites)
        if (row.site_id, row.machine) not in known
    ]
    remaining = {key for site in new_plan.sites for key in _list_machines(site)}
    failed += [
        f"{machine} on {site.name} (missing)"
        for site in plan.sites
        for site_id, machine in _list_machines(site)
        if (site_id, machine) not in remaining
    ]
    if failed:
        detail = (
            f"Since the plan, {format_count(len(failed), 'machine')} went out of service: "
            f"{format_first_items(failed, _MAX_NAMES)}. The plan may place VMs there, and VMs "
            "there may be down. To place them elsewhere, plan again."
        )
        yield build_warning("machines-failed-since-plan", detail)


def _list_machines(site: SiteVms) -> list[tuple[str, str]]:
    """List the machines that exist before a plan: id of the site and name."""
    return [(site.id, machine.facts.name) for machine in site.machines if machine.exists_before]


def _build_unread_warning(new_plan: Plan) -> Diagnostic:
    detail = (
        f"The site cannot be planned again: {_describe_failure(new_plan)}. Machines that failed "
        "since the plan are unknown."
    )
    return build_warning("machines-not-checked", detail)


def _describe_failure(plan: Plan) -> str:
    errors = select_errors(plan.diagnostics)
    return errors[0].summary if errors else "planning failed"
