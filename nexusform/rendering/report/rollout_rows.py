"""Rollouts as rows for people: when, which stage or wave, and what happens. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from nexusform.plans.plan import Plan, Rollout, RolloutStep
from nexusform.words import counted, duration

HEADS: Final = ("from", "stage", "what")
_MOST_CLUSTERS: Final = 6
_STATUSES: Final = {"done": " (done before)", "stuck": " (fails there)", "later": " (later)"}


class RolloutTable(Struct, frozen=True):
    """One rollout: its title, and (from when, stage or wave, what) step by step."""

    title: str
    rows: tuple[tuple[str, str, str], ...]

    def first(self, most: int) -> tuple[Sequence[tuple[str, str, str]], str]:
        """The first rows, and words for those left out ("" = none)."""
        left_out = len(self.rows) - most
        return self.rows[:most], f"and {counted(left_out, 'more step')}" if left_out > 0 else ""


def rollout_tables(plan: Plan) -> tuple[RolloutTable, ...]:
    """The rollouts of a plan, in its order."""
    return tuple(_table(rollout) for rollout in plan.rollouts)


def _table(rollout: Rollout) -> RolloutTable:
    """One rollout as a table."""
    snapshot = "" if rollout.resource_snapshot is None else f", resource snapshot {rollout.resource_snapshot}"
    title = f"{rollout.address}: {rollout.cause}{snapshot}"
    return RolloutTable(title, tuple(_row(step) for step in rollout.steps))


def _row(step: RolloutStep) -> tuple[str, str, str]:
    """One step: from when, where, and what."""
    begins = f"+{duration(step.begins)}" if step.begins else "start"
    return begins, _place(step), f"{_what(step)}{_STATUSES.get(step.status, '')}"


def _place(step: RolloutStep) -> str:
    """The wave of a step, or its stage and group."""
    if not step.stage:
        return f"wave {step.group}"
    name = "delete stage" if step.kind == "delete" else step.stage
    return f"{name}, group {step.group}" if step.group and step.kind != "delete" else name


def _what(step: RolloutStep) -> str:
    """What a step does: updates or deletes, waits for time, or for an approval."""
    if step.kind == "wait":
        return f"wait {duration(step.wait_seconds)}"
    if step.kind == "approval":
        word = {"waiting": "waits for approval", "later": "approval"}.get(step.status, "approved:")
        return f"{word} {step.waits_for}"
    verb = "delete" if step.kind == "delete" else "update"
    unnamed = len(step.clusters) - _MOST_CLUSTERS
    shown = ", ".join(step.clusters[:_MOST_CLUSTERS])
    further = f" and {unnamed} more" if unnamed > 0 else ""
    return f"{verb} {shown}{further}"
