"""A placement's status as `kubectl describe crp` shows it: conditions, and a status per cluster.

Source: KubeFleet pkg/utils/condition and pkg/controllers/placement. Conditions come in a fixed order and
end at the first that is not True.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    Condition,
    PlacementType,
    Policy,
)
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
CLUSTER_SCOPED, NAMESPACED = "ClusterResourcePlacement", "ResourcePlacement"
NO_OVERRIDES = "No override rules are configured for the selected resources"


class Progress(Struct, frozen=True):
    """How far a cluster got: each step "True", "False" or "Unknown", in order.

    `overrides`: override rules apply there. `trackable`: availability can be seen. `diff_reported` stands
    in place of `applied` and `available` where differences are only reported. `run`: what a staged run that
    brought it here says of itself (run_words). `held_up`: it has the latest resources, and the strategy holds
    up what else is new there. `work` is the name of the Work that fails to apply, `failure`
    why overriding or making Works fails.
    """

    rollout_started: str = TRUE
    overridden: str = TRUE
    work_synchronized: str = TRUE
    applied: str = TRUE
    available: str = TRUE
    diff_reported: str | None = None
    overrides: bool = False
    trackable: bool = True
    resource_snapshot: int | None = None
    run: str = ""
    held_up: bool = False
    work: str = ""
    failure: str = ""


class FailedObject(Struct, frozen=True):
    """An object that is not applied on a cluster, and why."""

    group: str
    kind: str
    namespace: str
    name: str
    reason: str
    message: str


class ClusterStatus(Struct, frozen=True):
    """One entry of placementStatuses; `cluster` is "" where none could be scheduled."""

    cluster: str
    conditions: tuple[Condition, ...]
    observed_resource_index: int | None = None
    failed: tuple[FailedObject, ...] = ()


class PlacementStatus(Struct, frozen=True):
    """The placement's conditions and its clusters, selected ones first."""

    conditions: tuple[Condition, ...]
    clusters: tuple[ClusterStatus, ...]


class _Step(Struct, frozen=True):
    """A condition type with its reason and its text (a count goes in) per status, for the placement and
    for one cluster.
    """

    type: str
    placement: Mapping[str, tuple[str, str]]
    cluster: Mapping[str, tuple[str, str]]


_STEPS = {
    "rollout_started": _Step(
        "RolloutStarted",
        {
            TRUE: ("RolloutStarted", "All {} cluster(s) start rolling out the latest resource"),
            FALSE: (
                "RolloutNotStartedYet",
                "The rollout is being blocked by the rollout strategy in {} cluster(s)",
            ),
            UNKNOWN: (
                "RolloutStartedUnknown",
                (
                    "There are still {} cluster(s) in the process of deciding whether to roll out the latest"
                    " resources or not"
                ),
            ),
        },
        {
            TRUE: (
                "RolloutStarted",
                "Detected the new changes on the resources and started the rollout process",
            ),
            FALSE: ("RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy"),
            UNKNOWN: (
                "RolloutStartedUnknown",
                "In the process of deciding whether to roll out the latest resources or not",
            ),
        },
    ),
    "overridden": _Step(
        "Overridden",
        {
            TRUE: (
                "OverriddenSucceeded",
                "The selected resources are successfully overridden in {} cluster(s)",
            ),
            FALSE: ("OverriddenFailed", "Failed to override resources in {} cluster(s)"),
            UNKNOWN: (
                "OverriddenPending",
                (
                    "There are still {} cluster(s) in the process of overriding the selected resources"
                    " if there is any override defined"
                ),
            ),
        },
        {
            TRUE: ("OverriddenSucceeded", "Successfully applied the override rules on the resources"),
            FALSE: ("OverriddenFailed", "Failed to apply the override rules on the resources"),
            UNKNOWN: (
                "OverriddenPending",
                "In the process of overriding the selected resources if there is any override defined",
            ),
        },
    ),
    "work_synchronized": _Step(
        "WorkSynchronized",
        {
            TRUE: (
                "WorkSynchronized",
                "Work(s) are successfully created or updated in {} target cluster(s)' namespaces",
            ),
            FALSE: (
                "WorkNotSynchronizedYet",
                "There are {} cluster(s) which have not finished creating or updating work(s) yet",
            ),
            UNKNOWN: (
                "WorkSynchronizedUnknown",
                (
                    "There are still {} cluster(s) in the process of creating or updating the work"
                    " object(s) in the hub cluster"
                ),
            ),
        },
        {
            TRUE: ("AllWorkSynced", "All of the works are synchronized to the latest"),
            FALSE: ("SyncWorkFailed", "Failed to synchronize the work to the latest"),
            UNKNOWN: (
                "WorkSynchronizedUnknown",
                "In the process of creating or updating the work object(s) in the hub cluster",
            ),
        },
    ),
    "applied": _Step(
        "Applied",
        {
            TRUE: ("ApplySucceeded", "The selected resources are successfully applied to {} cluster(s)"),
            FALSE: (
                "ApplyFailed",
                "Failed to apply resources to {} cluster(s), please check the `failedPlacements` status",
            ),
            UNKNOWN: (
                "ApplyPending",
                (
                    "There are still {} cluster(s) in the process of applying the resources on the"
                    " member cluster"
                ),
            ),
        },
        {
            TRUE: ("AllWorkHaveBeenApplied", "All corresponding work objects are applied"),
            FALSE: ("NotAllWorkHaveBeenApplied", "Not all corresponding work objects are applied"),
            UNKNOWN: ("ApplyPending", "In the process of applying the resources on the member cluster"),
        },
    ),
    "available": _Step(
        "Available",
        {
            TRUE: ("ResourceAvailable", "The selected resources in {} cluster(s) are available now"),
            FALSE: (
                "ResourceNotAvailableYet",
                "The selected resources in {} cluster(s) are still not available yet",
            ),
            UNKNOWN: (
                "ResourceAvailableUnknown",
                (
                    "There are still {} cluster(s) in the process of checking the availability of the"
                    " selected resources"
                ),
            ),
        },
        {
            TRUE: ("AllWorkAreAvailable", "All corresponding work objects are available"),
            FALSE: ("NotAllWorkAreAvailable", "Not all corresponding work objects are available"),
            UNKNOWN: (
                "ResourceAvailableUnknown",
                "The availability of the selected resources is unknown yet",
            ),
        },
    ),
    "diff_reported": _Step(
        "DiffReported",
        {
            TRUE: ("DiffReportingCompleted", "Diff reporting in {} cluster(s) has been completed"),
            FALSE: (
                "DiffReportingIncompleteOrFailed",
                "Diff reporting in {} clusters is still in progress or has failed",
            ),
            UNKNOWN: (
                "DiffReportingPending",
                "There are still {} cluster(s) in the process of checking for configuration differences",
            ),
        },
        {
            TRUE: ("AllWorkHaveDiffReported", "All corresponding work objects have reported diff"),
            FALSE: ("NotAllWorkHaveDiffReported", "Not all corresponding work objects have reported diff"),
            UNKNOWN: (
                "DiffReportingPending",
                "Diff reporting has just started; its status is not yet to be known",
            ),
        },
    ),
}
_APPLYING = ("rollout_started", "overridden", "work_synchronized", "applied", "available")
_REPORTING = ("rollout_started", "overridden", "work_synchronized", "diff_reported")


