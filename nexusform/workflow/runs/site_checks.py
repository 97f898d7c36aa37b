"""Checks of a plan against the site as it is now, at the moment of the write.

The limits of `-fail-on` and separation rules held when the plan was made. Between plan and apply,
others may have changed the site.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from nexusform.diagnostics.phrases import format_first_items, format_list
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.plans.impact.approved_consequences import (
    list_smaller_consequences,
    list_unapproved_consequences,
)
from nexusform.plans.impact.guard_rails import (
    GUARD_RAIL,
    GUARD_RAIL_REVIEW,
    STRANDED,
    apply_limits,
    format_limit,
    get_limit_text,
    list_limits,
)
from nexusform.plans.impact.site_changes import list_site_changes
from nexusform.plans.plan import Mode, Plan, SeparationVerdict
from nexusform.plans.plan_checks import GuardRailOutcome
from nexusform.plans.saved.plan_comparison import list_visible_differences
from nexusform.resources.address import Address
from nexusform.state.objects import ObjectState, State, get_current_object
from nexusform.workflow.opening.provider_setup import create_providers
from nexusform.workflow.opening.stored_state import StoredState, compute_state_digest
from nexusform.workflow.runs.run import Run, build_base_request, get_plan_options
from nexusform.workflow.runs.state_refresh import refresh_request

# A plan is checked again if no step started for this time.
MAXIMUM_WAIT_SECONDS: Final = 600.0
_MAX_NAMES: Final = 5
_MAX_CHANGES: Final = 20
UNCHECKED_SITE: Final = "site-not-checked"
NOT_APPROVED: Final = "consequence-not-approved"


def needs_replay(run: Run, plan: Plan) -> bool:
    """Return whether others may change the site of a plan with steps, or it has conditions."""
    if plan.options.mode is Mode.REFRESH_ONLY or not plan.steps:
        return False
    has_conditions = bool(plan.verdicts.guard_rails) or any(
        map(_is_denying, plan.verdicts.separation_verdicts)
    )
    is_observed = bool(plan.basis.data_files) or any(
        provider.observes_objects for provider in run.providers.values()
    )
    return has_conditions or is_observed


def check_approved_consequences(
    run: Run, plan: Plan, *, is_started: bool = False
) -> list[Diagnostic]:
    """Replay the steps of an approved plan on the site as the providers of the run read it.

    Return errors for consequences that the plan did not show, broken guard rails and separation
    rules, and for a site that cannot be read. Return warnings about other changes of the site,
    unless the apply `is_started`: then the steps changed it, too.
    """
    if not needs_replay(run, plan):
        return []
    options = replace(get_plan_options(plan), replayed=plan)
    # Samples only if a verdict depends on them.
    if (
        not plan.verdicts.guard_rails
        and not plan.verdicts.separation_verdicts
        and plan.figures.numa_sampling is None
    ):
        options = replace(options, samples=0)
    replay = run.plan(options).plan
    problems = list(_list_broken_separation_rules(plan, replay))
    errors = select_errors(replay.diagnostics)
    if errors:
        problems += _list_errors_of_steps(plan, errors)
        return problems or [_build_unchecked_finding(run, errors[0])]
    clauses = list_unapproved_consequences(plan, replay)
    if clauses:
        # What happens there without the steps is not theirs.
        clauses = list_unapproved_consequences(plan, replay, run.plan_without_steps(plan))
    if clauses:
        problems.append(_build_rejection(format_first_items(clauses, _MAX_NAMES, separator=". ")))
    problems += _list_breaches(plan, apply_limits(replay, list_limits(plan)))
    # Afterwards, changes are also those of the steps.
    if not is_started:
        is_stopped = has_errors(problems)
        types = run.project.registries.resource_types
        changes = list_site_changes(plan, replay, types)
        problems += _list_site_changes(changes, is_stopped=is_stopped)
        problems += () if is_stopped else _list_smaller(plan, replay)
    return problems


def _list_site_changes(changes: Sequence[str], *, is_stopped: bool) -> Iterator[Diagnostic]:
    """Yield a warning with a line for each change of the site since the plan."""
    if not changes:
        return
    listed = format_first_items(changes, _MAX_CHANGES, separator="; ")
    result = (
        "The plan is applied as reviewed. To use what the site has now, plan again."
        if not is_stopped
        else "The plan is not applied."
    )
    yield build_warning(
        "site-changed-since-plan", f"Since the plan, the site changed: {listed}. {result}"
    )


def check_consequences_again(run: Run, plan: Plan, state: State) -> list[Diagnostic]:
    """Replay the steps of an approved plan on the site as it is now.

    `state` is the current one, of an apply in progress. The site is read by new providers: those of
    the run keep what they read before.
    """
    if not needs_replay(run, plan):
        return []
    with _begin_new_reading(run, state) as (check, problems):
        if has_errors(problems):
            return [_build_unchecked_finding(run, select_errors(problems)[0])]
        return check_approved_consequences(check, plan, is_started=True)


def _build_rejection(reason: str) -> Diagnostic:
    """Build the error about steps with another effect than the plan showed; no final period."""
    return build_error(NOT_APPROVED, f"{reason}. No further changes were made. Plan again.")


def _list_errors_of_steps(plan: Plan, errors: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield an error for each object with a step that cannot be made on the site as it is now."""
    step_addresses = {str(plan.changes[step.change].address) for step in plan.steps}
    for problem in errors:
        if problem.id == STRANDED or problem.address in step_addresses:
            yield _build_rejection(f"The site changed since the plan: {problem.detail.rstrip('.')}")


