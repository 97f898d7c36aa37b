"""Selected resources of a placement.

They are objects, resource snapshots, and the resources on clusters, from state or a hub.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import json
from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_export import (
    FAILED,
    OVERRIDE_FAILED,
    READY,
    build_manifests,
)
from nexusform.domains.fleet.importers.fleet_records import FleetOverride
from nexusform.domains.fleet.planning.binding_rows import PLANNED
from nexusform.domains.fleet.planning.fleet_snapshot import MemberClusters
from nexusform.domains.fleet.planning.foreign_field_merge import ON_HUB
from nexusform.domains.fleet.planning.override_rendering import (
    ClusterRenderer,
    RenderedResources,
    collect_selection_keys,
    select_overrides,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.placement_records import (
    CLEARED_LATER,
    CONDITIONAL,
    REJECTIONS,
    SNAPSHOTS,
    AppliedResources,
    ResourceSnapshot,
    compute_content_hash,
    hash_unselected_decisions,
    read_applied_resources,
    write_applied_resources,
)
from nexusform.domains.fleet.planning.placement_spec import PlacementSpec
from nexusform.domains.fleet.planning.planned_hub import PlannedHub
from nexusform.domains.fleet.planning.resource_selection import (
    CurrentResources,
    HubIndex,
    PlacementResources,
    ResourceSelection,
    SnapshotStore,
    find_empty_selectors,
    find_selector_problem,
    select_resources,
)
from nexusform.domains.fleet.scheduling.bindings import (
    BindingState,
    PlacementType,
    collect_clusters,
    select_scheduled_bindings,
    split_clusters,
)
from nexusform.domains.fleet.scheduling.staged_update import RunStepKind
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.importers.manifest_parser import Manifest, is_reserved_namespace
from nexusform.json_data.plain_data import get_list, get_mapping, get_text
from nexusform.planning.vm_planning.vm_object import record_vm_placements
from nexusform.schemas.block_schema import PLACED_KEY

# key of a placement's note.
OPEN_CLUSTERS = "open_clusters"
_LOW_SCORE = "does not score high enough"


def select_placement_resources(
    spec: PlacementSpec, hub: PlannedHub, clusters: MemberClusters
) -> PlacementResources:
    """Select the objects, take a snapshot if they changed, and find changed overrides.

    Staged runs do it later.
    """
    manifests = select_resources(spec.configuration, hub.object_index) or _select_observed_objects(
        spec, hub
    )
    selection = ResourceSelection(
        manifests=manifests,
        overrides=hub.override_index.list_overrides(spec.configuration.key),
        empty_selectors=find_empty_selectors(spec.configuration, manifests),
        selector_problem=find_selector_problem(spec.configuration, hub.object_index),
        clusters=clusters,
    )
    applied = _read_applied_resources(spec, selection, hub)
    resources = _build_placement_resources(spec, selection, applied, hub)
    if applied.latest is None or not _has_unnoticed_change(selection, spec, applied, hub):
        return resources
    # The clusters keep the content of the last snapshot.
    kept_selection = replace(selection, manifests=applied.latest.objects)
    kept_resources = _build_placement_resources(spec, kept_selection, applied, hub)
    return replace(kept_resources, unnoticed=resources)


def _build_placement_resources(
    spec: PlacementSpec, selection: ResourceSelection, applied: AppliedResources, hub: PlannedHub
) -> PlacementResources:
    """Build the resources of a placement with these selected objects."""
    snapshot_store = SnapshotStore(selection, applied.snapshots)
    comparison = _ResourceComparisonInput(spec, selection, applied, snapshot_store)
    # Staged runs take their own snapshots; a hub takes none in deletion or with invalid selectors.
    if spec.is_external or spec.is_being_deleted or selection.selector_problem:
        current = CurrentResources(
            applied,
            staged_trigger=_find_trigger_of_staged_change(comparison, hub)
            if spec.is_external
            else None,
            is_selection_changed=_is_selection_changed(spec, selection.manifests, hub),
        )
        return PlacementResources(selection, current, snapshot_store)
    latest = snapshot_store.add_snapshot(spec.configuration.revision_history_limit)
    previous = applied.latest
    pairs = _pair_current_and_new_resources(comparison, latest.index)
    outdated_clusters = frozenset(
        cluster for cluster, old, new in pairs if old.overrides != new.overrides
    )
    current = CurrentResources(
        applied,
        resources_changed=previous is not None and previous.hash != latest.hash,
        outdated_clusters=outdated_clusters,
        differing_clusters=frozenset(_find_differing_clusters(comparison, latest.index)),
        has_override_change=bool(outdated_clusters) and _has_own_override_changes(comparison, hub),
    )
    return PlacementResources(selection, current, snapshot_store)


def _has_unnoticed_change(
    selection: ResourceSelection, spec: PlacementSpec, applied: AppliedResources, hub: PlannedHub
) -> bool:
    """Return whether only content changes, in a namespace whose changes the hub does not watch.

    A hub takes the next snapshot once the placement or its scheduling decisions change. Staged runs
    take their own. Seen on a running hub in default and kube-system.
    """
    latest = applied.latest
    if spec.is_external or latest is None or spec.is_new or spec.spec_changed:
        return False
    is_evicted = any(item.placement == spec.configuration.key for _, item in hub.evictions)
    if is_evicted or not is_reserved_namespace(spec.configuration.namespace):
        return False
    return latest.hash != compute_content_hash(selection.manifests)


def _is_selection_changed(
    spec: PlacementSpec, manifests: Sequence[Manifest], hub: PlannedHub
) -> bool:
    """Return True if the selected `manifests` differ from those selected in state before the plan.

    Return False if state has none: they are from a dump of the hub then, and the hub may have
    processed their changes. Annotations of controllers count: a hub processes the placement
    after each write of a selected object, also if its resource snapshot stays the same. Seen on
    a running hub.
    """
    if spec.previous_configuration is None:
        return False
    previous_objects = select_resources(spec.previous_configuration, hub.prior_object_index)
    if not previous_objects:
        return False
    return compute_content_hash(previous_objects) != compute_content_hash(
        manifests
    ) or _collect_annotations(previous_objects) != _collect_annotations(manifests)


def _collect_annotations(manifests: Iterable[Manifest]) -> dict[Any, Mapping[str, Any]]:
    """Return the annotations of objects by identity, without objects that have none."""
    annotations = {
        manifest.identity: get_mapping(manifest.body, "metadata", "annotations")
        for manifest in manifests
    }
    return {identity: values for identity, values in annotations.items() if values}


def _select_observed_objects(spec: PlacementSpec, hub: PlannedHub) -> tuple[Manifest, ...]:
    """Return the objects selected in the latest snapshot on a hub: neither plan nor state has them.

    Return () without such a snapshot, or if state has selected objects: this plan removes them.
    """
    snapshots = spec.observed_attributes.get("resource_snapshots")
    previous = spec.previous_configuration
    if not snapshots or (
        previous is not None and select_resources(previous, hub.prior_object_index)
    ):
        return ()
    objects = build_manifests(map(json.decode, snapshots[-1]["objects"]))
    return select_resources(spec.configuration, HubIndex(objects))


class _ResourceComparisonInput(NamedTuple):
    """Inputs of the comparison between selected and applied resources."""

    spec: PlacementSpec
    selection: ResourceSelection
    applied: AppliedResources
    snapshot_store: SnapshotStore


def _find_trigger_of_staged_change(
    comparison: _ResourceComparisonInput, hub: PlannedHub
) -> Trigger | None:
    """Return the trigger of a change distributed only by a staged run.

    A change of the selected objects comes before one of overrides. The result is None without a
    change, and for a placement that is not distributed yet.
    """
    previous = comparison.spec.previous_configuration
    if previous is None:
        return None
    # A hub was read: compare with its latest snapshot, else with state.
    if comparison.spec.observed_attributes:
        latest = comparison.applied.latest
        # Nothing is distributed yet.
        if latest is None:
            return None
        if latest.hash != compute_content_hash(comparison.selection.manifests):
            return Trigger.RESOURCES_CHANGED
        return (
            Trigger.OVERRIDES_CHANGED
            if _find_differing_clusters(comparison, latest.index)
            else None
        )
    previous_objects = select_resources(previous, hub.prior_object_index)
    if compute_content_hash(previous_objects) != compute_content_hash(
        comparison.selection.manifests
    ):
        return Trigger.RESOURCES_CHANGED
    prior_overrides = hub.prior_override_index.list_overrides(previous.key)
    return Trigger.OVERRIDES_CHANGED if prior_overrides != comparison.selection.overrides else None


def _has_own_override_changes(comparison: _ResourceComparisonInput, hub: PlannedHub) -> bool:
    """Return True if the overrides naming the placement differ from those on its clusters.

    Other overrides start no rollout. Source: seen on a running hub; KubeFleet
    pkg/controllers/rollout watches overrides with a placement name.
    """
    key = comparison.spec.configuration.key
    observed = comparison.spec.observed_attributes
    own_overrides = _select_own_overrides(comparison.selection.overrides, key)
    # No hub: compare with state.
    if not observed:
        return own_overrides != _select_own_overrides(
            hub.prior_override_index.list_overrides(key), key
        )
    override_snapshots: Mapping[str, FleetOverride] = get_mapping(observed, "override_snapshots")
    for cluster, binding in get_mapping(observed, "bindings").items():
        snapshot = comparison.snapshot_store.find_snapshot(binding.get("resource_snapshot"))
        labels = comparison.selection.clusters.labels.get(cluster)
        bound_overrides = _get_captured_overrides(
            override_snapshots, get_list(binding, "overrides")
        )
        if snapshot is None or labels is None or bound_overrides is None:
            # Not comparable: the snapshot, the member or an override is unknown.
            continue
        # An override captured with any binding is not new, even if it newly matches the labels
        # of this cluster.
        current_overrides = select_overrides(
            own_overrides, collect_selection_keys(snapshot.objects), labels
        )
        has_added = any(
            override not in override_snapshots.values() for override in current_overrides
        )
        has_removed = any(
            override not in own_overrides
            for override in _select_own_overrides(bound_overrides, key)
        )
        if has_added or has_removed:
            return True
    return False


def _select_own_overrides(overrides: Iterable[FleetOverride], key: str) -> list[FleetOverride]:
    """Return the overrides naming the placement with this key; others apply to all placements."""
    return [override for override in overrides if override.placement == key]


def _get_captured_overrides(
    override_snapshots: Mapping[str, FleetOverride], names: Sequence[str]
) -> tuple[FleetOverride, ...] | None:
    """Return the overrides of a binding, given the names of their snapshots.

    The result is None if one was not captured.
    """
    is_captured = all(name in override_snapshots for name in names)
    return tuple(override_snapshots[name] for name in names) if is_captured else None


def _find_differing_clusters(comparison: _ResourceComparisonInput, index: int) -> list[str]:
    """Return the bound clusters to be changed by applying snapshot `index`.

    The present overrides are used.
    """
    pairs = _pair_current_and_new_resources(comparison, index)
    return [
        cluster for cluster, previous, updated in pairs if not previous.has_same_result(updated)
    ]


def _pair_current_and_new_resources(
    comparison: _ResourceComparisonInput, index: int
) -> Iterator[tuple[str, RenderedResources, RenderedResources]]:
    """Yield each bound cluster, its current resources, and those of snapshot `index`.

    The resources of the snapshot have the present overrides.
    """
    for binding in comparison.spec.prior_bindings:
        current = comparison.applied.on_cluster.get(binding.cluster)
        new = comparison.snapshot_store.render_cluster(index, binding.cluster)
        if current is not None and new is not None and binding.state is BindingState.BOUND:
            yield binding.cluster, current, new


def get_prior_note(spec: PlacementSpec) -> Mapping[str, Any]:
    """Return the private data of an existing placement in state; {} for a new one."""
    return {} if spec.is_new else spec.instance.prior_note


def _read_applied_resources(
    spec: PlacementSpec, selection: ResourceSelection, hub: PlannedHub
) -> AppliedResources:
    """Return the resources on the clusters before the plan.

    They are observed on a hub, else recorded in state. The record of an imported placement has
    none: the selected ones count as applied.
    """
    # private data in state.
    note = get_prior_note(spec)
    if spec.observed_attributes:
        return _read_observed_resources(spec, selection, hub, note)
    if SNAPSHOTS in note or spec.previous_configuration is None:
        return read_applied_resources(note, spec.prior_bindings, hub.manifests_by_hash)
    # Of resource snapshots in bindings.
    indices = _list_snapshot_indices(spec)
    # No staged run has reached a cluster yet.
    if spec.is_external and not indices:
        return AppliedResources()
    return _build_assumed_resources(spec, selection, max(indices, default=0), selection.manifests)


def _list_snapshot_indices(spec: PlacementSpec) -> list[int]:
    """Return the known resource snapshots of the prior bindings."""
    return [
        binding.resource_snapshot
        for binding in spec.prior_bindings
        if binding.resource_snapshot is not None
    ]


def _read_observed_resources(
    spec: PlacementSpec, selection: ResourceSelection, hub: PlannedHub, note: Mapping[str, Any]
) -> AppliedResources:
    """Return the resources observed on a hub.

    They are its resource snapshots, and the resources of each binding. Without captured snapshots,
    assume one snapshot with the newest index in the bindings. Its objects are the last ones
    recorded in state, or else those selected now.
    """
    observed_snapshots: list[ResourceSnapshot] = []
    selected_hash = compute_content_hash(selection.manifests)
    for snapshot in get_list(spec.observed_attributes, "resource_snapshots"):
        objects = build_manifests(map(json.decode, snapshot["objects"]))
        digest = compute_content_hash(objects)
        if digest == selected_hash:
            # The same apart from their order and the server's fields.
            objects = selection.manifests
        observed_snapshots.append(ResourceSnapshot(int(snapshot["index"]), digest, objects))
    snapshots = tuple(observed_snapshots)
    if snapshots:
        return AppliedResources(
            snapshots, dict(_render_observed_clusters(spec, selection, snapshots))
        )
    # Of resource snapshots in bindings.
    indices = _list_snapshot_indices(spec)
    if not indices:
        return AppliedResources()
    recorded = read_applied_resources(note, spec.prior_bindings, hub.manifests_by_hash).latest
    objects = selection.manifests if recorded is None else recorded.objects
    return _build_assumed_resources(spec, selection, max(indices), objects)


def _render_observed_clusters(
    spec: PlacementSpec, selection: ResourceSelection, snapshots: tuple[ResourceSnapshot, ...]
) -> Iterator[tuple[str, RenderedResources]]:
    """Yield the resources on each cluster.

    They are the objects of its snapshot under the overrides of its binding.
    """
    by_index: dict[int | None, ResourceSnapshot] = {
        snapshot.index: snapshot for snapshot in snapshots
    }
    override_snapshots: Mapping[str, FleetOverride] = get_mapping(
        spec.observed_attributes, "override_snapshots"
    )
    observed_bindings = get_mapping(spec.observed_attributes, "bindings")
    # By snapshot index and names of overrides.
    renderers: dict[tuple[int, tuple[str, ...]], ClusterRenderer] = {}
    for binding in spec.prior_bindings:
        snapshot = by_index.get(binding.resource_snapshot)
        if snapshot is None or not binding.has_resources:
            # Unknown snapshot, or nothing placed.
            continue
        observed = observed_bindings[binding.cluster]
        # In the binding's order: cluster overrides first.
        names = tuple(get_list(observed, "overrides"))
        # None if one was not captured.
        overrides = _get_captured_overrides(override_snapshots, names)
        if (snapshot.index, names) not in renderers:
            known_overrides = selection.overrides if overrides is None else overrides
            renderer = ClusterRenderer(snapshot.objects, known_overrides, selection.clusters.labels)
            renderers[snapshot.index, names] = renderer
        renderer = renderers[snapshot.index, names]
        rendered = renderer.render_cluster(binding.cluster) or RenderedResources(snapshot.objects)
        failure = _find_observed_failure(rendered, observed)
        if overrides is not None:
            rendered = replace(rendered, overrides=names)
        # Else keep the full text of a failure shortened by the hub.
        if failure != rendered.failure_message:
            rendered = replace(rendered, failure=failure, reported_failure="")
        yield binding.cluster, rendered


def _find_observed_failure(rendered: RenderedResources, observed_binding: Mapping[str, Any]) -> str:
    """Return the failure of overrides or envelopes on a cluster, "" for none.

    The hub's report has priority over the resources as rendered now, because the labels of the
    cluster may have changed since.
    """
    readiness = observed_binding.get("readiness")
    if readiness == OVERRIDE_FAILED:
        return (
            observed_binding.get("failure")
            or rendered.failure_message
            or "overrides failed on the hub"
        )
    if readiness in (READY, FAILED) and not rendered.has_envelope_failure:
        # The overrides succeeded: the objects are applied, or applying them failed.
        return ""
    return rendered.failure_message


def _build_assumed_resources(
    spec: PlacementSpec, selection: ResourceSelection, index: int, objects: tuple[Manifest, ...]
) -> AppliedResources:
    """Return these objects as the only snapshot.

    It is applied to each cluster with the current overrides.
    """
    renderer = ClusterRenderer(objects, selection.overrides, selection.clusters.labels)
    on_cluster = {
        # None: no member.
        binding.cluster: renderer.render_cluster(binding.cluster) or RenderedResources(objects)
        for binding in spec.prior_bindings
        if binding.has_resources
    }
    return AppliedResources(
        (ResourceSnapshot(index, compute_content_hash(objects), objects),), on_cluster
    )


def record_cluster_resources(placement: PlacementPlan, serial: int) -> None:
    """Record the resources on each cluster and the trigger of each new binding, after all rollouts.

    The record is the private note: data in state next to the attributes. `serial` is that of the
    state after the apply.
    """
    prior_note = get_prior_note(placement.spec)
    prior_clusters = (
        collect_clusters(placement.spec.prior_bindings) - placement.released_clusters
    )  # not replaced
    clusters = [binding.cluster for binding in placement.bindings]
    _prior, new_clusters = split_clusters(clusters, prior_clusters)
    pick_triggers = [
        (cluster, str(placement.scheduling.pick_triggers.get(cluster, "")))
        for cluster in new_clusters
    ]
    # Keep two parts of the prior note: the triggers (in the form used for placed VMs, too) and the
    # record of the hub.
    prior_placed = {PLACED_KEY: prior_note[PLACED_KEY]} if PLACED_KEY in prior_note else None
    hub_record = {ON_HUB: prior_note[ON_HUB]} if ON_HUB in prior_note else {}
    placed_note = record_vm_placements(prior_placed, pick_triggers, clusters, serial) or {}
    applied = AppliedResources(
        placement.snapshot_store.snapshots, placement.compute_final_resources(is_present=True)
    )
    resource_note = write_applied_resources(applied, placement.bindings)
    open_clusters = _find_clusters_with_random_choice(placement)
    open_note = {OPEN_CLUSTERS: open_clusters} if open_clusters else {}
    cleared_later = sorted(placement.clusters_cleared_later)
    cleared_note = {CLEARED_LATER: cleared_later} if cleared_later else {}
    conditional = sorted(placement.rollout.conditional_clusters)
    placement.spec.instance.private = {
        **placed_note,
        **({CONDITIONAL: conditional} if conditional else {}),
        **hub_record,
        **resource_note,
        **open_note,
        **cleared_note,
        **_build_rejections_note(placement),
    }


def _build_rejections_note(placement: PlacementPlan) -> dict[str, str]:
    """Return the hash of the rejections of the last scheduling cycle as part of the private note.

    The result is {} without rejections. A binding that a run deletes starts another cycle. If a
    PickN then has all its clusters, the cycle rejects none. Seen on a running hub.
    """
    status = placement.scheduling.status
    is_fulfilled_pick_n = (
        placement.spec.configuration.placement_type is PlacementType.PICK_N
        and placement.scheduling.is_fulfilled
    )
    has_deleting_run = placement.spec.is_external and any(
        step.kind == RunStepKind.DELETE and step.status == PLANNED
        for timeline in placement.rollout.timelines
        for step in timeline.steps
    )
    if has_deleting_run and is_fulfilled_pick_n:
        return {}
    if status is None:
        rejections = get_text(get_prior_note(placement.spec), REJECTIONS)
    else:
        rejections = hash_unselected_decisions(status)
    return {REJECTIONS: rejections} if rejections else {}


def _find_clusters_with_random_choice(placement: PlacementPlan) -> dict[str, float]:
    """Return the clusters among which a PickN chooses, each with the chance of a random choice.

    With 2 new clusters out of 3 eligible ones without a binding before, each has 2/3. {} if it
    picks all of them, or none.
    """
    status = placement.scheduling.status
    if status is None or placement.spec.configuration.placement_type is not PlacementType.PICK_N:
        # None: no scheduling cycle ran.
        return {}
    # binding not replaced.
    existing = collect_clusters(placement.spec.prior_bindings) - placement.released_clusters
    picked = collect_clusters(select_scheduled_bindings(placement.bindings))
    new_clusters = picked - existing
    outscored = {
        decision.cluster
        for decision in status.unselected_decisions
        if _LOW_SCORE in decision.reason
    }
    candidates = sorted(new_clusters | (outscored - existing))
    has_choice = 0 < len(new_clusters) < len(candidates)
    return (
        dict.fromkeys(candidates, round(len(new_clusters) / len(candidates), 6))
        if has_choice
        else {}
    )
