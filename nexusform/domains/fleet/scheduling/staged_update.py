"""Staged update runs: rollouts with strategy External.

Source: KubeFleet pkg/controllers/updaterun.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    Member,
    PolicySnapshot,
    index_by_cluster,
    list_active_bindings,
    select_scheduled_bindings,
    split_clusters,
)
from nexusform.domains.fleet.scheduling.go_integers import parse_go_integer
from nexusform.kubernetes.matching import LabelSelector, is_selected, validate_selector
from nexusform.kubernetes.quantity import IntegerOrPercent

APPROVAL = "Approval"
TIMED_WAIT = "TimedWait"
DELETE_STAGE = "kubernetes-fleet.io/deleteStage"
_MAX_NAMES = 10


class RunState(StrEnum):
    """Requested state of a run."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


class UpdateStageTask(Struct, frozen=True):
    """Task before or after a stage: an approval, or a wait in seconds."""

    type: str
    wait_seconds: float | None = None


class Stage(Struct, frozen=True):
    """Stage of a strategy.

    `label_selector` None selects no cluster, an empty one every picked cluster. With a sorting key,
    clusters are sorted by that label as an integer, then by name.
    """

    name: str
    label_selector: LabelSelector | None = None
    sorting_label_key: str | None = None
    max_concurrency: IntegerOrPercent = IntegerOrPercent(1)
    before: tuple[UpdateStageTask, ...] = ()
    after: tuple[UpdateStageTask, ...] = ()


class UpdateStagePlan(Struct, frozen=True):
    """Stage with its ordered clusters and the number updated at a time."""

    name: str
    clusters: tuple[str, ...]
    concurrency: int
    before: tuple[UpdateStageTask, ...]
    after: tuple[UpdateStageTask, ...]


class StagedRunPlan(Struct, frozen=True):
    """Values fixed at the initialization of a run.

    `deletes` are the unscheduled clusters, by name.
    """

    policy_snapshot: int
    cluster_count: int
    stages: tuple[UpdateStagePlan, ...]
    deletes: tuple[str, ...]

    @property
    def updated_clusters(self) -> list[str]:
        """Clusters of all stages, in order."""
        return [cluster for stage in self.stages for cluster in stage.clusters]


class RunProblem(Struct, frozen=True):
    """Error that prevents the initialization of a run."""

    message: str


def initialize_staged_run(
    bindings: Iterable[Binding],
    snapshot: PolicySnapshot,
    number: int | None,
    is_fulfilled: bool,
    members: Iterable[Member],
    stages: Iterable[Stage],
) -> StagedRunPlan | RunProblem:
    """Assign every picked cluster to its stage, or return the reason for no start.

    `number` counts the requested clusters (None for a PickAll: not checked). `is_fulfilled` means
    that all clusters needed by the policy were found.
    """
    if not is_fulfilled:
        return RunProblem("policy snapshot not fully scheduled yet")
    active = list_active_bindings(bindings)
    scheduled = select_scheduled_bindings(active)
    picked_clusters = [binding.cluster for binding in scheduled]
    deletes = tuple(
        binding.cluster for binding in active if binding.state is BindingState.UNSCHEDULED
    )
    outdated = next(
        (binding for binding in scheduled if binding.policy_snapshot != snapshot.index), None
    )
    if outdated is not None:
        return RunProblem(
            f"binding on {outdated.cluster} with old policy snapshot {outdated.policy_snapshot} "
            "has state"
            f" {outdated.state}, we might observe a transient state, need retry"
        )
    if not picked_clusters and not deletes:
        return RunProblem(
            "no scheduled or to-be-deleted bindings found for the latest policy snapshot"
        )
    if number is not None and number != len(picked_clusters):
        text = (
            f"the number of selected bindings {len(picked_clusters)} is not equal to the observed "
            "cluster count"
        )
        return RunProblem(f"{text} {number}")
    by_name = {member.name: member for member in members}
    plans = _assign_clusters_to_stages(tuple(stages), picked_clusters, by_name)
    if isinstance(plans, RunProblem):
        return plans
    return StagedRunPlan(
        snapshot.index, cluster_count=len(picked_clusters), stages=plans, deletes=deletes
    )


