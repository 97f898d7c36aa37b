"""Progress of placements and runs on a hub, by pure functions over observed objects.

Conditions of a placement are insufficient: after a content change they stay True for the
previous content. So each binding has to name the expected snapshot and have conditions of
its own generation.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, field

from nexusform.diagnostics.phrases import enclose, format_count, format_first_items
from nexusform.documents.scalars import parse_integer
from nexusform.domains.fleet.importers.fleet_export import (
    ObservedPlacement,
    build_manifests,
    is_deleting,
    list_conditions,
    list_override_names,
    read_placements,
)
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.planning.placement_records import read_bindings
from nexusform.domains.fleet.scheduling.rolling_update import (
    BlockedRollout,
    Readiness,
    compute_rollout_target,
    simulate_rollout,
)
from nexusform.domains.hub.providers.hub_bodies import build_fleet_object, read_imported_arguments
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings, list_texts

LATEST_LABEL: Final = "kubernetes-fleet.io/is-latest-snapshot"
PARENT_NAMESPACE_LABEL: Final = "kubernetes-fleet.io/parent-placement-namespace"
_MAX_NAMES: Final = 4
_PICKED_STATES: Final = ("Scheduled", "Bound")
# Placement, index, and a suffix.
_SNAPSHOT_NAME: Final = re.compile(r".*-([0-9]{1,18})-[^-]*", re.DOTALL)
_BINDING_FIELDS: Final = (
    "state",
    "previous_state",
    "affinity_score",
    "topology_spread_score",
    "policy_snapshot",
    "resource_snapshot",
)
Body = Mapping[str, Any]
# The state of a cluster that is neither ready nor failed.
NOT_AVAILABLE: Final = "not available yet"


class PlacementProgress(Struct, frozen=True):
    """Progress of a placement: done or not, pending work as text, and the observed bindings.

    `is_decided` means that the hub has observed the change and picked clusters. `overrides` are the
    names of override snapshots by cluster.
    """

    is_done: bool
    message: str = ""
    bindings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_decided: bool = False
    latest_snapshot: int | None = None
    overrides: Mapping[str, frozenset[str]] = field(default_factory=dict)


class ObservedPlacementObjects(Struct, frozen=True):
    """Observed placement with its hub-created objects.

    `is_partial` means that its status replaces the missing snapshots.
    """

    placement: Body
    bindings: Sequence[Body]
    policies: Sequence[Body] = ()
    snapshots: Sequence[Body] = ()
    is_partial: bool = False


def get_generation(body: Body) -> int:
    """Return the generation of an object."""
    return int(get_mapping(body, "metadata").get("generation") or 0)


def get_name(body: Body) -> str:
    """Return the name of an object."""
    return str(get_mapping(body, "metadata").get("name"))


def get_labels(body: Body) -> Mapping[str, Any]:
    """Return the labels of an object."""
    return get_mapping(body, "metadata", "labels")


def find_condition(body: Body, kind: str) -> Mapping[str, Any]:
    """Return the condition `kind` of an object's current generation.

    {} if it is missing, or of an older one.
    """
    for item in list_conditions(body):
        if item.get("type") == kind and int(item.get("observedGeneration") or 0) >= get_generation(
            body
        ):
            return item
    return {}


def is_bound(binding: Body) -> bool:
    """Return True if a binding distributes its snapshot, and is not being deleted."""
    return get_mapping(binding, "spec").get("state") == "Bound" and not is_deleting(binding)


def get_target_cluster(binding: Body) -> str:
    """Return the cluster of a binding."""
    return str(get_mapping(binding, "spec").get("targetCluster"))


def build_placement_manifests(placement_objects: ObservedPlacementObjects) -> tuple[Manifest, ...]:
    """Return the objects of a placement as manifests, like an export."""
    created = (
        *placement_objects.bindings,
        *placement_objects.policies,
        *placement_objects.snapshots,
    )
    return build_manifests([placement_objects.placement, *created])


def read_placement_export(placement_objects: ObservedPlacementObjects) -> ObservedPlacement | None:
    """Read a placement with its objects like an export; None if it is in deletion or malformed."""
    # The objects are of one placement, or none.
    placements = read_placements(build_placement_manifests(placement_objects))
    return next(iter(placements.values()), None)


def build_observed_bindings(
    placement_objects: ObservedPlacementObjects,
) -> dict[str, dict[str, Any]]:
    """Return the bindings as attributes of a placement, by cluster, without those in deletion."""
    placement = read_placement_export(placement_objects)
    if placement is None:
        # The object is in deletion, or malformed.
        return {}
    return {
        cluster: {
            **{name: getattr(binding, name) for name in _BINDING_FIELDS},
            "provenance": "observed",
        }
        for cluster, binding in sorted(placement.bindings.items())
        if not binding.deleting
    }


def list_predicted_failures(planned: Mapping[str, Any]) -> frozenset[str]:
    """Return the predicted failures of a placement like those observed.

    An example is `ams1: Applied False, ApplyFailed`.
    """
    failures: set[str] = set()
    for status in list_mappings(planned, "placement_statuses"):
        for condition in list_mappings(status, "conditions"):
            if condition.get("status") == "False":
                failures.add(f"{status.get('cluster_name')}: {_format_failure(condition)}")
    return frozenset(failures)


def check_placement_progress(
    placement_objects: ObservedPlacementObjects,
    planned: Mapping[str, Any],
    *,
    is_external: bool,
    failing: AbstractSet[str] = frozenset(),
) -> PlacementProgress:
    """Return the progress of a placement.

    With `is_external` (staged runs roll it out) it is done once scheduled. `planned` are the
    predicted bindings, and `failing` the messages about predicted failures: not waited for.
    """
    body = placement_objects.placement
    scheduled_condition = find_condition(body, f"{body.get('kind')}Scheduled")
    bindings = build_observed_bindings(placement_objects)
    if scheduled_condition.get("status", "Unknown") == "Unknown":
        return PlacementProgress(
            is_done=False, message="the hub has not picked clusters yet", bindings=bindings
        )
    # The hub does no more.
    if scheduled_condition.get("reason") == "InvalidResourceSelectors":
        message = str(scheduled_condition.get("message") or "its selectors are invalid")
        return PlacementProgress(is_done=True, message=message, bindings=bindings, is_decided=True)
    # A partial read has no policies.
    if not (placement_objects.is_partial or _is_policy_observed(placement_objects)):
        return PlacementProgress(
            is_done=False, message="the hub has not observed the policy yet", bindings=bindings
        )
    latest_snapshot = _get_latest_index(placement_objects)
    if is_external:
        return PlacementProgress(
            is_done=True, bindings=bindings, is_decided=True, latest_snapshot=latest_snapshot
        )
    pending, expected_failures = _find_pending_clusters(
        placement_objects, planned, latest_snapshot, failing
    )
    message = format_first_items(pending, _MAX_NAMES)
    if expected_failures and not pending:
        message = f"as predicted, {format_first_items(expected_failures, _MAX_NAMES)}"
    return PlacementProgress(
        is_done=not pending,
        message=message,
        bindings=bindings,
        is_decided=True,
        latest_snapshot=latest_snapshot,
        overrides={
            get_target_cluster(binding): frozenset(
                list_override_names(get_mapping(binding, "spec"))
            )
            for binding in placement_objects.bindings
            if not is_deleting(binding)
        },
    )


def find_blocked_rollout(
    placement_objects: ObservedPlacementObjects, outdated: AbstractSet[str] = frozenset()
) -> BlockedRollout | None:
    """Return a rolling update without progress and without budget to continue.

    The result is None if it continues or has ended. `outdated` are bound clusters still to get an
    override. The caller ensures the hub has processed the placement.
    """
    placement = placement_objects.placement
    latest = _get_latest_index(placement_objects)
    if latest is None:
        # Without a resource snapshot.
        return None
    if any(_is_binding_in_progress(placement, binding) for binding in placement_objects.bindings):
        # It continues after this cluster.
        return None
    type_name = API_KINDS[str(placement.get("kind"))].type_name
    arguments = {"name": get_name(placement), **read_imported_arguments(type_name, placement)}
    configuration: FleetPlacement = build_fleet_object(type_name, arguments)
    bindings = read_bindings({"bindings": build_observed_bindings(placement_objects)})
    target = compute_rollout_target(
        configuration.effective_policy, configuration.number_of_clusters, bindings
    )
    outcome = simulate_rollout(
        bindings,
        configuration.rolling_update,
        target,
        latest,
        Readiness(outdated_clusters=frozenset(outdated)),
    )
    if outcome.waves or not outcome.blocked_clusters:
        # It continues, or has ended.
        return None
    return BlockedRollout(configuration.key, configuration.rolling_update, outcome.blocked_clusters)


def _is_binding_in_progress(placement: Body, binding: Body) -> bool:
    """Return True if a binding is in progress.

    The hub still deletes or changes it, or its bound cluster is not ready.
    """
    if not is_bound(binding):
        return is_deleting(binding)
    return (
        _has_outdated_strategy(placement, get_mapping(binding, "spec"))
        or explain_unready_cluster(binding) != ""
    )


def _is_policy_observed(placement_objects: ObservedPlacementObjects) -> bool:
    """Return True if the latest policy snapshot is of the placement's generation.

    This is the current generation of the placement.
    """
    policy = _find_latest(placement_objects.policies)
    if policy is None:
        return False
    observed_generation = int(get_mapping(policy, "status").get("observedCRPGeneration") or 0)
    return observed_generation >= get_generation(placement_objects.placement)


def get_observed_index(placement: Body) -> int | None:
    """Return the resource snapshot index in a placement's status."""
    return parse_integer(get_text(placement, "status", "observedResourceIndex"))


