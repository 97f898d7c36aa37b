"""Status of a placement with condition names, reasons and texts of November 2023, as in the product document;
placement_status.py has the current ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding, Condition, Decision
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus
from nexusform.domains.fleet.scheduling.placement_status import (
    CLUSTER_SCOPED,
    FALSE,
    TRUE,
    UNKNOWN,
    ClusterProgress,
    ClusterStatus,
    PlacementStatus,
)


def build_placement_status_2023(
    scheduling: SchedulingStatus | None, progress: Mapping[str, ClusterProgress]
) -> PlacementStatus:
    """Build the status with the older texts: Scheduled, Synchronized, Applied."""
    if scheduling is None:
        text = "Scheduling has not completed"
        return PlacementStatus((Condition(f"{CLUSTER_SCOPED}Scheduled", UNKNOWN, "SchedulePending", text),), ())
    is_fulfilled = scheduling.is_fulfilled
    text = (
        "found all the clusters needed as specified by the scheduling policy"
        if is_fulfilled
        else "could not find all the clusters needed as specified by the scheduling policy"
    )
    scheduled = Condition(f"{CLUSTER_SCOPED}Scheduled", scheduling.condition.status, scheduling.condition.reason, text)
    selected = [decision for decision in scheduling.list_decisions() if decision.is_selected]
    states = [progress.get(decision.cluster, ClusterProgress(rollout_started=UNKNOWN)) for decision in selected]
    clusters = tuple(_build_cluster_status(d, state) for d, state in zip(selected, states, strict=True))
    return PlacementStatus((scheduled, *_build_conditions(states)), clusters)


# Conditions of a cluster's progress, in the order of ClusterProgress.
_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")


def convert_to_status_2023(status: PlacementStatus, bindings: Iterable[Binding]) -> PlacementStatus:
    """Convert a current status to the older texts; `bindings` are those of the placement."""
    if not status.conditions or status.conditions[0].status == UNKNOWN:
        return build_placement_status_2023(None, {})
    by_cluster = {binding.cluster: binding for binding in bindings}
    status_by_cluster = {cluster_status.cluster: cluster_status for cluster_status in status.clusters}
    selected = tuple(by_cluster[name] for name in status_by_cluster if name in by_cluster)
    progress = {name: _read_progress(cluster_status) for name, cluster_status in status_by_cluster.items() if name}
    older = build_placement_status_2023(SchedulingStatus(status.conditions[0], selected, ()), progress)
    # The resource index was added later.
    clusters = tuple(replace(cluster, observed_resource_index=None) for cluster in older.clusters)
    return replace(older, clusters=clusters)


def _read_progress(status: ClusterStatus) -> ClusterProgress:
    """Return the progress of a cluster from its current conditions."""
    verdicts = {condition.type: condition.status for condition in status.conditions}
    # With reported differences only, nothing is applied and nothing fails.
    missing = TRUE if "DiffReported" in verdicts else UNKNOWN
    rollout, overridden, synchronized, applied, available = (verdicts.get(step, missing) for step in _STEPS)
    index = status.observed_resource_index
    return ClusterProgress(rollout, overridden, synchronized, applied, available, resource_snapshot=index)


def _is_synchronized(state: ClusterProgress) -> bool:
    """Return True if the hub has delivered the latest resources for a cluster."""
    return state.rollout_started == state.overridden == state.work_synchronized == TRUE


def _build_conditions(states: list[ClusterProgress]) -> list[Condition]:
    """Build the conditions of a placement after Scheduled."""
    count = len(states)
    outdated_count = sum(not _is_synchronized(state) for state in states)
    if outdated_count:
        text = (
            f"There are {outdated_count} cluster(s) still not synchronized to the latest resources on the hub cluster"
        )
        return [Condition(f"{CLUSTER_SCOPED}Synchronized", FALSE, "SynchronizePending", text)]
    text = f"All {count} cluster(s) are synchronized to the latest resources on the hub cluster"
    synchronized = Condition(f"{CLUSTER_SCOPED}Synchronized", TRUE, "SynchronizeSucceeded", text)
    failed_count = sum(state.applied == FALSE for state in states)
    if failed_count:
        text = f"Failed to apply manifests to {failed_count} clusters, please check the `failedPlacements` status"
        return [synchronized, Condition(f"{CLUSTER_SCOPED}Applied", FALSE, "ApplyFailed", text)]
    text = f"Successfully applied resources to {count} member clusters"
    if not count:
        text = "There are no clusters selected to place the resources"
    return [synchronized, Condition(f"{CLUSTER_SCOPED}Applied", TRUE, "ApplySucceeded", text)]


def _build_cluster_status(decision: Decision, state: ClusterProgress) -> ClusterStatus:
    unquoted = decision.reason.replace(f'"{decision.cluster}"', decision.cluster)
    conditions = [Condition("ResourceScheduled", TRUE, "ScheduleSucceeded", unquoted)]
    if not _is_synchronized(state):
        text = "In the process of synchronizing or operation is blocked by the rollout strategy"
        conditions.append(Condition("WorkSynchronized", FALSE, "WorkSynchronizePending", text))
        return ClusterStatus(decision.cluster, tuple(conditions), state.resource_snapshot)
    text = "Successfully Synchronized work(s) for placement"
    conditions.append(Condition("WorkSynchronized", TRUE, "WorkSynchronizeSucceeded", text))
    if state.applied == TRUE:
        conditions.append(Condition("ResourceApplied", TRUE, "ApplySucceeded", "Successfully applied resources"))
    else:
        text = "Failed to apply manifests, please check the `failedPlacements` status"
        conditions.append(Condition("ResourceApplied", state.applied, "ApplyFailed", text))
    return ClusterStatus(decision.cluster, tuple(conditions), state.resource_snapshot)