_HELD_UP: Final = "The resources cannot be updated to the latest because of the rollout strategy"
_OUTSIDE: Final = "In the process of deciding whether to roll out some version of the resources or not"


def run_words(index: int | None, name: str) -> str:
    """What a cluster's status says of the run that rolled out there; `index` is what its spec says."""
    return f", resourceSnapshotIndex: {'' if index is None else index}, updateRun: {name}"


def run_words_in(message: str) -> str:
    """The same, read from a message; "" where it names no run."""
    before, _, after = message.partition(", resourceSnapshotIndex: ")
    return message.removeprefix(before) if after else ""


def steps_of(progress: Progress) -> tuple[str, ...]:
    """The names of the steps of a cluster's progress, in order."""
    return _APPLYING if progress.diff_reported is None else _REPORTING


def progress_of(bindings: Iterable[Binding], resource_snapshot: int) -> dict[str, Progress]:
    """What bindings say by themselves: rolled out and available, or held back by the strategy."""
    progress: dict[str, Progress] = {}
    for binding in bindings:
        if binding.state is BindingState.UNSCHEDULED:
            continue
        current = binding.state is BindingState.BOUND and binding.resource_snapshot == resource_snapshot
        progress[binding.cluster] = Progress(
            rollout_started=TRUE if current else FALSE, resource_snapshot=binding.resource_snapshot
        )
    return progress


def placement_status(
    scheduling: SchedulingStatus | None,
    policy: Policy | None,
    number: int | None,
    progress: Mapping[str, Progress],
    *,
    prefix: str = CLUSTER_SCOPED,
    external: bool = False,
    told_in: str = "",
) -> PlacementStatus:
    """Today's conditions. `number` is N of a PickN; clusters without progress have not started. `told_in` is
    the namespace in which the status stands once more ("": in none).
    """
    if scheduling is None:
        text = "Scheduling has not completed"
        return PlacementStatus((Condition(f"{prefix}Scheduled", UNKNOWN, "SchedulePending", text),), ())
    today = scheduling.condition
    scheduled = [Condition(f"{prefix}Scheduled", today.status, today.reason, today.message)]
    if told_in:
        scheduled.append(_synced(prefix, told_in))
    not_started = Progress(rollout_started=UNKNOWN)
    reached = [progress.get(binding.cluster, not_started) for binding in scheduling.selected]
    clusters_reached = [binding.cluster for binding in scheduling.selected]
    outside = _outside_condition(clusters_reached, reached, prefix) if external else None
    if outside is not None:
        conditions: tuple[Condition, ...] = (*scheduled, outside)
    else:
        conditions = (*scheduled, *_placement_conditions(reached, prefix))
    clusters = [
        _cluster_status(decision.cluster, decision.reason, state, external=external)
        for decision, state in zip(scheduling.decisions(), reached, strict=False)
        if decision.selected
    ]
    return PlacementStatus(conditions, (*clusters, *_unscheduled(scheduling, policy, number)))