def _find_pending_clusters(
    placement_objects: ObservedPlacementObjects,
    planned: Mapping[str, Any],
    # Index of the latest resource snapshot.
    latest: int | None,
    # Messages about predicted failures.
    failing: AbstractSet[str],
) -> tuple[list[str], list[str]]:
    """Return messages about the clusters still to be changed by a rolling update.

    The second list is about clusters with a failure or an old resource snapshot as predicted: these
    are not waited for.
    """
    pending: list[str] = []
    expected_failures: list[str] = []
    for binding in placement_objects.bindings:
        cluster = get_target_cluster(binding)
        name = get_text(binding, "spec", "resourceSnapshotName")
        predicted = get_mapping(planned, cluster)
        match = _SNAPSHOT_NAME.fullmatch(name)
        # Index of the resource snapshot.
        index = int(match[1]) if match is not None else None
        # The rollout has not reached it yet.
        if is_bound(binding) and latest is not None and index != latest:
            message = f"{cluster} still has {name}" if name else f"{cluster} has no snapshot yet"
            is_predicted = index is not None and predicted.get("resource_snapshot") == index
        else:
            message = _describe_pending_cluster(placement_objects.placement, binding, predicted)
            is_predicted = message in failing
        if not message:
            # Nothing is left to do there.
            continue
        if is_predicted:
            expected_failures.append(message)
        else:
            pending.append(message)
    return pending, expected_failures


