"""Rollouts as rows: time, stage or wave, and action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, format_duration
from nexusform.plans.plan import Plan, Rollout, RolloutStep

HEADERS: Final = ("from", "stage", "what")
_MAX_CLUSTERS: Final = 6
_STATUSES: Final = {"done": " (done before)", "stuck": " (fails there)", "later": " (later)"}


class RolloutTable(Struct, frozen=True):
    """One rollout: its title and its steps (start time, stage or wave, action)."""

    title: str
    rows: tuple[tuple[str, str, str], ...]

    def limit_rows(self, maximum: int) -> tuple[Sequence[tuple[str, str, str]], str]:
        """Return the first rows and a text about the omitted ones ("" = none)."""
        hidden_count = len(self.rows) - maximum
        return self.rows[:maximum], f"and {format_count(hidden_count, 'more step')}" if hidden_count > 0 else ""


def build_rollout_tables(plan: Plan) -> tuple[RolloutTable, ...]:
    """Return the rollouts of a plan in plan order."""
    return tuple(_build_table(rollout) for rollout in plan.rollouts)


def _build_table(rollout: Rollout) -> RolloutTable:
    snapshot = "" if rollout.resource_snapshot is None else f", resource snapshot {rollout.resource_snapshot}"
    title = f"{rollout.address}: {rollout.cause}{snapshot}"
    return RolloutTable(title, tuple(_build_row(step) for step in rollout.steps))


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
    hidden_count = len(step.clusters) - _MAX_CLUSTERS
    cluster_names = ", ".join(step.clusters[:_MAX_CLUSTERS])
    suffix = f" and {hidden_count} more" if hidden_count > 0 else ""
    return f"{verb} {cluster_names}{suffix}"
