"""plan_hypothesis: a plan with edits, the plan without them, and their differences."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, DiagnosticsError
from nexusform.planning.conclusion.plan_assembly import build_unchanged_plan
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import add_consequences, add_site_capacity
from nexusform.planning.edits import Edit, MachineOutage, apply_edits
from nexusform.planning.hypothesis.assumptions import parse_assumption
from nexusform.planning.hypothesis.outages import list_outages
from nexusform.planning.plan_request import PlanRequest, build_trial_request
from nexusform.planning.planner import make_plan
from nexusform.plans.impact.previous_plan import compare_plans
from nexusform.plans.plan import build_hypothetical_plan
from nexusform.plans.plan_checks import PreviousPlanDifferences

_WITHOUT: Final = "the plan without assumptions"
# Adds what the plan of a request has besides its rows.
Completion: TypeAlias = Callable[[PlanResult, PlanRequest], PlanResult]


class Hypothesis(Struct, frozen=True):
    """Results of a request without edits and with them, and their differences.

    The differences are None if one of the plans failed.
    """

    before: PlanResult
    after: PlanResult
    comparison: PreviousPlanDifferences | None


def plan_hypothesis(
    request: PlanRequest,
    edits: Sequence[Edit],
    before: PlanResult | None = None,
    complete: Completion | None = None,
    assumptions: Sequence[str] = (),
) -> Hypothesis:
    """Plan a request with edits, and compare it with the plan without them.

    `before` is the completed plan without them, if several questions share it. `complete` adds
    what a plan has besides its rows; by default its sites and capacity. The plan after the edits is
    a HypotheticalPlan: it is never saved or applied. With `assumptions`, the edits as the user
    wrote them, it shows them and the differences.
    """
    complete = complete or _add_capacity
    if before is None:
        before = complete(make_plan(build_trial_request(request)), request)
    edited_request = apply_edits(request, edits)
    after = before
    # Outages change no request: the machines return with their VMs.
    if edited_request is not request:
        result = make_plan(replace(edited_request, allows_shortage=True))
        # Edits do not change the state.
        after = complete(replace(result, occupied_before=before.occupied_before), edited_request)
    comparison = None
    if not (before.plan.errored or after.plan.errored):
        comparison = compare_plans(after.plan, before.plan, _WITHOUT)
    outages = [edit for edit in edits if isinstance(edit, MachineOutage)]
    hypothetical_plan = build_hypothetical_plan(
        after.plan, assumptions=assumptions, outages=list_outages(after, outages)
    )
    if outages:
        hypothetical_plan = add_consequences(hypothetical_plan, request.registries)
    if assumptions:
        hypothetical_plan = replace(
            hypothetical_plan, verdicts=replace(hypothetical_plan.verdicts, since=comparison)
        )
    return Hypothesis(before, replace(after, plan=hypothetical_plan), comparison)


def _add_capacity(result: PlanResult, request: PlanRequest) -> PlanResult:
    return add_site_capacity(result, request.registries)


def plan_assumptions(
    request: PlanRequest, texts: Sequence[str], complete: Completion
) -> PlanResult:
    """Plan a request under assumptions as the user wrote them.

    The differences to the plan without assumptions are in `since` of the plan. An assumption that
    is not valid gives a failed plan with an error for each.
    """
    before = complete(make_plan(build_trial_request(request)), request)
    problems: list[Diagnostic] = []
    edits: list[Edit] = []
    # Without any object, the errors of the plan itself explain why.
    if not (before.plan.errored and not before.plan.changes):
        for text in texts:
            try:
                edits += parse_assumption(text, before, request.registries.resource_types).edits
            except DiagnosticsError as rejection:
                problems += rejection.diagnostics
    if problems:
        result = build_unchanged_plan(request, problems)
        return replace(result, plan=build_hypothetical_plan(result.plan, texts))
    return plan_hypothesis(request, edits, before, complete, texts).after
