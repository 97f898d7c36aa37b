"""Trials of the selection suggested by a rejection, before it is reported."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import PlanRequest, build_trial_request
from nexusform.planning.vm_planning.vm_object import SELECTION_KEY

_MAXIMUM_STEPS = 4  # added targets may exclude others


def verify_suggested_selection(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """Return the result; if the plan with the suggested selection is rejected, too, with its reason."""
    trial_request = replace(build_trial_request(request), samples=0)
    last_result = result
    for _ in range(_MAXIMUM_STEPS):
        targets, excludes = list(trial_request.targets), list(trial_request.excludes)
        for problem in last_result.plan.diagnostics:
            suggestion = problem.extra.get(SELECTION_KEY) or {}
            targets += suggestion.get("targets", ())
            excludes = [pattern for pattern in excludes if pattern not in suggestion.get("excludes", ())]
        trial_request = replace(trial_request, targets=tuple(dict.fromkeys(targets)), excludes=tuple(excludes))
        last_result = make_plan(trial_request)
        if not any(SELECTION_KEY in problem.extra for problem in last_result.plan.diagnostics):
            break
    reason = next(
        (diagnostic for diagnostic in last_result.plan.diagnostics if diagnostic.severity is Severity.ERROR), None
    )
    if reason is None:
        return result
    diagnostics = [_add_rejection_reason(diagnostic, reason) for diagnostic in result.plan.diagnostics]
    return replace(result, plan=replace(result.plan, diagnostics=tuple(diagnostics)))


def _add_rejection_reason(problem: Diagnostic, reason: Diagnostic) -> Diagnostic:
    if SELECTION_KEY not in problem.extra:
        return problem
    prefix = f"{reason.address}: " if reason.address else ""
    addition = f"That plan is rejected too. Fix this first: {prefix}{reason.detail}"
    return replace(problem, detail=f"{problem.detail} {addition}")
