"""Status of a placement as in `kubectl describe crp`.

Source: KubeFleet pkg/utils/condition, pkg/controllers/placement. Functions with 2023 in their names
give the names and texts of November 2023, as in the product document.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    Condition,
    Decision,
    Policy,
    SchedulingStatus,
    index_by_cluster,
    select_scheduled_bindings,
)

TRUE = "True"
FALSE = "False"
UNKNOWN = "Unknown"
CLUSTER_SCOPED = "ClusterResourcePlacement"
NAMESPACED = "ResourcePlacement"
NO_OVERRIDES = "No override rules are configured for the selected resources"


class ClusterProgress(Struct, frozen=True):
    """Progress of a cluster: each step "True", "False" or "Unknown", in order.

    `has_overrides` means that override rules apply, `is_trackable` that availability is visible.
    `diff_reported` replaces `applied` and `available` if differences are only reported. `run_text`
    identifies the staged run (format_run_text). `is_blocked` means that the cluster has the latest
    resources, and the strategy blocks other changes. `work_name` is the Work that fails to apply,
    `failure` the error of overrides or Works.
    """

    rollout_started: str = TRUE
    overridden: str = TRUE
    work_synchronized: str = TRUE
    applied: str = TRUE
    available: str = TRUE
    diff_reported: str | None = None
    has_overrides: bool = False
    is_trackable: bool = True
    resource_snapshot: int | None = None
    run_text: str = ""
    is_blocked: bool = False
    work_name: str = ""
    failure: str = ""


class FailedObject(Struct, frozen=True):
    """Object that failed to apply on a cluster, with the reason."""

    group: str
    kind: str
    namespace: str
    name: str
    reason: str
    message: str


class ClusterStatus(Struct, frozen=True):
    """Entry of placementStatuses; `cluster` is "" for an unfilled position."""

    cluster: str
    conditions: tuple[Condition, ...]
    observed_resource_index: int | None = None
    failed_objects: tuple[FailedObject, ...] = ()


class PlacementStatus(Struct, frozen=True):
    """Conditions of a placement and its clusters, selected ones first."""

    conditions: tuple[Condition, ...]
    clusters: tuple[ClusterStatus, ...]


class _ConditionTexts(Struct, frozen=True):
    """Condition type with reason and text per status, for the placement and for one cluster.

    The text of a placement has a count.
    """

    type: str
    placement: Mapping[str, tuple[str, str]]
    cluster: Mapping[str, tuple[str, str]]


# Starts of the texts about the status Unknown, of the placement and of one cluster.
_STILL: Final = "There are still {} cluster(s) in the process of"
_IN_PROCESS: Final = "In the process of"
_DECIDING: Final = "deciding whether to roll out the latest resources or not"
_OVERRIDING: Final = "overriding the selected resources if there is any override defined"
_CREATING: Final = "creating or updating the work object(s) in the hub cluster"
_STEP_TEXTS = {
    "rollout_started": _ConditionTexts(
        "RolloutStarted",
        {
            TRUE: ("RolloutStarted", "All {} cluster(s) start rolling out the latest resource"),
            FALSE: (
                "RolloutNotStartedYet",
                "The rollout is being blocked by the rollout strategy in {} cluster(s)",
            ),
            UNKNOWN: ("RolloutStartedUnknown", f"{_STILL} {_DECIDING}"),
        },
        {
            TRUE: (
                "RolloutStarted",
                "Detected the new changes on the resources and started the rollout process",
            ),
            FALSE: ("RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy"),
            UNKNOWN: ("RolloutStartedUnknown", f"{_IN_PROCESS} {_DECIDING}"),
        },
    ),
    "overridden": _ConditionTexts(
        "Overridden",
        {
            TRUE: (
                "OverriddenSucceeded",
                "The selected resources are successfully overridden in {} cluster(s)",
            ),
            FALSE: ("OverriddenFailed", "Failed to override resources in {} cluster(s)"),
            UNKNOWN: ("OverriddenPending", f"{_STILL} {_OVERRIDING}"),
        },
        {
            TRUE: (
                "OverriddenSucceeded",
                "Successfully applied the override rules on the resources",
            ),
            FALSE: ("OverriddenFailed", "Failed to apply the override rules on the resources"),
            UNKNOWN: ("OverriddenPending", f"{_IN_PROCESS} {_OVERRIDING}"),
        },
    ),
    "work_synchronized": _ConditionTexts(
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
            UNKNOWN: ("WorkSynchronizedUnknown", f"{_STILL} {_CREATING}"),
        },
        {
            TRUE: ("AllWorkSynced", "All of the works are synchronized to the latest"),
            FALSE: ("SyncWorkFailed", "Failed to synchronize the work to the latest"),
            UNKNOWN: ("WorkSynchronizedUnknown", f"{_IN_PROCESS} {_CREATING}"),
        },
    ),
    "applied": _ConditionTexts(
        "Applied",
        {
            TRUE: (
                "ApplySucceeded",
                "The selected resources are successfully applied to {} cluster(s)",
            ),
            FALSE: (
                "ApplyFailed",
                (
                    "Failed to apply resources to {} cluster(s), please check the "
                    "`failedPlacements` status"
                ),
            ),
            UNKNOWN: ("ApplyPending", f"{_STILL} applying the resources on the member cluster"),
        },
        {
            TRUE: ("AllWorkHaveBeenApplied", "All corresponding work objects are applied"),
            FALSE: ("NotAllWorkHaveBeenApplied", "Not all corresponding work objects are applied"),
            UNKNOWN: (
                "ApplyPending",
                f"{_IN_PROCESS} applying the resources on the member cluster",
            ),
        },
    ),
    "available": _ConditionTexts(
        "Available",
        {
            TRUE: (
                "ResourceAvailable",
                "The selected resources in {} cluster(s) are available now",
            ),
            FALSE: (
                "ResourceNotAvailableYet",
                "The selected resources in {} cluster(s) are still not available yet",
            ),
            UNKNOWN: (
                "ResourceAvailableUnknown",
                f"{_STILL} checking the availability of the selected resources",
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
    "diff_reported": _ConditionTexts(
        "DiffReported",
        {
            TRUE: ("DiffReportingCompleted", "Diff reporting in {} cluster(s) has been completed"),
            FALSE: (
                "DiffReportingIncompleteOrFailed",
                "Diff reporting in {} clusters is still in progress or has failed",
            ),
            UNKNOWN: ("DiffReportingPending", f"{_STILL} checking for configuration differences"),
        },
        {
            TRUE: ("AllWorkHaveDiffReported", "All corresponding work objects have reported diff"),
            FALSE: (
                "NotAllWorkHaveDiffReported",
                "Not all corresponding work objects have reported diff",
            ),
            UNKNOWN: (
                "DiffReportingPending",
                "Diff reporting has just started; its status is not yet to be known",
            ),
        },
    ),
}
_APPLY_STEPS = ("rollout_started", "overridden", "work_synchronized", "applied", "available")
_REPORT_STEPS = ("rollout_started", "overridden", "work_synchronized", "diff_reported")


def format_run_status_text(index: int | None, name: str) -> str:
    """Return the text about a run in a cluster's status.

    `index` is its resourceSnapshotIndex, None if not set.
    """
    return f", resourceSnapshotIndex: {'' if index is None else index}, updateRun: {name}"


def parse_run_status_text(message: str) -> str:
    """Return the end of a message made by `format_run_status_text`; "" without one."""
    prefix, _, suffix = message.partition(", resourceSnapshotIndex: ")
    return message.removeprefix(prefix) if suffix else ""


def list_step_names(progress: ClusterProgress) -> tuple[str, ...]:
    """Return the steps of a cluster in order.

    They are the steps of applying objects, or else of reporting differences.
    """
    return _APPLY_STEPS if progress.diff_reported is None else _REPORT_STEPS


def compute_rollout_progress(
    bindings: Iterable[Binding], resource_snapshot: int
) -> dict[str, ClusterProgress]:
    """Return the progress of picked clusters.

    A cluster is available with the latest `resource_snapshot`, or its rollout has not started.
    """
    progress: dict[str, ClusterProgress] = {}
    for binding in select_scheduled_bindings(bindings):
        is_current = (
            binding.state is BindingState.BOUND and binding.resource_snapshot == resource_snapshot
        )
        progress[binding.cluster] = ClusterProgress(
            rollout_started=TRUE if is_current else FALSE,
            resource_snapshot=binding.resource_snapshot,
        )
    return progress


def build_placement_status(
    scheduling: SchedulingStatus | None,
    policy: Policy,
    number: int | None,
    progress: Mapping[str, ClusterProgress],
    *,
    prefix: str = CLUSTER_SCOPED,
    is_external: bool = False,
    status_namespace: str = "",
) -> PlacementStatus:
    """Build the status of a placement and its clusters.

    `number` is N of a PickN. Clusters without progress have not started. `prefix` is the
    placement's kind. `is_external` means that staged runs roll it out. `status_namespace`
    gets a copy.
    """
    # No scheduling cycle yet.
    if scheduling is None:
        text = "Scheduling has not completed"
        return PlacementStatus(
            (Condition(f"{prefix}Scheduled", UNKNOWN, "SchedulePending", text),), clusters=()
        )
    first_conditions = [replace(scheduling.condition, type=f"{prefix}Scheduled")]
    if status_namespace:
        text = (
            "Successfully created or updated ClusterResourcePlacementStatus in namespace "
            f"'{status_namespace}'"
        )
        first_conditions.append(
            Condition(f"{prefix}StatusSynced", TRUE, "StatusSyncSucceeded", text)
        )
    not_started = ClusterProgress(rollout_started=UNKNOWN)
    progresses = [
        progress.get(binding.cluster, not_started) for binding in scheduling.selected_bindings
    ]
    selected_clusters = [binding.cluster for binding in scheduling.selected_bindings]
    external_condition = (
        _build_external_condition(selected_clusters, progresses, prefix) if is_external else None
    )
    further = (
        _build_placement_conditions(progresses, prefix)
        if external_condition is None
        else [external_condition]
    )
    conditions = (*first_conditions, *further)
    clusters = [
        _build_cluster_status(decision.cluster, decision.reason, item, is_external=is_external)
        # Only selected clusters have a progress, and their decisions come first: the others
        # are cut off.
        for decision, item in zip(scheduling.list_decisions(), progresses, strict=False)
    ]
    return PlacementStatus(
        conditions, (*clusters, *_build_unfilled_statuses(scheduling, policy, number))
    )


def _build_placement_conditions(
    progresses: Sequence[ClusterProgress], prefix: str
) -> Iterable[Condition]:
    """Yield the conditions of the placement, one per step of the rollout.

    The first step not True on all clusters is the last one. Texts have the number of clusters with
    this status. `prefix` is the kind in condition types.
    """
    if not progresses:
        # No cluster is picked.
        return
    has_overrides = any(progress.has_overrides for progress in progresses)
    for name in list_step_names(progresses[0]):
        statuses = [getattr(progress, name) for progress in progresses]
        status = TRUE
        # The worst status of a cluster is that of the placement.
        if FALSE in statuses:
            status = FALSE
        elif UNKNOWN in statuses:
            status = UNKNOWN
        step = _STEP_TEXTS[name]
        reason, text = step.placement[status]
        if name == "overridden" and status == TRUE and not has_overrides:
            reason = "NoOverrideSpecified"
            text = NO_OVERRIDES
        yield Condition(f"{prefix}{step.type}", status, reason, text.format(statuses.count(status)))
        # later steps have not begun.
        if status != TRUE:
            return


def _build_external_condition(
    clusters: Sequence[str], progresses: Sequence[ClusterProgress], prefix: str
) -> Condition | None:
    """Build the condition of a placement with staged runs; None if the usual conditions apply.

    These apply without picked clusters, or if all clusters have one resource snapshot and a known
    rollout. Otherwise the rollout of the placement is unknown, because that of a cluster is
    unknown, the snapshots differ, or there are none.
    """
    # None: a cluster without one.
    versions = {progress.resource_snapshot for progress in progresses}
    pairs = zip(clusters, progresses, strict=True)
    unknown_clusters = [
        cluster for cluster, progress in pairs if progress.rollout_started == UNKNOWN
    ]
    has_one_version = len(versions) == 1 and None not in versions
    if not progresses or (has_one_version and not unknown_clusters):
        return None
    start = "Rollout is controlled by an external controller and"
    if has_one_version:
        text = f"{start} cluster {unknown_clusters[0]} is in RolloutStarted Unknown state"
    elif len(versions) > 1:
        text = f"{start} different resource snapshot versions are observed across clusters"
    else:
        # None at all.
        runs = "ClusterStagedUpdateRun" if prefix == CLUSTER_SCOPED else "StagedUpdateRun"
        advice = f"check the {runs} resources with spec.placementName matching this placement"
        text = (
            f"{start} no resource snapshot name is observed across clusters. To determine rollout "
            f"status, {advice}"
        )
    return Condition(
        f"{prefix}RolloutStarted", UNKNOWN, "RolloutControlledByExternalController", text
    )


def _build_cluster_status(
    cluster: str, decision: str, progress: ClusterProgress, *, is_external: bool
) -> ClusterStatus:
    """Build the conditions of one cluster up to the first step that is not True."""
    conditions = [Condition("Scheduled", TRUE, "Scheduled", decision)]
    for name in list_step_names(progress):
        status = getattr(progress, name)
        reason, text = _STEP_TEXTS[name].cluster[status]
        match name, status:
            case "rollout_started", _ if progress.is_blocked:
                text = (
                    "The resources cannot be updated to the latest because of the rollout strategy"
                )
            case "rollout_started", "Unknown" if is_external:
                # No staged run has reached the cluster.
                text = (
                    f"{_IN_PROCESS} deciding whether to roll out some version of the resources or "
                    "not"
                )
            case "rollout_started", _ if is_external:
                text = f"{text}{progress.run_text}"
            case "overridden" | "work_synchronized", "False" if progress.failure:
                text = f"{text}: {progress.failure}"
            case "overridden", "True" if not progress.has_overrides:
                reason = "NoOverrideSpecified"
                text = NO_OVERRIDES
            case "applied", "False" if progress.work_name:
                text = f"Work object {progress.work_name} has failed to apply"
            case "available", "True" if not progress.is_trackable:
                reason = "NotAllWorkAreAvailabilityTrackable"
                text = "The availability of some work objects is not trackable"
        conditions.append(Condition(_STEP_TEXTS[name].type, status, reason, text))
        if status != TRUE:
            break
    return ClusterStatus(cluster, tuple(conditions), progress.resource_snapshot)


def _build_unfilled_statuses(
    scheduling: SchedulingStatus, policy: Policy, number: int | None
) -> Iterable[ClusterStatus]:
    """Yield a status without a name for each missing cluster of a PickN or PickFixed.

    Each has a rejection reason.
    """
    requested_count = policy.count_requested_clusters(number) or 0
    missing_count = max(0, requested_count - len(scheduling.selected_bindings))
    for decision in scheduling.unselected_decisions[:missing_count]:
        yield ClusterStatus(
            cluster="",
            conditions=(Condition("Scheduled", FALSE, "ScheduleFailed", decision.reason),),
        )


def build_placement_status_2023(
    scheduling: SchedulingStatus | None, progress: Mapping[str, ClusterProgress]
) -> PlacementStatus:
    """Build the status as KubeFleet of 2023 reports it.

    It has the conditions Scheduled, Synchronized and Applied.
    """
    if scheduling is None:
        text = "Scheduling has not completed"
        return PlacementStatus(
            (Condition(f"{CLUSTER_SCOPED}Scheduled", UNKNOWN, "SchedulePending", text),), ()
        )
    verb = "found" if scheduling.is_fulfilled else "could not find"
    text = f"{verb} all the clusters needed as specified by the scheduling policy"
    scheduled = Condition(
        f"{CLUSTER_SCOPED}Scheduled", scheduling.condition.status, scheduling.condition.reason, text
    )
    selected = [decision for decision in scheduling.list_decisions() if decision.is_selected]
    states = [
        progress.get(decision.cluster, ClusterProgress(rollout_started=UNKNOWN))
        for decision in selected
    ]
    clusters = tuple(
        _build_cluster_status_2023(d, state) for d, state in zip(selected, states, strict=True)
    )
    return PlacementStatus((scheduled, *_build_conditions_2023(states)), clusters)


def convert_to_status_2023(status: PlacementStatus, bindings: Iterable[Binding]) -> PlacementStatus:
    """Convert a current status to the older texts; `bindings` are those of the placement.

    The progress of each cluster is read from its conditions, and the older status is
    built from that.
    """
    # The first condition is Scheduled.
    scheduled = status.conditions[0] if status.conditions else None
    if scheduled is None or scheduled.status == UNKNOWN:
        return build_placement_status_2023(scheduling=None, progress={})
    by_cluster = index_by_cluster(bindings)
    # In the order of the status.
    selected: list[Binding] = []
    progress: dict[str, ClusterProgress] = {}
    statuses = {cluster_status.cluster: cluster_status for cluster_status in status.clusters}
    # "" for an unfilled position.
    for name, cluster_status in statuses.items():
        progress[name] = _read_progress_of_status(cluster_status)
        if name in by_cluster:
            selected.append(by_cluster[name])
    older = build_placement_status_2023(SchedulingStatus(scheduled, tuple(selected), ()), progress)
    # The observed resource index is a newer field.
    clusters = tuple(replace(cluster, observed_resource_index=None) for cluster in older.clusters)
    return replace(older, clusters=clusters)


def _read_progress_of_status(status: ClusterStatus) -> ClusterProgress:
    """Return the progress of a cluster from its conditions.

    Steps after the first one not completed are missing.
    """
    verdicts = {condition.type: condition.status for condition in status.conditions}
    # With ReportDiff the hub reports differences only: nothing is applied, and no step fails.
    missing = TRUE if "DiffReported" in verdicts else UNKNOWN
    return ClusterProgress(
        rollout_started=verdicts.get("RolloutStarted", missing),
        overridden=verdicts.get("Overridden", missing),
        work_synchronized=verdicts.get("WorkSynchronized", missing),
        applied=verdicts.get("Applied", missing),
        available=verdicts.get("Available", missing),
        resource_snapshot=status.observed_resource_index,
    )


def _is_synchronized(state: ClusterProgress) -> bool:
    """Return True if the hub has delivered the latest resources for a cluster."""
    return state.rollout_started == state.overridden == state.work_synchronized == TRUE


def _build_conditions_2023(states: list[ClusterProgress]) -> list[Condition]:
    """Build the conditions of a placement after Scheduled.

    Synchronized, and Applied if all are synchronized.
    """
    count = len(states)
    outdated_count = sum(not _is_synchronized(state) for state in states)
    if outdated_count:
        text = (
            f"There are {outdated_count} cluster(s) still not synchronized to the latest "
            "resources on the hub cluster"
        )
        return [Condition(f"{CLUSTER_SCOPED}Synchronized", FALSE, "SynchronizePending", text)]
    text = f"All {count} cluster(s) are synchronized to the latest resources on the hub cluster"
    synchronized = Condition(f"{CLUSTER_SCOPED}Synchronized", TRUE, "SynchronizeSucceeded", text)
    failed_count = sum(state.applied == FALSE for state in states)
    if failed_count:
        text = (
            f"Failed to apply manifests to {failed_count} clusters, please check the "
            "`failedPlacements` status"
        )
        return [synchronized, Condition(f"{CLUSTER_SCOPED}Applied", FALSE, "ApplyFailed", text)]
    text = f"Successfully applied resources to {count} member clusters"
    if not count:
        text = "There are no clusters selected to place the resources"
    return [synchronized, Condition(f"{CLUSTER_SCOPED}Applied", TRUE, "ApplySucceeded", text)]


def _build_cluster_status_2023(decision: Decision, state: ClusterProgress) -> ClusterStatus:
    """Build the status of one cluster: scheduled, synchronized with the hub, applied."""
    unquoted = decision.reason.replace(f'"{decision.cluster}"', decision.cluster)
    conditions = [Condition("ResourceScheduled", TRUE, "ScheduleSucceeded", unquoted)]
    if not _is_synchronized(state):
        text = "In the process of synchronizing or operation is blocked by the rollout strategy"
        conditions.append(Condition("WorkSynchronized", FALSE, "WorkSynchronizePending", text))
        return ClusterStatus(decision.cluster, tuple(conditions), state.resource_snapshot)
    text = "Successfully Synchronized work(s) for placement"
    conditions.append(Condition("WorkSynchronized", TRUE, "WorkSynchronizeSucceeded", text))
    if state.applied == TRUE:
        conditions.append(
            Condition("ResourceApplied", TRUE, "ApplySucceeded", "Successfully applied resources")
        )
    else:
        text = "Failed to apply manifests, please check the `failedPlacements` status"
        conditions.append(Condition("ResourceApplied", state.applied, "ApplyFailed", text))
    return ClusterStatus(decision.cluster, tuple(conditions), state.resource_snapshot)
