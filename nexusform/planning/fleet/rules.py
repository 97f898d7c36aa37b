"""What may not change in a placement that stands: errors that name the way out, never a replacement."""

from __future__ import annotations

from nexusform.diagnostics import Diagnostic, Problem
from nexusform.plain_data import Path
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.scheduling.fleet.changes import check_policy_change, check_strategy_change
from nexusform.scheduling.fleet.validation import sentence


def changed_problems(placement: PlacementPlan) -> list[Diagnostic]:
    """The placement against the object that stands."""
    before, now = placement.before, placement.written
    if before is None:
        return []
    found = check_policy_change(before.policy, now.policy) + check_strategy_change(
        before.strategy, now.strategy
    )
    instance = placement.instance
    manifest = bool(instance.config and instance.config.get("manifest"))
    problems = []
    for each in found:
        path: Path = ("manifest",) if manifest else each.path
        if path == ("policy",) and now.policy is None:
            path = ()
        text = (
            f"{sentence(each.detail)} To make the placement anew, and with it every "
            f"binding, plan with -replace='{instance.address}'."
        )
        problems.append(instance.problem(Problem(path, "change-not-allowed", text)))
    return problems
