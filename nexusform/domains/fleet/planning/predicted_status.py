"""Predicted status of a placement after the plan: conditions, also per cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_records import NAMESPACE_ACCESSIBLE, REPORT_DIFF
from nexusform.domains.fleet.planning.foreign_field_merge import ON_HUB
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.placement_records import (
    is_availability_tracked,
    read_scheduling,
    write_conditions,
    write_statuses,
)
from nexusform.domains.fleet.scheduling.bindings import BindingState
from nexusform.domains.fleet.scheduling.placement_status import (
    CLUSTER_SCOPED,
    FALSE,
    NAMESPACED,
    TRUE,
    UNKNOWN,
    ClusterProgress,
    FailedObject,
    PlacementStatus,
    build_placement_status,
    compute_rollout_progress,
    parse_run_status_text,
)
from nexusform.json_data.plain_data import get_text


def predict_placement_status(placement: PlacementPlan) -> dict[str, Any]:
    """Return the conditions and cluster statuses as attributes."""
    prior = placement.spec.prior_attributes
    scheduling = placement.scheduling.status
    if _is_unchanged_on_hub(placement):
        return {name: prior.get(name) for name in ("conditions", "placement_statuses")}
    if scheduling is None and prior.get("conditions") is not None:
        # No cycle ran, or it stopped before it wrote a status.
        is_reprocessed = placement.current.is_selection_changed and _has_stale_status(placement)
        if not is_reprocessed and not placement.has_changes and not _has_new_apply_failure(placement):
            return {name: prior.get(name) for name in ("conditions", "placement_statuses")}
        scheduling = read_scheduling(prior, placement.bindings)
    namespaces = (manifest.name for manifest in placement.selection.manifests if manifest.kind == "Namespace")
    reports_in_namespace = placement.spec.configuration.status_reporting_scope == NAMESPACE_ACCESSIBLE
    status = build_placement_status(
        scheduling,
        placement.spec.configuration.policy,
        placement.spec.policy_snapshot.number_of_clusters,
        _compute_progress(placement),
        prefix=NAMESPACED if placement.spec.configuration.namespace else CLUSTER_SCOPED,
        is_external=placement.spec.is_external,
        status_namespace=next(namespaces, "") if reports_in_namespace else "",
    )
    conditions = write_conditions(status.conditions)
    statuses = write_statuses(_sort_status_clusters(placement, status))
    picked = {binding.cluster for binding in placement.bindings if binding.state is not BindingState.UNSCHEDULED}
    is_repicked = bool(placement.evicted_clusters) and placement.evicted_clusters <= picked
    if placement.spec.is_external and not placement.rollout.clusters and is_repicked:
        # With unchanged clusters a hub keeps its rollout status, also of evicted clusters, until a run or
        # another change. Seen on a running hub.
        conditions = [*conditions[:1], *(prior.get("conditions") or ())[1:]]
        if not placement.spec.spec_changed and not placement.current.is_selection_changed:
            statuses = prior.get("placement_statuses") or statuses
    return {"conditions": conditions, "placement_statuses": statuses}


def _is_unchanged_on_hub(placement: PlacementPlan) -> bool:
    """Return True if a provider manages the placement on a hub and the plan does not change it; its status stays."""
    prior = placement.spec.instance.prior
    is_managed = placement.spec.observed_attributes and prior is not None and ON_HUB in (prior.private or {})
    if not is_managed or placement.spec.prior_attributes.get("conditions") is None:
        return False
    previous, configuration = placement.spec.previous_configuration, placement.spec.configuration
    if previous is None or placement.current.resources_changed:
        return False
    is_same_configuration = replace(previous, accepts_old_names=configuration.accepts_old_names) == configuration
    return is_same_configuration and not placement.has_changes and not _has_new_apply_failure(placement)


def _has_stale_status(placement: PlacementPlan) -> bool:
    """Return whether the status still reports the rollout of an evicted cluster with a new binding."""
    scheduled = {b.cluster for b in placement.spec.prior_bindings if b.state is BindingState.SCHEDULED}
    conditions = _list_prior_conditions(placement, "RolloutStarted")
    return any(cluster in scheduled and condition["status"] == TRUE for cluster, condition in conditions)


def _list_prior_conditions(placement: PlacementPlan, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the conditions of a type in the prior status, each with its cluster."""
    for status in placement.spec.prior_attributes.get("placement_statuses") or ():
        for condition in status.get("conditions") or ():
            if condition["type"] == kind:
                yield get_text(status, "cluster_name"), condition


