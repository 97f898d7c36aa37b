"""Values known only after apply, filled in when apply begins: the plan is made once more with the
time and random functions answering; what was known must come out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, error
from nexusform.plain_data import has_unknown
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.plan import Change, Plan, Step
from nexusform.planning.request import PlanRequest
from nexusform.values import UNKNOWN


def is_unfinished(plan: Plan) -> bool:
    """Whether any object of the plan holds a value known only after apply."""
    return any(has_unknown(change.after) for change in plan.changes)


def finalised(
    plan: Plan, request: PlanRequest, make: Callable[[PlanRequest], PlanResult]
) -> tuple[Plan, list[Diagnostic]]:
    """The plan with every value known. Nothing that was known may change: that is an error."""
    if not is_unfinished(plan):
        return plan, []
    again = make(replace(request, applying=True, tie_breaks=0, ways_out=False, want_rejected=False))
    known = {(c.address, c.deposed): c for c in again.plan.changes}
    changes, problems = [], []
    for change in plan.changes:
        final = known.get((change.address, change.deposed))
        values, differing = _filled(change, final)
        if differing:
            problems.append(_inconsistent(change.address, differing))
        changes.append(replace(change, after=values))
    steps = tuple(_step(step, changes[step.change]) for step in plan.steps)
    return replace(plan, changes=tuple(changes), steps=steps), problems


def _step(step: Step, change: Change) -> Step:
    if step.planned is None or not has_unknown(step.planned):
        return step
    return replace(step, planned=change.after)


def _filled(change: Change, final: Change | None) -> tuple[Mapping[str, Any] | None, str]:
    """The values with their unknown leaves from the final plan, and the first name that differs."""
    if change.after is None or not has_unknown(change.after):
        return change.after, ""
    if final is None or final.after is None:
        return change.after, "id"
    for name, value in change.after.items():
        if not _agrees(value, final.after.get(name)):
            return change.after, name
    return final.after, ""


def _agrees(planned: Any, final: Any) -> bool:
    if planned is UNKNOWN:
        return True
    if isinstance(planned, dict) and isinstance(final, dict):
        return planned.keys() == final.keys() and all(_agrees(v, final[k]) for k, v in planned.items())
    if isinstance(planned, list) and isinstance(final, list):
        return len(planned) == len(final) and all(map(_agrees, planned, final))
    return bool(planned == final)


def _inconsistent(address: Address, name: str) -> Diagnostic:
    return error(
        "plan-changed-before-it-was-applied",
        f'"{name}" of {address} was known in the plan and came out otherwise when apply began. Nothing was '
        "changed; make a new plan.",
        address=str(address),
    )
