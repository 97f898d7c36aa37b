"""Predicted status of a placement after the plan: conditions, also per cluster."""

from typing import Any, Final

from msgspec.structs import asdict, replace

from nexusform.domains.fleet.importers.fleet_records import NAMESPACE_ACCESSIBLE, REPORT_DIFF
from nexusform.domains.fleet.planning.foreign_field_merge import ON_HUB
from nexusform.domains.fleet.planning.override_rendering import RenderedResources
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.placement_records import (
    REJECTIONS,
    build_status_attribute,
    hash_rejections,
    hash_unselected_decisions,
    is_availability_tracked,
    read_conditions,
    read_scheduling,
)
from nexusform.domains.fleet.scheduling.bindings import (
    BindingState,
    build_selected_decision,
    collect_clusters,
    select_scheduled_bindings,
)
from nexusform.domains.fleet.scheduling.placement_status import (
    FALSE,
    TRUE,
    UNKNOWN,
    ClusterProgress,
    ClusterStatus,
    FailedObject,
    PlacementStatus,
    build_placement_status,
    compute_rollout_progress,
    parse_run_status_text,
)
from nexusform.json_data.plain_data import get_list, get_mapping, get_text

_TRACKED_WORKLOADS: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet"})


def predict_placement_status(placement: PlacementPlan) -> dict[str, Any]:
    """Return the conditions and cluster statuses after the plan as attributes.

    Unchanged if nothing updates them.
    """
    prior = placement.spec.prior_attributes
    if _is_status_unchanged(placement):
        return {name: prior.get(name) for name in ("conditions", "placement_statuses")}
    # The selected namespace that gets a copy of the status.
    status_namespace = ""
    if placement.spec.configuration.status_reporting_scope == NAMESPACE_ACCESSIBLE:
        namespaces = (
            manifest.name for manifest in placement.selection.manifests if manifest.is_namespace
        )
        status_namespace = next(namespaces, "")
    # Without a status written by a cycle of this plan, the result of the last cycle stays.
    scheduling = placement.scheduling.status or read_scheduling(prior, placement.bindings)
    status = build_placement_status(
        scheduling,
        placement.spec.configuration.effective_policy,
        placement.spec.policy_snapshot.number_of_clusters,
        _compute_progress(placement),
        prefix=placement.spec.configuration.kind,
        is_external=placement.spec.is_external,
        status_namespace=status_namespace,
    )
    conditions = list(map(asdict, status.conditions))
    statuses = list(map(build_status_attribute, _sort_status_clusters(placement, status)))
    picked = collect_clusters(select_scheduled_bindings(placement.bindings))
    is_repicked = bool(placement.evicted_clusters) and placement.evicted_clusters <= picked
    is_reconciled = bool(placement.rollout.clusters) or has_new_decisions(placement)
    if placement.spec.is_external and is_repicked and not is_reconciled:
        # Evicted clusters are picked again, and the scheduler reports the same decisions: a hub
        # keeps their rollout status until a run or another change. Seen on a running hub.
        # The first one is Scheduled.
        conditions = [*conditions[:1], *get_list(prior, "conditions")[1:]]
        if not placement.spec.spec_changed and not placement.current.is_selection_changed:
            statuses = prior.get("placement_statuses") or statuses
    return {"conditions": conditions, "placement_statuses": statuses}


def has_new_decisions(placement: PlacementPlan) -> bool:
    """Return whether the scheduler reports other decisions than before the plan.

    A hub then updates the status of the placement.
    """
    status = placement.scheduling.status
    # No cycle of this plan.
    if status is None:
        return False
    prior = placement.spec.prior_attributes
    scheduled = read_conditions(get_list(prior, "conditions")[:1])
    if [replace(item, type=status.condition.type) for item in scheduled] != [status.condition]:
        return True
    reported = {
        str(item["cluster_name"]): str(item["conditions"][0]["message"])
        for item in get_list(prior, "placement_statuses")
        if item.get("cluster_name") and item.get("conditions")
    }
    selected = map(build_selected_decision, status.selected_bindings)
    if reported != {decision.cluster: decision.reason for decision in selected}:
        return True
    return _read_rejections_hash(placement) != hash_unselected_decisions(status)


def _read_rejections_hash(placement: PlacementPlan) -> str:
    """Return the hash of the rejections before the plan, from a hub, else from the private note."""
    observed = placement.spec.observed_attributes
    if REJECTIONS in observed:
        return hash_rejections(get_mapping(observed, REJECTIONS))
    return get_text(placement.spec.instance.prior_note, REJECTIONS)


