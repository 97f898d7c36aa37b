"""How surely a way out fits where it hangs on NUMA cells that nobody told, and which count surely does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.verdicts.draws import draws_in_words, surely_fit
from nexusform.plans.plan import Draws

# Each trial is a whole plan, repeated; halving finds one of a thousand counts.
MOST_TRIALS: Final = 10


def fits_in_some_draws(draws: Draws | None) -> bool:
    """Whether there are draws of unknown cells in which not everything fits; also where none was repeated."""
    return draws is not None and (not draws.runs or draws.fitting < draws.runs)


def drawn_note(result: PlanResult) -> str:
    """What to add to a way out: in how many draws it fits; "" where it hangs on none."""
    draws = result.plan.draws
    if draws is None:
        return ""
    return " It is certain." if surely_fit(result.sites) else f" It fits {draws_in_words(draws)}."


def certain_count_note(
    outcome: PlanResult, count: int, standing: int, trial: Callable[[int], PlanResult]
) -> str:
    """Which count of a pool is certain where `count` is not, of which `outcome` is the plan. `trial` plans
    with another one; `standing` of the pool's VMs stand already.
    """
    if not fits_in_some_draws(outcome.plan.draws):
        return ""
    fits, most = standing, count - 1
    best: PlanResult | None = None
    for _ in range(MOST_TRIALS):
        if fits >= most:
            break
        middle = (fits + most + 1) // 2
        smaller = trial(middle)
        if smaller.plan.errored or fits_in_some_draws(smaller.plan.draws):
            most = middle - 1
        else:
            fits, best = middle, smaller
    if not fits:
        return " No count fits in every draw."
    if best is None or surely_fit(best.sites):
        return f" {fits} is certain."
    return f" {fits} fits in all of them."
