"""Certainty of a remedy that depends on unknown NUMA cells, and the largest certain count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.verdicts.numa_samples import format_numa_sampling, is_certain_fit
from nexusform.plans.plan import NumaSampling

# Each trial is a whole plan with samples; bisection finds one of a thousand counts.
MAXIMUM_TRIALS: Final = 10


def is_remedy_uncertain(numa_sampling: NumaSampling | None) -> bool:
    """Return whether some sample of unknown cells does not fit, or none was computed."""
    return numa_sampling is not None and (
        not numa_sampling.sample_count or numa_sampling.fitting_count < numa_sampling.sample_count
    )


def format_certainty_note(result: PlanResult) -> str:
    """Format a note for a remedy with the number of fitting samples; "" if it depends on none."""
    numa_sampling = result.plan.numa_sampling
    if numa_sampling is None:
        return ""
    return " It is certain." if is_certain_fit(result.sites) else f" It fits {format_numa_sampling(numa_sampling)}."


def format_certain_count_note(
    outcome: PlanResult, count: int, existing_count: int, plan_count: Callable[[int], PlanResult]
) -> str:
    """Format a note with the largest certain count of a pool if `count` is uncertain; `outcome` is its plan.
    `plan_count` plans with another count; `existing_count` is the number of existing VMs of the pool.
    """
    if not is_remedy_uncertain(outcome.plan.numa_sampling):
        return ""
    lower, upper = existing_count, count - 1
    best: PlanResult | None = None
    for _ in range(MAXIMUM_TRIALS):
        if lower >= upper:
            break
        middle = (lower + upper + 1) // 2
        smaller = plan_count(middle)
        if smaller.plan.errored or is_remedy_uncertain(smaller.plan.numa_sampling):
            upper = middle - 1
        else:
            lower, best = middle, smaller
    if not lower:
        return " No count fits in every sample."
    if best is None or is_certain_fit(best.sites):
        return f" {lower} is certain."
    return f" {lower} fits in all of them."
