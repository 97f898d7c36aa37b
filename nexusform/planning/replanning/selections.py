"""Whether the selection that a refusal proposes is planned: it is tried before anybody is sent there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.request import PlanRequest
from nexusform.planning.verdicts.stranded import SELECTION

_MOST_STEPS = 4  # what is added may leave others out


def tried(
    request: PlanRequest, result: PlanResult, make_plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """The result; where the plan with all that is proposed is refused, too, with the reason."""
    again = replace(request, ways_out=False, lint=False, want_rejected=False, explain=(), tie_breaks=0)
    last = result
    for _ in range(_MOST_STEPS):
        again = _with_proposed(again, last.plan.diagnostics)
        last = make_plan(again)
        if not any(SELECTION in problem.extra for problem in last.plan.diagnostics):
            break
    reason = next((each for each in last.plan.diagnostics if each.severity is Severity.ERROR), None)
    if reason is None:
        return result
    told = [_with_reason(each, reason) for each in result.plan.diagnostics]
    return replace(result, plan=replace(result.plan, diagnostics=tuple(told)))


def _with_proposed(request: PlanRequest, problems: Iterable[Diagnostic]) -> PlanRequest:
    targets, excludes = list(request.targets), list(request.excludes)
    for problem in problems:
        proposed = problem.extra.get(SELECTION) or {}
        targets += proposed.get("targets", ())
        excludes = [each for each in excludes if each not in proposed.get("excludes", ())]
    return replace(request, targets=tuple(dict.fromkeys(targets)), excludes=tuple(excludes))


def _with_reason(problem: Diagnostic, reason: Diagnostic) -> Diagnostic:
    if SELECTION not in problem.extra:
        return problem
    about = f"{reason.address}: " if reason.address else ""
    more = f"That plan is refused as well, and this is to be put right first: {about}{reason.detail}"
    return replace(problem, detail=f"{problem.detail} {more}")