def _has_new_apply_failure(placement: PlacementPlan) -> bool:
    """Return True if the configuration declares an apply failure missing in the status."""
    failing = placement.clusters_failing_apply & placement.selection.clusters.failing
    reported = {cluster for cluster, item in _list_prior_conditions(placement, "Applied") if item["status"] == FALSE}
    bound = {b.cluster for b in placement.spec.prior_bindings if b.state is BindingState.BOUND}
    overridden = bound - {c for c, content in placement.current.applied.on_cluster.items() if content.failure}
    return bool(failing & overridden - reported)


def _sort_status_clusters(placement: PlacementPlan, status: PlacementStatus) -> PlacementStatus:
    """Return the status with conflicts, in the cluster order of state; new clusters follow in the scheduler's order."""
    prior_statuses = placement.spec.prior_attributes.get("placement_statuses") or ()
    names = [str(attribute["cluster_name"]) for attribute in prior_statuses if attribute["cluster_name"]]
    position_of = {name: position for position, name in enumerate(names)}
    clusters = []
    # A status without a name reports an unfilled position and is sorted last.
    for cluster in sorted(status.clusters, key=lambda c: (not c.cluster, position_of.get(c.cluster, len(position_of)))):
        conflicts = sorted(placement.ownership.conflicts.get(cluster.cluster, {}).items())
        failed = (FailedObject(*identity, reason=item.reason, message=item.message) for identity, item in conflicts)
        clusters.append(replace(cluster, failed_objects=tuple(failed)))
    return replace(status, clusters=tuple(clusters))


def _compute_progress(placement: PlacementPlan) -> dict[str, ClusterProgress]:
    """Return the progress of each bound cluster."""
    final_resources = placement.compute_final_resources()
    apply_failing = placement.clusters_failing_apply
    uncertain = placement.clusters_with_unknown_rollout if placement.spec.is_external else frozenset()
    # Blocked clusters keep their version; override changes wait.
    blocked = () if placement.spec.is_external else placement.rollout.blocked_clusters
    run_by_cluster = {}
    if placement.spec.is_external:
        prior_conditions = _list_prior_conditions(placement, "RolloutStarted")
        prior_texts = {name: parse_run_status_text(str(condition["message"])) for name, condition in prior_conditions}
        run_by_cluster = {**prior_texts, **placement.rollout.run_by_cluster}
    # Namespaced placements prefix the name with their namespace.
    work = f"{placement.key.replace('/', '.')}-work"
    by_cluster = {}
    for binding in placement.bindings:
        # A staged run determines the version of a cluster; otherwise it is the latest.
        index = (
            binding.resource_snapshot if placement.spec.is_external else placement.snapshot_store.snapshots[-1].index
        )
        progress = compute_rollout_progress((binding,), -1 if index is None else index).get(binding.cluster)
        if progress is None:
            continue
        if binding.cluster in blocked and progress.rollout_started == TRUE:
            progress = replace(progress, rollout_started=FALSE, is_blocked=True)
        if placement.spec.is_external:
            run = run_by_cluster.get(binding.cluster, "")
            is_known = binding.state is BindingState.BOUND and binding.cluster not in uncertain
            rollout_started = TRUE if is_known or binding.cluster in placement.rollout.clusters else UNKNOWN
            progress = replace(progress, rollout_started=rollout_started, run_text=run)
            progress = _adjust_for_apply_strategy(placement, binding.cluster, progress)
        resources = final_resources.get(binding.cluster)
        has_override_failure = bool(resources and resources.failure and not resources.has_envelope_failure)
        cluster_fails = binding.cluster in apply_failing
        is_apply_known = progress.applied != UNKNOWN
        trackable = resources is None or is_availability_tracked(resources.manifests)
        by_cluster[binding.cluster] = replace(
            progress,
            # Overrides named by the binding count, whatever their result.
            has_overrides=has_override_failure or bool(resources and (resources.overrides or resources.digest)),
            overridden=FALSE if has_override_failure else progress.overridden,
            work_synchronized=FALSE if resources and resources.has_envelope_failure else progress.work_synchronized,
            applied=FALSE
            if is_apply_known and (cluster_fails or (resources and resources.conflicting_objects))
            else progress.applied,
            diff_reported=(progress.diff_reported or TRUE) if placement.spec.configuration.is_report_only else None,
            is_trackable=trackable,
            work_name=work,
            failure=resources.failure_message if resources is not None else "",
        )
    return by_cluster


def _adjust_for_apply_strategy(placement: PlacementPlan, cluster: str, progress: ClusterProgress) -> ClusterProgress:
    """Return the progress with unknown conditions if a staged run has not distributed the apply strategy yet."""
    apply = placement.spec.find_apply_strategy(cluster)
    if apply is None or cluster in placement.rollout.clusters:
        return progress
    is_report_only = apply.type == REPORT_DIFF
    if is_report_only == placement.spec.configuration.is_report_only:
        return progress
    return replace(progress, diff_reported=UNKNOWN) if not is_report_only else replace(progress, applied=UNKNOWN)
