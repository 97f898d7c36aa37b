"""Staged update runs: the rollout of a placement whose strategy is External.

Source: KubeFleet pkg/controllers/updaterun. A run fixes its stages when it is initialised; it then
updates the clusters of a stage, at most max_concurrency at a time, and deletes unpicked ones at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState, Member, PolicySnapshot
from nexusform.kubernetes.matching import LabelSelector, matches, selector_problems
from nexusform.kubernetes.quantity import Amount

APPROVAL, TIMED_WAIT = "Approval", "TimedWait"
DELETE_STAGE = "kubernetes-fleet.io/deleteStage"
_SHOWN = 10


class RunState(StrEnum):
    """What the user wants of a run."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


class Task(Struct, frozen=True):
    """Something to wait for before or after a stage: an approval, or a number of seconds."""

    type: str
    wait_seconds: float | None = None


class Stage(Struct, frozen=True):
    """A stage of a strategy. `label_selector` None selects nobody, an empty one every picked cluster.

    With a sorting key, clusters come by that label read as a whole number, then by name.
    """

    name: str
    label_selector: LabelSelector | None = None
    sorting_label_key: str | None = None
    max_concurrency: Amount = Amount(1)
    before: tuple[Task, ...] = ()
    after: tuple[Task, ...] = ()


class StagePlan(Struct, frozen=True):
    """A stage with its clusters in order and how many are updated at a time."""

    name: str
    clusters: tuple[str, ...]
    at_a_time: int
    before: tuple[Task, ...]
    after: tuple[Task, ...]


class RunPlan(Struct, frozen=True):
    """What a run fixed when it was initialised; `deletes` are the unpicked clusters, by name."""

    policy_snapshot: int
    cluster_count: int
    stages: tuple[StagePlan, ...]
    deletes: tuple[str, ...]


class RunProblem(Struct, frozen=True):
    """Why a run cannot be initialised."""

    message: str


def initialize(
    bindings: Iterable[Binding],
    snapshot: PolicySnapshot,
    number: int | None,
    fulfilled: bool,
    members: Iterable[Member],
    stages: Iterable[Stage],
) -> RunPlan | RunProblem:
    """Put every picked cluster into its stage.

    `number` is N of a PickN, the number of names of a PickFixed, None for a PickAll.
    """
    if not fulfilled:
        return RunProblem("policy snapshot not fully scheduled yet")
    held = sorted((binding for binding in bindings if not binding.deleting), key=lambda b: b.cluster)
    scheduled = [binding for binding in held if binding.state is not BindingState.UNSCHEDULED]
    picked = [binding.cluster for binding in scheduled]
    deletes = tuple(binding.cluster for binding in held if binding.state is BindingState.UNSCHEDULED)
    behind = next((binding for binding in scheduled if binding.policy_snapshot != snapshot.index), None)
    if behind is not None:
        return RunProblem(
            f"binding on {behind.cluster} with old policy snapshot {behind.policy_snapshot} has state"
            f" {behind.state}, we might observe a transient state, need retry",
        )
    if not picked and not deletes:
        return RunProblem("no scheduled or to-be-deleted bindings found for the latest policy snapshot")
    if number is not None and number != len(picked):
        return RunProblem(
            f"the number of selected bindings {len(picked)} is not equal to the observed cluster count"
            f" {number}"
        )
    by_name = {member.name: member for member in members}
    plans = _assign(tuple(stages), picked, by_name)
    if isinstance(plans, RunProblem):
        return plans
    return RunPlan(snapshot.index, len(picked), plans, deletes)


def _assign(
    stages: tuple[Stage, ...], picked: list[str], members: Mapping[str, Member]
) -> tuple[StagePlan, ...] | RunProblem:
    """The stages with their clusters in order; every cluster that is picked must be in one stage."""
    assigned: set[str] = set()
    plans: list[StagePlan] = []
    for stage in stages:
        chosen = _clusters_of(stage, picked, members)
        if isinstance(chosen, RunProblem):
            return chosen
        twice = next((name for name in chosen if name in assigned), None)
        if twice is not None:
            return RunProblem(f"cluster `{twice}` appears in more than one stages")
        assigned |= {*chosen}
        ordered = _in_order(stage, chosen, members)
        if isinstance(ordered, RunProblem):
            return ordered
        at_a_time = max(1, stage.max_concurrency.of(len(ordered), up=False))
        plans.append(StagePlan(stage.name, ordered, at_a_time, stage.before, stage.after))
    missing = [name for name in picked if name not in assigned]
    if missing:
        return RunProblem(
            f"some clusters are not placed in any stage, total {len(missing)}, showing up to {_SHOWN}:"
            f" {', '.join(missing[:_SHOWN])}"
        )
    return tuple(plans)


def _clusters_of(stage: Stage, picked: list[str], members: Mapping[str, Member]) -> list[str] | RunProblem:
    """The clusters that a stage selects."""
    if stage.label_selector is None:
        return []
    problems = selector_problems(stage.label_selector)
    if problems:
        return RunProblem(f"the stage label selector is invalid, stage: {stage.name}, err: {problems[0]}")
    return [
        name for name in picked if name in members and matches(stage.label_selector, members[name].labels)
    ]


