"""Rollouts as rows: time, stage or wave, and action."""

from __future__ import annotations

from typing import Final

from nexusform.diagnostics.phrases import format_duration, format_first_items
from nexusform.plans.plan import Plan, Rollout, RolloutStep
from nexusform.rendering.report.report_tree import Row, Table

_MAX_CLUSTERS: Final = 6
_STATUSES: Final = {"done": " (done before)", "stuck": " (fails there)", "later": " (later)"}


def build_rollout_tables(plan: Plan) -> tuple[Table, ...]:
    """Return a table of start time, stage or wave, and action per rollout, in plan order."""
    return tuple(_build_table(rollout) for rollout in plan.rollouts)


def _build_table(rollout: Rollout) -> Table:
    snapshot = "" if rollout.resource_snapshot is None else f", resource snapshot {rollout.resource_snapshot}"
    caption = f"{rollout.address}: {rollout.cause}{snapshot}"
    return Table(("from", "stage", "what"), tuple(Row(_build_row(step)) for step in rollout.steps), caption=caption)


def _build_row(step: RolloutStep) -> tuple[str, str, str]:
    """Return start time, stage and action of a step."""
    begins = f"+{format_duration(step.start_seconds)}" if step.start_seconds else "start"
    return begins, _format_stage(step), f"{_describe_step(step)}{_STATUSES.get(step.status, '')}"


def _format_stage(step: RolloutStep) -> str:
    """Return the wave of a step, or its stage and group."""
    if not step.stage:
        return f"wave {step.group}"
    name = "delete stage" if step.kind == "delete" else step.stage
    return f"{name}, group {step.group}" if step.group and step.kind != "delete" else name


def _describe_step(step: RolloutStep) -> str:
    """Return the action of a step: update, delete, wait or approval."""
    if step.kind == "wait":
        return f"wait {format_duration(step.wait_seconds)}"
    if step.kind == "approval":
        approval_text = {"waiting": "waits for approval", "later": "approval"}.get(step.status, "approved:")
        return f"{approval_text} {step.waits_for}"
    verb = "delete" if step.kind == "delete" else "update"
    return f"{verb} {format_first_items(step.clusters, _MAX_CLUSTERS)}"