def _synced(prefix: str, namespace: str) -> Condition:
    """What is said of the copy of a status that those of a namespace may read."""
    text = f"Successfully created or updated ClusterResourcePlacementStatus in namespace '{namespace}'"
    return Condition(f"{prefix}StatusSynced", TRUE, "StatusSyncSucceeded", text)


def _placement_conditions(reached: Sequence[Progress], prefix: str) -> Iterable[Condition]:
    """The conditions of the placement, step by step until one is not True everywhere."""
    if not reached:
        return
    for name in steps_of(reached[0]):
        states = [getattr(progress, name) for progress in reached]
        # The worst of them is the placement's.
        status = next(status for status in (FALSE, UNKNOWN, TRUE) if status in states)
        step = _STEPS[name]
        reason, text = step.placement[status]
        nothing_overridden = not any(progress.overrides for progress in reached)
        if name == "overridden" and status == TRUE and nothing_overridden:
            reason, text = "NoOverrideSpecified", NO_OVERRIDES
        yield Condition(f"{prefix}{step.type}", status, reason, text.format(states.count(status)))
        if status != TRUE:
            return


def _outside_condition(clusters: Sequence[str], reached: Sequence[Progress], prefix: str) -> Condition | None:
    """What is said while staged runs have not brought all clusters to one version, or it is not known of a
    cluster whether they did.
    """
    versions = {progress.resource_snapshot for progress in reached}
    unknown = [
        cluster
        for cluster, progress in zip(clusters, reached, strict=True)
        if progress.rollout_started == UNKNOWN
    ]
    is_one = len(versions) == 1 and None not in versions
    if not reached or (is_one and not unknown):
        return None
    start = "Rollout is controlled by an external controller and"
    text = f"{start} different resource snapshot versions are observed across clusters"
    if is_one:
        text = f"{start} cluster {unknown[0]} is in RolloutStarted Unknown state"
    if versions == {None}:
        runs = "ClusterStagedUpdateRun" if prefix == CLUSTER_SCOPED else "StagedUpdateRun"
        text = (
            f"{start} no resource snapshot name is observed across clusters. To determine rollout status,"
            f" check the {runs} resources with spec.placementName matching this placement"
        )
    return Condition(f"{prefix}RolloutStarted", UNKNOWN, "RolloutControlledByExternalController", text)


def _cluster_status(cluster: str, decision: str, progress: Progress, *, external: bool) -> ClusterStatus:
    """The conditions of one cluster, step by step until one is not True."""
    conditions = [Condition("Scheduled", TRUE, "Scheduled", decision)]
    for name in steps_of(progress):
        status = getattr(progress, name)
        reason, text = _STEPS[name].cluster[status]
        if name in ("overridden", "work_synchronized") and status == FALSE and progress.failure:
            text = f"{text}: {progress.failure}"
        if name == "applied" and status == FALSE and progress.work:
            text = f"Work object {progress.work} has failed to apply"
        if name == "rollout_started" and progress.held_up:
            text = _HELD_UP
        if name == "rollout_started" and external:
            text = _OUTSIDE if status == UNKNOWN else f"{text}{progress.run}"
        if name == "overridden" and status == TRUE and not progress.overrides:
            reason, text = "NoOverrideSpecified", NO_OVERRIDES
        if name == "available" and status == TRUE and not progress.trackable:
            reason = "NotAllWorkAreAvailabilityTrackable"
            text = "The availability of some work objects is not trackable"
        conditions.append(Condition(_STEPS[name].type, status, reason, text))
        if status != TRUE:
            break
    return ClusterStatus(cluster, tuple(conditions), progress.resource_snapshot)


def _unscheduled(
    scheduling: SchedulingStatus, policy: Policy | None, number: int | None
) -> Iterable[ClusterStatus]:
    """As many unselected clusters as are missing, without their names."""
    clusters_asked = 0
    if policy is not None and policy.placement_type is PlacementType.PICK_N:
        clusters_asked = number or 0
    if policy is not None and policy.placement_type is PlacementType.PICK_FIXED:
        clusters_asked = len(policy.cluster_names)
    missing = max(0, clusters_asked - len(scheduling.selected))
    for decision in scheduling.unselected[:missing]:
        yield ClusterStatus("", (Condition("Scheduled", FALSE, "ScheduleFailed", decision.reason),))