def _assign_clusters_to_stages(
    stages: tuple[Stage, ...], picked_clusters: list[str], members: Mapping[str, Member]
) -> tuple[UpdateStagePlan, ...] | RunProblem:
    """Return the stages with their ordered clusters.

    A problem unless every picked cluster is in exactly one stage.
    """
    assigned: set[str] = set()
    plans: list[UpdateStagePlan] = []
    for stage in stages:
        for number, task in enumerate(stage.after):
            # accepted by the API, but not by a run.
            if task.type == TIMED_WAIT and not task.wait_seconds:
                reason = f"task {number} of type TimedWait has wait duration <= 0"
                return RunProblem(
                    f"the after stage tasks are invalid, stage: {stage.name}, err: {reason}"
                )
        stage_clusters = _select_clusters(stage, picked_clusters, members)
        if isinstance(stage_clusters, RunProblem):
            return stage_clusters
        duplicate = next((name for name in stage_clusters if name in assigned), None)
        if duplicate is not None:
            return RunProblem(f"cluster `{duplicate}` appears in more than one stages")
        assigned |= {*stage_clusters}
        ordered = _sort_clusters(stage, stage_clusters, members)
        if isinstance(ordered, RunProblem):
            return ordered
        # 10% of 5 clusters: 1.
        concurrency = max(1, stage.max_concurrency.compute(len(ordered), rounds_up=False))
        plans.append(UpdateStagePlan(stage.name, ordered, concurrency, stage.before, stage.after))
    _assigned, missing = split_clusters(picked_clusters, assigned)
    if missing:
        return RunProblem(
            f"some clusters are not placed in any stage, total {len(missing)}, showing up to "
            f"{_MAX_NAMES}:"
            f" {', '.join(missing[:_MAX_NAMES])}"
        )
    return tuple(plans)


def _select_clusters(
    stage: Stage, picked_clusters: list[str], members: Mapping[str, Member]
) -> list[str] | RunProblem:
    """Return the picked members with labels selected by a stage.

    There are none if the stage has no selector.
    """
    if stage.label_selector is None:
        return []
    problems = validate_selector(stage.label_selector)
    if problems:
        return RunProblem(
            f"the stage label selector is invalid, stage: {stage.name}, err: {problems[0]}"
        )
    names = [name for name in picked_clusters if name in members]
    return [name for name in names if is_selected(stage.label_selector, members[name].labels)]


def _sort_clusters(
    stage: Stage, clusters: list[str], members: Mapping[str, Member]
) -> tuple[str, ...] | RunProblem:
    """Return the clusters of a stage in update order.

    A problem if one has no integer in the sorting label.
    """
    key = stage.sorting_label_key
    if key is None:
        return tuple(sorted(clusters))
    positions: dict[str, int] = {}
    for name in clusters:
        value = members[name].labels.get(key, "")
        number = parse_go_integer(value)
        # An error message.
        if isinstance(number, str):
            return RunProblem(
                f"the sorting label `{key}:{value}` on cluster `{name}` is not valid: {number}"
            )
        positions[name] = number
    return tuple(sorted(clusters, key=lambda name: (positions[name], name)))


class RunStepKind(StrEnum):
    """Kind of a step in a run."""

    APPROVAL = "approval"
    UPDATE = "update"
    WAIT = "wait"
    DELETE = "delete"


class RunStep(Struct, frozen=True):
    """Step of a run: clusters to update or delete, or a task (an approval's name).

    `is_blocked` means that failing clusters use up the concurrency, so these never start.
    """

    kind: RunStepKind
    stage: str
    clusters: tuple[str, ...] = ()
    task: str = ""
    wait_seconds: float = 0
    is_blocked: bool = False


class StagedRunOutcome(Struct, frozen=True):
    """Steps taken, the bindings after them, and what the run waits for.

    It waits for an approval ("": none), or for failing clusters that block it.
    """

    steps: tuple[RunStep, ...]
    bindings: tuple[Binding, ...]
    pending_approval: str = ""
    blocking_clusters: tuple[str, ...] = ()


