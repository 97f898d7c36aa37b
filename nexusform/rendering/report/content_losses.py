"""Clauses about the objects that new content of placements removes from clusters."""

from nexusform.diagnostics.phrases import format_count
from nexusform.plans.plan import ContentEffect, Plan


def describe_content_losses(plan: Plan) -> list[str]:
    """Return clauses: `2 workloads to end`, `4 other objects to remove from clusters`.

    Pods of known number are counted by the effects of the plan.
    """
    workloads = sum(change.ends_workload for change in plan.content_changes)
    others = sum(change.is_loss for change in plan.content_changes) - workloads
    clauses = [f"{format_count(workloads, 'workload')} to end"] if workloads else []
    if others:
        noun = "other object" if workloads else "object"
        clauses.append(f"{format_count(others, noun)} to remove from clusters")
    recreated = sum(
        change.effect is ContentEffect.ROLLED_OUT and not change.pods and not change.has_rows
        for change in plan.content_changes
    )
    if recreated:
        clauses.append(f"pods of {format_count(recreated, 'DaemonSet')} to re-create")
    return clauses
