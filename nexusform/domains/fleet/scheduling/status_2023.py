"""A placement's status with the condition names, reasons and texts of November 2023.

The product document prints these; today's are in status.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import Binding, Condition, Decision
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus
from nexusform.domains.fleet.scheduling.status import (
    CLUSTER_SCOPED,
    FALSE,
    TRUE,
    UNKNOWN,
    ClusterStatus,
    PlacementStatus,
    Progress,
)


def placement_status_2023(
    scheduling: SchedulingStatus | None, progress: Mapping[str, Progress]
) -> PlacementStatus:
    """The status of a placement in the older words: Scheduled, Synchronized, Applied."""
    if scheduling is None:
        text = "Scheduling has not completed"
        return PlacementStatus(
            (Condition(f"{CLUSTER_SCOPED}Scheduled", UNKNOWN, "SchedulePending", text),), ()
        )
    fulfilled = scheduling.fulfilled
    text = (
        "found all the clusters needed as specified by the scheduling policy"
        if fulfilled
        else "could not find all the clusters needed as specified by the scheduling policy"
    )
    scheduled = Condition(
        f"{CLUSTER_SCOPED}Scheduled", scheduling.condition.status, scheduling.condition.reason, text
    )
    chosen = [decision for decision in scheduling.decisions() if decision.selected]
    states = [progress.get(decision.cluster, Progress(rollout_started=UNKNOWN)) for decision in chosen]
    clusters = tuple(_cluster(d, state) for d, state in zip(chosen, states, strict=True))
    return PlacementStatus((scheduled, *_conditions(states)), clusters)


# The conditions that tell how far a cluster is, in the order of Progress.
_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")


def status_in_words_of_2023(status: PlacementStatus, bindings: Iterable[Binding]) -> PlacementStatus:
    """A status of today in the older words; `bindings` are those of the placement."""
    if not status.conditions or status.conditions[0].status == UNKNOWN:
        return placement_status_2023(None, {})
    by_cluster = {binding.cluster: binding for binding in bindings}
    named = {cluster_status.cluster: cluster_status for cluster_status in status.clusters}
    selected = tuple(by_cluster[name] for name in named if name in by_cluster)
    progress = {name: _progress(cluster_status) for name, cluster_status in named.items() if name}
    older = placement_status_2023(SchedulingStatus(status.conditions[0], selected, ()), progress)
    # The index of the resources came later.
    clusters = tuple(replace(cluster, observed_resource_index=None) for cluster in older.clusters)
    return replace(older, clusters=clusters)


def _progress(status: ClusterStatus) -> Progress:
    """How far a cluster is, read back from its conditions of today."""
    verdicts = {condition.type: condition.status for condition in status.conditions}
    # Where differences are only reported, nothing is applied and nothing fails to be.
    missing = TRUE if "DiffReported" in verdicts else UNKNOWN
    rollout, overridden, synchronized, applied, available = (verdicts.get(step, missing) for step in _STEPS)
    index = status.observed_resource_index
    return Progress(rollout, overridden, synchronized, applied, available, resource_snapshot=index)


def _synchronized(state: Progress) -> bool:
    """Whether a cluster has the latest resources, so far as the hub can bring them."""
    return state.rollout_started == state.overridden == state.work_synchronized == TRUE


def _conditions(states: list[Progress]) -> list[Condition]:
    """The conditions of a placement after Scheduled, by how far its clusters are."""
    count = len(states)
    behind = sum(not _synchronized(state) for state in states)
    if behind:
        text = (
            f"There are {behind} cluster(s) still not synchronized to the latest resources on the hub cluster"
        )
        return [Condition(f"{CLUSTER_SCOPED}Synchronized", FALSE, "SynchronizePending", text)]
    text = f"All {count} cluster(s) are synchronized to the latest resources on the hub cluster"
    synchronized = Condition(f"{CLUSTER_SCOPED}Synchronized", TRUE, "SynchronizeSucceeded", text)
    failed = sum(state.applied == FALSE for state in states)
    if failed:
        text = f"Failed to apply manifests to {failed} clusters, please check the `failedPlacements` status"
        return [synchronized, Condition(f"{CLUSTER_SCOPED}Applied", FALSE, "ApplyFailed", text)]
    text = f"Successfully applied resources to {count} member clusters"
    if not count:
        text = "There are no clusters selected to place the resources"
    return [synchronized, Condition(f"{CLUSTER_SCOPED}Applied", TRUE, "ApplySucceeded", text)]


def _cluster(decision: Decision, state: Progress) -> ClusterStatus:
    """The status of one cluster that is picked."""
    unquoted = decision.reason.replace(f'"{decision.cluster}"', decision.cluster)
    conditions = [Condition("ResourceScheduled", TRUE, "ScheduleSucceeded", unquoted)]
    if not _synchronized(state):
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