def _is_status_unchanged(placement: PlacementPlan) -> bool:
    """Return True if nothing in the plan updates the status of a placement."""
    if _is_unchanged_on_hub(placement):
        return True
    if placement.scheduling.status is not None:
        # A scheduling cycle wrote a new status.
        return False
    if placement.spec.prior_attributes.get("conditions") is None:
        # There is none to keep.
        return False
    # The hub processes the placement again.
    if placement.current.is_selection_changed:
        new_bindings = [
            b for b in placement.spec.prior_bindings if b.state is BindingState.SCHEDULED
        ]
        started = placement.find_reported_clusters("RolloutStarted", TRUE)
        if not started.isdisjoint(collect_clusters(new_bindings)):
            # The status still reports the started rollout of an earlier binding.
            return False
    if (
        _has_new_apply_failure(placement)
        or _has_new_availability(placement)
        or _has_reachable_again(placement)
    ):
        return False
    return not placement.has_changes


def _is_unchanged_on_hub(placement: PlacementPlan) -> bool:
    """Return True if a provider manages the placement on a hub and nothing of it changes.

    Its status then stays. The argument `lenient` (`accepts_old_names`) does not count, since it is
    no part of the object on the hub.
    """
    is_managed = placement.spec.observed_attributes and ON_HUB in placement.spec.instance.prior_note
    # No status to keep.
    if not is_managed or placement.spec.prior_attributes.get("conditions") is None:
        return False
    previous = placement.spec.previous_configuration
    configuration = placement.spec.configuration
    assert previous is not None, "an object with a status exists"
    if placement.current.resources_changed:
        return False
    is_same_configuration = (
        replace(previous, accepts_old_names=configuration.accepts_old_names) == configuration
    )
    return (
        is_same_configuration
        and not placement.has_changes
        and not _has_new_apply_failure(placement)
    )


def _has_new_apply_failure(placement: PlacementPlan) -> bool:
    """Return whether a bound cluster has a configured apply failure not reported yet.

    A reported failure is in the status.
    """
    failing = placement.clusters_failing_apply & placement.selection.clusters.failing
    reported = placement.find_reported_clusters("Applied", FALSE)
    bound = {b.cluster for b in placement.spec.prior_bindings if b.state is BindingState.BOUND}
    # After a failed override, nothing is applied.
    with_applied_step = bound - placement.current.applied.failed_clusters
    return bool(failing & (with_applied_step - reported))


def _has_new_availability(placement: PlacementPlan) -> bool:
    """Return True if pods wait on other clusters than reported as unavailable.

    The result is False on a real hub, which reports it itself.
    """
    if placement.spec.observed_attributes or ON_HUB in placement.spec.instance.prior_note:
        return False
    waiting = _find_clusters_with_waiting_pods(placement)
    unavailable = placement.find_reported_clusters("Available", FALSE)
    available = placement.find_reported_clusters("Available", TRUE)
    return bool((unavailable - waiting) or (available & waiting))


def _has_reachable_again(placement: PlacementPlan) -> bool:
    """Return True if clusters with an unknown apply result are reachable now.

    The result is False on a real hub, which reports it itself.
    """
    if placement.spec.observed_attributes or ON_HUB in placement.spec.instance.prior_note:
        return False
    pending = placement.clusters_with_unknown_result
    return bool(pending - placement.selection.clusters.unreachable.keys())


def _find_clusters_with_waiting_pods(placement: PlacementPlan) -> set[str]:
    """Return the clusters with a predicted pod without a node.

    Its workload has a tracked availability.
    """
    waiting_clusters: set[str] = set()
    for cluster, workloads in placement.workloads.items():
        # Such as "shop/Deployment/web".
        for key, pods in workloads.items():
            _namespace, kind, _name = key.split("/")
            if kind in _TRACKED_WORKLOADS and not all(pod["node"] for pod in pods.values()):
                waiting_clusters.add(cluster)
    return waiting_clusters


def _sort_status_clusters(placement: PlacementPlan, status: PlacementStatus) -> list[ClusterStatus]:
    """Return the statuses of clusters, with objects of other owners as failed.

    Clusters with a status in state keep their order; others follow in the scheduler's.
    """
    prior_statuses = get_list(placement.spec.prior_attributes, "placement_statuses")
    names = [
        str(attribute["cluster_name"]) for attribute in prior_statuses if attribute["cluster_name"]
    ]
    position_of = {name: position for position, name in enumerate(names)}
    clusters = []
    # A status without a name reports an unfilled position and is sorted last.
    for cluster in sorted(
        status.clusters, key=lambda c: (not c.cluster, position_of.get(c.cluster, len(position_of)))
    ):
        conflicts = sorted(placement.ownership.conflicts.get(cluster.cluster, {}).items())
        failed = (
            FailedObject(*identity, reason=item.reason, message=item.message)
            for identity, item in conflicts
        )
        clusters.append(replace(cluster, failed_objects=tuple(failed)))
    return clusters