def list_run_steps(
    plan: StagedRunPlan, run: str, failing: frozenset[str] = frozenset()
) -> tuple[RunStep, ...]:
    """Return every step of a run.

    By stage the tasks before it, its clusters by group, and the tasks after it; at the end the
    deletions. A run starts the next cluster once one is ready, so at most `concurrency` are in
    progress. The groups assume equal durations, and tasks run in parallel. A cluster in `failing`
    is never ready and keeps its slot.
    """
    steps: list[RunStep] = []
    for stage in plan.stages:
        if not stage.clusters:
            # skipped with its tasks.
            continue
        steps += _build_task_steps(stage.before, stage.name, f"{run}-before-{stage.name}")
        # The clusters of a stage in start order; last those without a free slot.
        started_count = 0
        free_slots = stage.concurrency
        while free_slots and started_count < len(stage.clusters):
            group = stage.clusters[started_count : started_count + free_slots]
            steps.append(RunStep(RunStepKind.UPDATE, stage.name, group))
            started_count += len(group)
            # kept by clusters never ready.
            free_slots -= len(failing.intersection(group))
        if started_count < len(stage.clusters):
            steps.append(
                RunStep(
                    RunStepKind.UPDATE, stage.name, stage.clusters[started_count:], is_blocked=True
                )
            )
        steps += _build_task_steps(stage.after, stage.name, f"{run}-after-{stage.name}")
    if plan.deletes:
        steps.append(RunStep(RunStepKind.DELETE, DELETE_STAGE, plan.deletes))
    return tuple(steps)


def _build_task_steps(
    tasks: tuple[UpdateStageTask, ...], stage: str, approval: str
) -> list[RunStep]:
    """Return the steps of the tasks before or after a stage.

    `approval` is the name of its approval request.
    """
    return [
        RunStep(RunStepKind.APPROVAL, stage, task=approval)
        if task.type == APPROVAL
        else RunStep(RunStepKind.WAIT, stage, wait_seconds=task.wait_seconds or 0)
        for task in tasks
    ]


def simulate_staged_run(
    plan: StagedRunPlan,
    run: str,
    bindings: Iterable[Binding],
    resource_snapshot: int,
    *,
    approved: frozenset[str] | None = None,
    failing: frozenset[str] = frozenset(),
    finished: frozenset[str] = frozenset(),
) -> StagedRunOutcome:
    """Execute a run as far as possible.

    Return its steps taken, the bindings, and the reason for an early end. With `approved` None
    all approvals are granted. Clusters in `finished` are not updated again. Clusters in
    `failing` get the resources but are never ready: their stage continues in the remaining slots
    and does not end.
    """
    active = index_by_cluster(list_active_bindings(bindings))
    completed_steps: list[RunStep] = []
    blocking: list[str] = []
    for step in list_run_steps(plan, run, failing):
        # A failing cluster lets its stage start further clusters, and no later step.
        is_update = step.kind is RunStepKind.UPDATE
        continues_stage = (
            is_update and bool(completed_steps) and step.stage == completed_steps[-1].stage
        )
        if step.is_blocked or (blocking and not continues_stage):
            break
        if step.kind is RunStepKind.APPROVAL and approved is not None and step.task not in approved:
            return StagedRunOutcome(
                tuple(completed_steps), tuple(active.values()), pending_approval=step.task
            )
        completed_steps.append(step)
        if step.kind is RunStepKind.DELETE:
            for name in step.clusters:
                active.pop(name, None)
        elif is_update:
            for name in {*step.clusters} - finished:
                active[name] = replace(
                    active[name], state=BindingState.BOUND, resource_snapshot=resource_snapshot
                )
            failing_clusters, _working = split_clusters(step.clusters, failing)
            blocking += failing_clusters
    return StagedRunOutcome(
        tuple(completed_steps), tuple(active.values()), blocking_clusters=tuple(blocking)
    )


def check_run_state_transition(old_state: RunState, new_state: RunState) -> str | None:
    """Return why a requested state transition is invalid; None if it is valid."""
    forbidden_transitions = (
        (RunState.INITIALIZE, RunState.STOP),
        (RunState.RUN, RunState.INITIALIZE),
        (RunState.STOP, RunState.INITIALIZE),
    )
    if (old_state, new_state) in forbidden_transitions:
        return f"invalid state transition: cannot transition from {old_state} to {new_state}"
    return None