def _list_smaller(plan: Plan, replay: Plan) -> Iterator[Diagnostic]:
    """Yield a warning about approved consequences that the steps do not have any more."""
    texts = list_smaller_consequences(plan, replay)
    if texts:
        yield build_warning(
            "consequence-smaller",
            f"The plan showed more than happens now: {format_first_items(texts, _MAX_NAMES)}. "
            "The site changed since the plan.",
        )


def record_unchecked_site(plan: Plan, problems: Sequence[Diagnostic]) -> Plan:
    """Return the plan with the word of a person that its site is not checked.

    The journal has the plan, and so have the reports.
    """
    accepted = [problem for problem in problems if problem.id == UNCHECKED_SITE]
    return replace(plan, diagnostics=(*plan.diagnostics, *accepted)) if accepted else plan


def _build_unchecked_finding(run: Run, cause: Diagnostic) -> Diagnostic:
    """Build the error about a site that cannot be read or replayed, a warning if it is allowed."""
    reason = cause.detail or cause.summary
    detail = f"The steps of the plan cannot be checked against the site: {reason}"
    if run.project.context.allow_unchecked_site:
        return build_warning(
            UNCHECKED_SITE, f"{detail} They are applied unchecked (-allow-unchecked-site)."
        )
    return build_error(
        UNCHECKED_SITE,
        f"{detail} No further changes were made. Repair the cause, or plan again. To apply the "
        "steps unchecked, add -allow-unchecked-site.",
    )


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


def check_after_approval(run: Run, plan: Plan) -> tuple[Plan, list[Diagnostic]]:
    """Replay the steps of a plan that a person approved; approval takes time.

    Return the plan with its drift as read now, and diagnostics. A refresh-only plan records nothing
    else than this drift, so another one now is an error.
    """
    if not plan.observed.refreshed_objects and not needs_replay(run, plan):
        return plan, []
    with _begin_new_reading(run, run.stored.state) as (check, problems):
        if has_errors(problems):
            return plan, problems
        if plan.options.mode is not Mode.REFRESH_ONLY:
            findings = check_approved_consequences(check, plan)
            plan, drift_findings = read_drift_again(check, plan)
            return plan, [*findings, *drift_findings]
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
        for address, planned in plan.observed.refreshed_objects.items()
        if address in own_addresses
    }
    drifted = {
        address: planned
        for address, planned in plan.observed.refreshed_objects.items()
        if address not in own_addresses
    }
    if plan.options.mode is Mode.REFRESH_ONLY or not drifted:
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
        return replace(plan, observed=replace(plan.observed, refreshed_objects=kept)), [warning]
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
    return replace(
        plan, observed=replace(plan.observed, refreshed_objects={**kept, **current})
    ), warnings


def _get_recorded(run: Run, address: Address) -> ObjectState | None:
    return get_current_object(run.stored.state.instances.get(address))


def _get_attributes(current: ObjectState | None) -> Mapping[str, object] | None:
    return None if current is None else current.attributes


def _list_names(objects: Mapping[Address, object]) -> str:
    return format_first_items(sorted(map(str, objects)), _MAX_NAMES)


def _list_breaches(plan: Plan, checked_plan: Plan) -> Iterator[Diagnostic]:
    """Yield the limits that the site breaks now: errors, and warnings for those of -warn-on.

    A limit of -warn-on that asked for a review in the plan already was reviewed.
    """
    reviewed_limits = {
        format_limit(result.name, result.limit)
        for result in plan.verdicts.guard_rails
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
    planned_verdicts = {verdict.address: verdict for verdict in plan.verdicts.separation_verdicts}
    for verdict in new_plan.verdicts.separation_verdicts:
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


def _describe_failure(plan: Plan) -> str:
    errors = select_errors(plan.diagnostics)
    return errors[0].summary if errors else "planning failed"