def _describe_pending_cluster(placement: Body, binding: Body, predicted: Body) -> str:
    """Return the pending work of a cluster with the latest snapshot, or without any.

    An example is `ams1: not available yet`. Return "" if there is none: the cluster is available,
    or keeps its state as predicted.
    """
    spec = get_mapping(binding, "spec")
    cluster = get_target_cluster(binding)
    if is_deleting(binding):
        finalizers = ", ".join(list_texts(binding, "metadata", "finalizers"))
        return f"{cluster} still goes{enclose(' (held by ', finalizers, ')')}"
    state = str(spec.get("state"))
    if state == "Unscheduled":
        return "" if predicted.get("state") == state else f"{cluster} is to be left"
    if state != "Bound":
        return "" if predicted.get("state") == "Scheduled" else f"{cluster} is {state}"
    if _has_outdated_strategy(placement, spec):
        return f"{cluster} still has the previous instruction to apply"
    return enclose(f"{cluster}: ", explain_unready_cluster(binding))


def _has_outdated_strategy(placement: Body, binding_spec: Mapping[str, Any]) -> bool:
    """Return True if a binding still has an older apply strategy.

    The hub updates it after the placement.
    """
    configured = get_mapping(placement, "spec", "strategy", "applyStrategy")
    bound = get_mapping(binding_spec, "applyStrategy")
    # A missing field is no change.
    return any(bound.get(name, value) != value for name, value in configured.items())


def explain_unready_cluster(binding: Body) -> str:
    """Return why a bound cluster is not ready.

    The reason is its first failed condition (`Applied False, ApplyFailed`), or else NOT_AVAILABLE.
    Return "" for a ready cluster.
    """
    if any(
        find_condition(binding, kind).get("status") == "True"
        for kind in ("Available", "DiffReported")
    ):
        return ""
    for kind in (
        "RolloutStarted",
        "Overridden",
        "WorkSynchronized",
        "Applied",
        "DiffReported",
        "Available",
    ):
        condition = find_condition(binding, kind)
        if condition.get("status") == "False":
            return _format_failure(condition)
    return NOT_AVAILABLE


def _format_failure(condition: Mapping[str, Any]) -> str:
    return f"{condition.get('type')} False, {condition.get('reason')}"


def list_picked_clusters(bindings: Mapping[str, Any]) -> set[str]:
    """Return the picked clusters."""
    return {
        cluster for cluster, binding in bindings.items() if binding.get("state") in _PICKED_STATES
    }


