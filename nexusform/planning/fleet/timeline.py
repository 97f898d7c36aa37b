"""A rollout as a timeline: what happens to which clusters at once, in which order, and what is waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.plan import Rollout, RolloutStep
from nexusform.scheduling.fleet.bindings import BindingState
from nexusform.scheduling.fleet.rollout import Wave
from nexusform.scheduling.fleet.staged import RunOutcome, RunStep, StepKind
from nexusform.words import duration

DONE, PLANNED, WAITING, STUCK, LATER = "done", "planned", "waiting", "stuck", "later"
_UPDATE: Final = str(StepKind.UPDATE)


def rolling_timeline(placement: PlacementPlan) -> Rollout | None:
    """The waves of a rolling update; None where one wave does all."""
    waves = placement.waves
    if len(waves) <= 1:
        return None
    index = placement.snapshots[-1].index if placement.snapshots else None
    return Rollout(placement.instance.address, "rolling update", index, tuple(_wave_steps(waves)))


def _wave_steps(waves: Sequence[Wave]) -> Iterator[RolloutStep]:
    begins: float = 0
    waited = ""
    for number, wave in enumerate(waves, 1):
        for kind, clusters in (
            (str(StepKind.DELETE), wave.deleted),
            (_UPDATE, tuple(sorted((*wave.updated, *wave.bound)))),
        ):
            if clusters:
                yield RolloutStep(kind, "", number, clusters, begins, waits_for=waited)
        waited = ""
        if wave.wait_seconds and number < len(waves):
            yield RolloutStep(str(StepKind.WAIT), "", number, (), begins, wave.wait_seconds)
            begins += wave.wait_seconds
            waited = duration(wave.wait_seconds)


def run_timeline(
    placement: PlacementPlan, run: str, resource_snapshot: int, steps: Sequence[RunStep], outcome: RunOutcome
) -> Rollout:
    """All steps of a staged run, of which `outcome` says how far it gets in this plan. To be called while the
    placement holds what it held before the run.
    """
    up = {
        binding.cluster
        for binding in placement.held
        if binding.state is BindingState.BOUND and binding.resource_snapshot == resource_snapshot
    }
    listed = tuple(_run_steps(steps, frozenset(up), outcome))
    return Rollout(placement.instance.address, f"staged run {run}", resource_snapshot, listed)


def _run_steps(steps: Sequence[RunStep], up: frozenset[str], outcome: RunOutcome) -> Iterator[RolloutStep]:
    begins: float = 0
    pending: float = 0  # the tasks of a stage are waited for side by side
    stage, group, stopped = "", 0, False
    waited: list[str] = []
    for number, step in enumerate(steps):
        if step.stage != stage:
            stage, group = step.stage, 0
        stopped = stopped or number >= len(outcome.steps)
        status = LATER if stopped else PLANNED
        if step.kind is StepKind.APPROVAL:
            waiting = bool(outcome.waits_for) and number == len(outcome.steps)
            stopped = stopped or waiting
            waited.append(step.task)
            status = WAITING if waiting else status
        elif step.kind is StepKind.WAIT:
            pending = max(pending, step.wait_seconds)
            waited.append(duration(step.wait_seconds))
        else:
            group += 1
            begins, pending = begins + pending, 0
            if step.kind is StepKind.UPDATE and not stopped and up.issuperset(step.clusters):
                status = DONE
            if not stopped and not set(step.clusters).isdisjoint(outcome.stuck):
                status = STUCK
        tells = step.clusters and waited
        yield RolloutStep(
            kind=str(step.kind),
            stage=stage,
            group=group if step.clusters else 0,
            clusters=step.clusters,
            begins=begins,
            wait_seconds=step.wait_seconds,
            waits_for=", ".join(waited) if tells else step.task,
            status=status,
        )
        if tells:
            waited = []
