"""Trials of suggested fixes: the plan of a request with edits."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit, apply_edits
from nexusform.planning.plan_request import PlanRequest, build_trial_request


def has_no_errors(outcome: PlanResult) -> bool:
    """Return whether a trial has no errors."""
    return not outcome.plan.errored


def plan_trial(
    request: PlanRequest,
    make_plan: Callable[[PlanRequest], PlanResult],
    edits: Iterable[Edit],
    is_successful: Callable[[PlanResult], bool] = has_no_errors,
) -> PlanResult:
    """Return the plan of a request with edits, without remedies and explanations.

    Most trials fail by capacity: only a successful one is planned again with samples of unknown
    NUMA cells, if the request has samples.
    """
    trial_request = apply_edits(build_trial_request(request), edits)
    outcome = make_plan(replace(trial_request, samples=0))
    has_samples = outcome.plan.figures.numa_sampling is not None and request.samples != 0
    return make_plan(trial_request) if has_samples and is_successful(outcome) else outcome