def _compute_progress(placement: PlacementPlan) -> dict[str, ClusterProgress]:
    """Return the progress of the rollout on each picked cluster.

    Its steps overridden, work_synchronized, applied and available are TRUE, FALSE or UNKNOWN.
    Failed overrides, conflicting objects and waiting pods make steps FALSE.
    """
    compute_progress = (
        _compute_staged_progress if placement.spec.is_external else _compute_rolling_progress
    )
    final_resources = placement.compute_final_resources()
    apply_failing = placement.clusters_failing_apply
    waiting_clusters = _find_clusters_with_waiting_pods(placement)
    is_report_only = placement.spec.configuration.is_report_only
    # Name of the hub's Work (the objects for one member); namespaced placements prefix it
    # with their namespace.
    work_name = f"{placement.key.replace('/', '.')}-work"
    by_cluster = {}
    applied_later = placement.clusters_applied_later
    # A hub reports these, until they are available or a rollout reaches them.
    unavailable = placement.waiting_clusters - placement.rollout.clusters
    not_applied = unavailable & placement.find_reported_clusters("Applied", FALSE)
    not_available = unavailable & placement.find_reported_clusters("Available", FALSE)
    for cluster, progress in compute_progress(placement).items():
        # No agent has tried yet.
        is_pending = cluster in applied_later
        resources = final_resources.get(cluster, RenderedResources(()))
        # With other owners of objects.
        has_conflict = bool(resources.conflicting_objects)
        is_failing = cluster in apply_failing or has_conflict or cluster in not_applied
        has_override_failure = bool(resources.failure) and not resources.has_envelope_failure
        by_cluster[cluster] = replace(
            progress,
            # Overrides without effect count as well. State may have the digest of their changes
            # without their names.
            has_overrides=bool(has_override_failure or resources.overrides or resources.digest),
            overridden=FALSE if has_override_failure else progress.overridden,
            work_synchronized=FALSE
            if resources.has_envelope_failure
            else progress.work_synchronized,
            applied=UNKNOWN
            if is_pending or progress.applied == UNKNOWN
            else FALSE
            if is_failing
            else progress.applied,
            available=FALSE
            if cluster in waiting_clusters or cluster in not_available
            else progress.available,
            # None: objects are applied.
            diff_reported=None
            if not is_report_only
            else UNKNOWN
            if is_pending
            else progress.diff_reported or TRUE,
            is_trackable=is_availability_tracked(resources.manifests),
            work_name=work_name,
            failure=resources.failure_message,
        )
    return by_cluster


def _compute_rolling_progress(placement: PlacementPlan) -> dict[str, ClusterProgress]:
    """Return the progress of each picked cluster under a rolling update to the latest snapshot."""
    progress = compute_rollout_progress(
        placement.bindings, placement.snapshot_store.snapshots[-1].index
    )
    for cluster in placement.rollout.blocked_clusters:
        # A cluster with the latest snapshot (TRUE) is only blocked if changed overrides wait
        # for a rollout.
        if cluster in progress and progress[cluster].rollout_started == TRUE:
            progress[cluster] = replace(progress[cluster], rollout_started=FALSE, is_blocked=True)
    return progress


def _compute_staged_progress(placement: PlacementPlan) -> dict[str, ClusterProgress]:
    """Return the progress of each picked cluster under staged runs.

    Its rollout has started (True), or is unknown.
    """
    # Of the last run by cluster.
    run_texts: dict[str, str] = {}
    for cluster, condition in placement.list_prior_conditions("RolloutStarted"):
        run_texts[cluster] = parse_run_status_text(str(condition["message"]))
    run_texts.update(placement.rollout.run_by_cluster)
    unknown_rollouts = placement.clusters_with_unknown_rollout
    by_cluster = {}
    for binding in select_scheduled_bindings(placement.bindings):
        cluster = binding.cluster
        is_rolled_out = binding.state is BindingState.BOUND and cluster not in unknown_rollouts
        progress = ClusterProgress(
            rollout_started=TRUE
            if is_rolled_out or cluster in placement.rollout.clusters
            else UNKNOWN,
            resource_snapshot=binding.resource_snapshot,
            run_text=run_texts.get(cluster, ""),
        )
        by_cluster[cluster] = _adjust_for_apply_strategy(placement, cluster, progress)
    return by_cluster


def _adjust_for_apply_strategy(
    placement: PlacementPlan, cluster: str, progress: ClusterProgress
) -> ClusterProgress:
    """Return the progress, adjusted to an apply strategy that is not distributed yet.

    Its conditions are unknown if a staged run has not distributed the strategy yet.
    """
    apply = placement.spec.find_apply_strategy(cluster)
    # Not known, or distributed by this plan.
    if apply is None or cluster in placement.rollout.clusters:
        return progress
    was_report_only = apply.type == REPORT_DIFF
    if was_report_only == placement.spec.configuration.is_report_only:
        # applied or reported as before.
        return progress
    return (
        replace(progress, applied=UNKNOWN)
        if was_report_only
        else replace(progress, diff_reported=UNKNOWN)
    )