def is_latest_snapshot_outdated(planned: Mapping[str, Any], latest: int | None) -> bool:
    """Return True if the hub's latest snapshot is missing or outdated.

    A missing one is None, an outdated one is older than the newest predicted one. A binding without
    a predicted snapshot (None) does not count.
    """
    for binding in planned.values():
        predicted = get_mapping(binding).get("resource_snapshot")
        if isinstance(predicted, int) and (latest is None or predicted > latest):
            return True
    return False


def _find_latest(snapshots: Sequence[Body]) -> Body | None:
    """Return the snapshot labelled as latest."""
    return next(
        (snapshot for snapshot in snapshots if get_labels(snapshot).get(LATEST_LABEL) == "true"),
        None,
    )


def _get_latest_index(placement_objects: ObservedPlacementObjects) -> int | None:
    """Return the index of the latest resource snapshot, None without one.

    After a partial read, only the status has it.
    """
    if placement_objects.is_partial:
        return get_observed_index(placement_objects.placement)
    latest = _find_latest(placement_objects.snapshots)
    return parse_integer(
        get_text(latest, "metadata", "labels", "kubernetes-fleet.io/resource-index")
    )


class StagedRunProgress(Struct, frozen=True):
    """Progress of a staged run.

    `approval` is the request waiting for an operator, `failure` the reason of a failure.
    """

    has_ended: bool
    message: str = ""
    approval: str = ""
    failure: str = ""


def check_run_progress(run: Body, requests: Sequence[Body]) -> StagedRunProgress:
    """Return the progress of a run with its approval requests.

    Its spec has the requested state: Run, Stop, or only Initialize (the default). A requested stop
    or initialization is an end of the run, too.
    """
    initialized = find_condition(run, "Initialized")
    succeeded = find_condition(run, "Succeeded")
    for condition in (initialized, succeeded):
        if condition.get("status") == "False":
            return StagedRunProgress(
                has_ended=True, failure=str(condition.get("message") or condition.get("reason"))
            )
    if succeeded.get("status") == "True":
        return StagedRunProgress(has_ended=True)
    stage = _describe_current_stage(run)
    state = get_text(run, "spec", "state") or "Initialize"
    if state == "Stop":
        is_stopped = find_condition(run, "Progressing").get("status") == "False"
        message = "it is to stop" if is_stopped else f"it is to stop; {stage}"
        return StagedRunProgress(has_ended=is_stopped, message=message)
    if state == "Initialize":
        return StagedRunProgress(has_ended=bool(initialized), message="it is to initialize")
    pending_approvals = [get_name(request) for request in requests if not is_approved(request)]
    # "": the run waits for none.
    approval = pending_approvals[0] if pending_approvals else ""
    message = f"{stage}{enclose('; ', approval, ' waits for approval')}"
    return StagedRunProgress(has_ended=False, approval=approval, message=message)


def is_approved(request: Body) -> bool:
    """Return True if a request is granted."""
    return _has_true_condition(get_mapping(request, "status"), "Approved")


def _describe_current_stage(run: Body) -> str:
    """Return the current stage: `stage canary: 1 of 2 clusters done (ams1 to come)`."""
    status = get_mapping(run, "status")
    for stage in (
        *list_mappings(status, "stagesStatus"),
        get_mapping(status, "deletionStageStatus"),
    ):
        if not stage.get("stageName") or _has_true_condition(stage, "Succeeded"):
            # The stage has not started, or is complete.
            continue
        clusters = list_mappings(stage, "clusters")
        unfinished = [
            cluster for cluster in clusters if not _has_true_condition(cluster, "Succeeded")
        ]
        remaining = [str(cluster.get("clusterName")) for cluster in unfinished]
        done_count = len(clusters) - len(remaining)
        remaining_text = enclose(" (", format_first_items(remaining, _MAX_NAMES), " to come)")
        cluster_count = format_count(len(clusters), "cluster")
        return (
            f"stage {stage.get('stageName')}: {done_count} of {cluster_count} done{remaining_text}"
        )
    return "all stages are done" if status.get("stagesStatus") else "it begins"


def _has_true_condition(status: Mapping[str, Any], kind: str) -> bool:
    """Return True if the conditions in a status have a true `kind`.

    Of an object, a stage of a run or its cluster.
    """
    conditions = list_mappings(status, "conditions")
    return (kind, "True") in (
        (condition.get("type"), condition.get("status")) for condition in conditions
    )
