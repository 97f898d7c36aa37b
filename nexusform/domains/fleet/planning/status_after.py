"""What a hub will say of a placement once a plan is carried out: conditions, also those of each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_model import NAMESPACE_ACCESSIBLE, REPORT_DIFF
from nexusform.domains.fleet.planning.beside_others import ON_HUB
from nexusform.domains.fleet.planning.contents import (
    Loss,
    availability_tracked,
    read_scheduling,
    write_conditions,
    write_statuses,
)
from nexusform.domains.fleet.planning.overrides import Identity, Rendered
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import BindingState
from nexusform.domains.fleet.scheduling.status import (
    CLUSTER_SCOPED,
    FALSE,
    NAMESPACED,
    TRUE,
    UNKNOWN,
    ClusterStatus,
    FailedObject,
    PlacementStatus,
    Progress,
    placement_status,
    progress_of,
    run_words_in,
)


def status_after(placement: PlacementPlan) -> dict[str, Any]:
    """The conditions and the statuses of clusters, as attributes."""
    prior = placement.asked.prior_attributes
    scheduling = placement.scheduled.status
    if _stays_on_its_hub(placement):
        return {name: prior.get(name) for name in ("conditions", "placement_statuses")}
    if scheduling is None and prior.get("conditions") is not None:
        # No cycle ran, or it stopped before it wrote a status.
        looked_at = placement.standing.looked_at and _says_what_is_gone(placement)
        if not placement.moved and not _newly_refusing(placement) and not looked_at:
            return {name: prior.get(name) for name in ("conditions", "placement_statuses")}
        scheduling = read_scheduling(prior, placement.held)
    status = placement_status(
        scheduling,
        placement.asked.written.policy,
        placement.asked.snapshot.number_of_clusters,
        _progress(placement),
        prefix=NAMESPACED if placement.asked.written.namespace else CLUSTER_SCOPED,
        external=placement.asked.external,
        told_in=_told_in(placement),
    )
    conditions = write_conditions(status.conditions)
    statuses = write_statuses(_in_former_order(placement, status))
    if placement.asked.external and not placement.rolled_out.clusters and _picked_again(placement):
        # A hub that sees no other clusters leaves what it said of the rollout, of the evicted clusters too,
        # until a run, or another change, makes it look. Seen on a running hub.
        conditions = [*conditions[:1], *(prior.get("conditions") or ())[1:]]
        if not placement.asked.spec_changed and not placement.standing.looked_at:
            statuses = prior.get("placement_statuses") or statuses
    return {"conditions": conditions, "placement_statuses": statuses}


def _stays_on_its_hub(placement: PlacementPlan) -> bool:
    """Whether the placement stands on a hub that is acted on, and this plan asks nothing else of it: what the
    hub says of it holds.
    """
    prior = placement.asked.instance.prior
    acted_on = placement.asked.shown and prior is not None and ON_HUB in (prior.private or {})
    if not acted_on or placement.asked.prior_attributes.get("conditions") is None:
        return False
    before, written = placement.asked.before, placement.asked.written
    if before is None or placement.standing.resources_changed:
        return False
    asks_the_same = replace(before, old_names=written.old_names) == written
    return asks_the_same and not placement.moved and not _newly_refusing(placement)


def _picked_again(placement: PlacementPlan) -> bool:
    """Whether clusters were evicted and all of them picked again."""
    held = {binding.cluster for binding in placement.held if binding.state is not BindingState.UNSCHEDULED}
    return bool(placement.evicted) and placement.evicted <= held


def _says_what_is_gone(placement: PlacementPlan) -> bool:
    """Whether the status says of a cluster that it was rolled out there, and its binding is a new one that
    nothing was rolled out to: it was evicted, and the hub has not looked since.
    """
    scheduled = {b.cluster for b in placement.asked.prior if b.state is BindingState.SCHEDULED}
    return any(
        condition["type"] == "RolloutStarted" and condition["status"] == TRUE
        for status in placement.asked.prior_attributes.get("placement_statuses") or ()
        for condition in status.get("conditions") or ()
        if str(status.get("cluster_name") or "") in scheduled
    )


def _newly_refusing(placement: PlacementPlan) -> bool:
    """Whether the configuration says of a cluster that applying fails there, and the status does not yet."""
    refusing = placement.fails_to_apply & placement.offer.clusters.failing
    said = {
        str(status.get("cluster_name") or "")
        for status in placement.asked.prior_attributes.get("placement_statuses") or ()
        for condition in status.get("conditions") or ()
        if condition["type"] == "Applied" and condition["status"] == FALSE
    }
    bound = {b.cluster for b in placement.asked.prior if b.state is BindingState.BOUND}
    overridden = bound - {
        c for c, content in placement.standing.contents.on_cluster.items() if content.failure
    }
    return bool(refusing & overridden - said)


def _told_in(placement: PlacementPlan) -> str:
    """The namespace in which a hub lets everybody there read the status; "" where it is told in none."""
    if placement.asked.written.status_reporting_scope != NAMESPACE_ACCESSIBLE:
        return ""
    return next((each.name for each in placement.offer.selected if each.kind == "Namespace"), "")


def _in_former_order(placement: PlacementPlan, status: PlacementStatus) -> PlacementStatus:
    """The status with what is not applied. Clusters that state lists stand as they stood, so that only what
    changed differs; new ones follow in the scheduler's order.
    """
    listed = placement.asked.prior_attributes.get("placement_statuses") or ()
    names = [str(attribute["cluster_name"]) for attribute in listed if attribute["cluster_name"]]
    position_of = {name: position for position, name in enumerate(names)}

    def order(cluster: ClusterStatus) -> tuple[bool, int]:
        is_nameless = not cluster.cluster  # says why a place is empty: these come last
        return is_nameless, position_of.get(cluster.cluster, len(position_of))

    clusters = [
        replace(cluster, failed=_failed(placement.owned.lost.get(cluster.cluster, {})))
        for cluster in status.clusters
    ]
    return replace(status, clusters=tuple(sorted(clusters, key=order)))


def _failed(lost: Mapping[Identity, Loss]) -> tuple[FailedObject, ...]:
    return tuple(
        FailedObject(*identity, reason=loss.reason, message=loss.message)
        for identity, loss in sorted(lost.items())
    )


def _run_words_before(placement: PlacementPlan) -> dict[str, str]:
    """What the status before the plan says of the runs that brought each cluster what it has."""
    words = {}
    for status in placement.asked.prior_attributes.get("placement_statuses") or ():
        for condition in status.get("conditions") or ():
            if condition["type"] == "RolloutStarted":
                words[str(status["cluster_name"])] = run_words_in(str(condition["message"]))
    return words


def _progress(placement: PlacementPlan) -> dict[str, Progress]:
    """How far each cluster that holds the placement is."""
    contents = placement.contents_after()
    refusing = placement.fails_to_apply
    unsure = placement.unsure if placement.asked.external else frozenset()
    # Of the version that it has, other overrides are held up.
    held_up = () if placement.asked.external else placement.rolled_out.stalled
    brought_by = {}
    if placement.asked.external:
        brought_by = {**_run_words_before(placement), **placement.rolled_out.brought_by}
    # Of a namespaced placement its namespace stands before the name.
    work = f"{placement.key.replace('/', '.')}-work"
    by_cluster = {}
    for binding in placement.held:
        # A staged run says what a cluster is to have; otherwise it is the latest.
        index = binding.resource_snapshot if placement.asked.external else placement.stock.snapshots[-1].index
        progress = progress_of((binding,), -1 if index is None else index).get(binding.cluster)
        if progress is None:
            continue
        if binding.cluster in held_up and progress.rollout_started == TRUE:
            progress = replace(progress, rollout_started=FALSE, held_up=True)
        if placement.asked.external:
            run = brought_by.get(binding.cluster, "")
            is_known = binding.state is BindingState.BOUND and binding.cluster not in unsure
            started = TRUE if is_known or binding.cluster in placement.rolled_out.clusters else UNKNOWN
            progress = replace(progress, rollout_started=started, run=run)
            progress = _as_reported(placement, binding.cluster, progress)
        content = contents.get(binding.cluster)
        failed = bool(content and content.failure and not content.unopened)
        cluster_fails = binding.cluster in refusing
        waits_not = progress.applied != UNKNOWN
        trackable = content is None or availability_tracked(content.manifests)
        by_cluster[binding.cluster] = replace(
            progress,
            overrides=failed or _names_overrides(content),
            overridden=FALSE if failed else progress.overridden,
            work_synchronized=FALSE if content and content.unopened else progress.work_synchronized,
            applied=FALSE
            if waits_not and (cluster_fails or (content and content.refused))
            else progress.applied,
            diff_reported=(progress.diff_reported or TRUE) if placement.asked.written.report_diff else None,
            trackable=trackable,
            work=work,
            failure=content.in_words if content is not None else "",
        )
    return by_cluster


def _as_reported(placement: PlacementPlan, cluster: str, progress: Progress) -> Progress:
    """The progress where a staged run has still to bring another way of applying: its conditions wait."""
    apply = placement.asked.applied_as(cluster)
    if apply is None or cluster in placement.rolled_out.clusters:
        return progress
    reports = apply.type == REPORT_DIFF
    if reports == placement.asked.written.report_diff:
        return progress
    return replace(progress, diff_reported=UNKNOWN) if not reports else replace(progress, applied=UNKNOWN)


def _names_overrides(content: Rendered | None) -> bool:
    """Whether the binding of a cluster names overrides, whatever they make of the objects."""
    return content is not None and bool(content.overrides or content.digest)