def _in_order(stage: Stage, chosen: list[str], members: Mapping[str, Member]) -> tuple[str, ...] | RunProblem:
    """The clusters of a stage in the order in which they are updated."""
    key = stage.sorting_label_key
    if key is None:
        return tuple(sorted(chosen))
    for name in chosen:
        written = members[name].labels.get(key, "")
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", written, re.ASCII):
            return RunProblem(
                f"the sorting label `{key}:{written}` on cluster `{name}` is not valid: not an integer"
            )
    return tuple(sorted(chosen, key=lambda name: (int(members[name].labels[key]), name)))


class StepKind(StrEnum):
    """What a step of a run is."""

    APPROVAL = "approval"
    UPDATE = "update"
    WAIT = "wait"
    DELETE = "delete"


class RunStep(Struct, frozen=True):
    """One step: the clusters it updates or deletes, or the task it waits for (an approval's name). `closed`:
    clusters that keep failing leave no room to begin these.
    """

    kind: StepKind
    stage: str
    clusters: tuple[str, ...] = ()
    task: str = ""
    wait_seconds: float = 0
    closed: bool = False


class RunOutcome(Struct, frozen=True):
    """The steps taken, the bindings after them, the approval that the run waits for ("" = none), and the
    clusters on which it is stuck.
    """

    steps: tuple[RunStep, ...]
    bindings: tuple[Binding, ...]
    waits_for: str = ""
    stuck: tuple[str, ...] = ()


def steps_of(plan: RunPlan, run: str, failing: frozenset[str] = frozenset()) -> tuple[RunStep, ...]:
    """Every step of a run in order: tasks before a stage, its clusters group by group, tasks after it; the
    deletions last. Tasks of one stage are waited for side by side. A stage without clusters is skipped with
    its tasks.

    A run begins the next cluster as soon as one is ready, so that at most so many are under way; the groups
    are those of clusters that all take the same time. One in `failing` is never ready and keeps its place.
    """
    steps: list[RunStep] = []
    for stage in plan.stages:
        if not stage.clusters:
            continue
        steps += _tasks(stage.before, stage.name, f"{run}-before-{stage.name}")
        steps += _groups(stage, failing)
        steps += _tasks(stage.after, stage.name, f"{run}-after-{stage.name}")
    if plan.deletes:
        steps.append(RunStep(StepKind.DELETE, DELETE_STAGE, plan.deletes))
    return tuple(steps)


def _groups(stage: StagePlan, failing: frozenset[str]) -> Iterator[RunStep]:
    """The clusters of a stage as they are begun; last those for which there is no room."""
    begun, room = 0, stage.at_a_time
    while room and begun < len(stage.clusters):
        group = stage.clusters[begun : begun + room]
        yield RunStep(StepKind.UPDATE, stage.name, group)
        begun += len(group)
        room -= sum(name in failing for name in group)
    if begun < len(stage.clusters):
        yield RunStep(StepKind.UPDATE, stage.name, stage.clusters[begun:], closed=True)


def _tasks(tasks: tuple[Task, ...], stage: str, approval: str) -> list[RunStep]:
    """The steps of the tasks before or after a stage."""
    steps: list[RunStep] = []
    for task in tasks:
        if task.type == APPROVAL:
            steps.append(RunStep(StepKind.APPROVAL, stage, task=approval))
        else:
            steps.append(RunStep(StepKind.WAIT, stage, wait_seconds=task.wait_seconds or 0))
    return steps


def execute(
    plan: RunPlan,
    run: str,
    bindings: Iterable[Binding],
    resource_snapshot: int,
    *,
    approved: frozenset[str] | None = None,
    failing: frozenset[str] = frozenset(),
    finished: frozenset[str] = frozenset(),
) -> RunOutcome:
    """Carry out a run as far as it gets. `approved` None: every approval is given; else those named. What it
    has `finished` before it does not do again, whatever became of these clusters since.

    A cluster in `failing` gets the resources and never has them ready: its stage goes on as far as there is
    room beside it, and does not end.
    """
    by_cluster = sorted(bindings, key=lambda binding: binding.cluster)
    held = {binding.cluster: binding for binding in by_cluster if not binding.deleting}
    done: list[RunStep] = []
    stuck: list[str] = []
    for step in steps_of(plan, run, failing):
        # A stage with stuck clusters begins its other ones, and nothing comes after it.
        of_stuck_stage = step.kind is StepKind.UPDATE and bool(done) and step.stage == done[-1].stage
        if step.closed or (stuck and not of_stuck_stage):
            break
        if step.kind is StepKind.APPROVAL and approved is not None and step.task not in approved:
            return RunOutcome(tuple(done), tuple(held.values()), waits_for=step.task)
        done.append(step)
        if step.kind is StepKind.DELETE:
            for name in step.clusters:
                held.pop(name, None)
        elif step.kind is StepKind.UPDATE:
            for name in step.clusters:
                binding = held.get(name)
                if binding is not None and name not in finished:
                    held[name] = replace(
                        binding, state=BindingState.BOUND, resource_snapshot=resource_snapshot
                    )
            stuck += [name for name in step.clusters if name in failing]
    return RunOutcome(tuple(done), tuple(held.values()), stuck=tuple(stuck))


_FORBIDDEN = {
    (RunState.INITIALIZE, RunState.STOP),
    (RunState.RUN, RunState.INITIALIZE),
    (RunState.STOP, RunState.INITIALIZE),
}


def transition_problem(before: RunState, after: RunState) -> str | None:
    """Why a run may not go from one state that is asked for to another; None when it may."""
    if (before, after) in _FORBIDDEN:
        return f"invalid state transition: cannot transition from {before} to {after}"
    return None
