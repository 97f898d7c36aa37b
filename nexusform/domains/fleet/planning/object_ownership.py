"""Ownership of objects that several placements apply to one cluster.

The first manager owns an object until its removal; others fail to take it over. Of several in one
plan, the plan assumes the order of the configuration. Source: KubeFleet
pkg/controllers/workapplier (process.go, drift_detection_takeover.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Final, TypeVar

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_first_items, format_list
from nexusform.domains.fleet.importers.fleet_records import IF_NO_DIFF, NEVER
from nexusform.domains.fleet.planning.override_rendering import (
    ObjectIdentity,
    RenderedResources,
    collect_object_identities,
    expand_envelopes,
    get_object_identity,
)
from nexusform.domains.fleet.planning.placement_plan import ObjectOwnership, PlacementPlan
from nexusform.domains.fleet.planning.placement_records import OwnershipConflict
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.importers.live_workloads import LiveWorkload, find_current_revisions
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.json_data.plain_data import get_mapping

T = TypeVar("T")
_MAX_CLUSTERS: Final = 5
_NO_OWNERSHIP: Final = "no ownership of the object in the member cluster; takeover is needed"
_TAKEOVER_FAILED: Final = (
    "failed to take over a pre-existing object: the object is already owned by"
)
_DISALLOWED: Final = f"{_TAKEOVER_FAILED} some other sources(s) and co-ownership is disallowed"
_DUPLICATE: Final = f"{_TAKEOVER_FAILED} another Fleet AppliedWork object"
_DIFFERS: Final = (
    "cannot take over object: configuration differences are found between the manifest object and "
    "the "
    "corresponding object in the member cluster"
)

# A placement with its bindings and the clusters reached by its rollout.
PlacementBindings = tuple[PlacementPlan, Sequence[Binding], AbstractSet[str]]
# Objects added to clusters without a placement: member -> object -> (owner, manifest); observed
# ones by workload key.
DirectObjects = Mapping[str, Mapping[ObjectIdentity, tuple[str, Manifest]]]
LiveObjects = Mapping[str, Mapping[str, LiveWorkload]]


class SharedObjects(Struct, frozen=True):
    """Objects possibly applied by several placements, or by a placement and directly.

    `live` ones exist already.
    """

    objects: frozenset[ObjectIdentity] = frozenset()
    direct: DirectObjects = {}
    live: LiveObjects = {}


def find_shared_objects(
    placements: Sequence[PlacementPlan], direct: DirectObjects, live: LiveObjects
) -> SharedObjects:
    """Return the objects with several possible owners.

    Several placements, a placement and a block (`direct`: objects added to a cluster without a
    placement), or a placement and an observed workload (`live`).
    """
    # Of blocks, and of earlier placements.
    seen_objects: set[ObjectIdentity] = set().union(*direct.values())
    live_keys: set[str] = set().union(*live.values())
    shared_objects: set[ObjectIdentity] = set()
    for placement in placements:
        # The objects that a placement selects, has in snapshots, or has on a cluster.
        in_snapshots = [snapshot.objects for snapshot in placement.snapshot_store.snapshots]
        # Clusters without overrides share one list of objects, processed once.
        on_clusters = placement.current.applied.on_cluster.values()
        lists = {id(rendered.manifests): rendered.manifests for rendered in on_clusters}
        unnoticed = placement.unnoticed
        new_content = () if unnoticed is None else unnoticed.selection.manifests
        selected = (*placement.selection.manifests, *new_content)
        all_lists = (selected, *in_snapshots, *lists.values())
        objects = collect_object_identities(chain.from_iterable(all_lists))
        shared_objects |= objects & seen_objects | {
            item for item in objects if f"{item.namespace}/{item.kind}/{item.name}" in live_keys
        }
        seen_objects |= objects
    return SharedObjects(frozenset(shared_objects), direct, live)


def assign_object_owners(
    placement_bindings: Sequence[PlacementBindings], shared: SharedObjects
) -> None:
    """Set `ownership` of each placement.

    An object with another owner is a conflict, so it is not applied. If it is on the cluster
    already, and this plan does not change it, it is a duplicate.
    """
    results = {placement.address: ObjectOwnership() for placement, _, _ in placement_bindings}
    for (cluster, object_id), contenders in _collect_contenders(
        placement_bindings, shared.objects
    ).items():
        existing_object = _find_existing_object(shared, cluster, object_id)
        if existing_object is not None:
            # The object was added without a placement. Placements without it so far must
            # take it over.
            owner, existing = existing_object
            for contender in contenders:
                reason = _explain_takeover_failure(contender, cluster, existing)
                if reason:
                    conflicts = results[contender.placement.address].conflicts
                    conflicts.setdefault(cluster, {})[object_id] = OwnershipConflict(owner, reason)
        _record_ownership_conflicts(contenders, cluster, results)
    for placement, _, _ in placement_bindings:
        placement.ownership = results[placement.address]


def _collect_contenders(
    placement_bindings: Sequence[PlacementBindings], objects: frozenset[ObjectIdentity]
) -> dict[tuple[str, ObjectIdentity], list[_OwnershipCandidate]]:
    """Return the placements that want each of these objects, by cluster and object.

    They are in the order of placements.
    """
    contenders: dict[tuple[str, ObjectIdentity], list[_OwnershipCandidate]] = {}
    # `reached`: the clusters changed by its rollout.
    for placement, bindings, reached in placement_bindings:
        # ReportDiff applies nothing.
        if objects and not placement.spec.configuration.is_report_only:
            for binding in bindings:
                for candidate in _list_shared_objects_of_placement(
                    placement, binding, reached, objects
                ):
                    contenders.setdefault((binding.cluster, candidate.object), []).append(candidate)
    return contenders


def _find_existing_object(
    shared: SharedObjects, cluster: str, object_id: ObjectIdentity
) -> tuple[str, Manifest | LiveWorkload] | None:
    """Return (owner, object) for an object on a cluster added without a placement.

    The result is None without such an object. For an object of a block, these are the block's
    address and the manifest; else the owners' names and the observed workload.
    """
    live = shared.live.get(cluster, {}).get(
        f"{object_id.namespace}/{object_id.kind}/{object_id.name}"
    )
    observed_object = (format_list(live.owners), live) if live is not None else None
    return shared.direct.get(cluster, {}).get(object_id, observed_object)


def _record_ownership_conflicts(
    contenders: Sequence[_OwnershipCandidate], cluster: str, results: Mapping[str, ObjectOwnership]
) -> None:
    """Add the conflicts of `contenders` to their `results`.

    `contenders` are placements with the same object on a cluster. The owner has no conflict: it is
    the oldest placement already with the object, or else the first contender.
    """
    current_owners = [contender.placement for contender in contenders if contender.is_existing]
    owner = (
        min(current_owners, key=lambda p: p.spec.creation_order)
        if current_owners
        else contenders[0].placement
    )
    for contender in contenders:
        placement = contender.placement
        if placement is owner:
            continue  # no conflict
        # On the cluster already, and not changed by this plan: no conflict yet.
        if contender.is_kept:
            duplicates = results[placement.address].duplicates
            duplicates.setdefault(cluster, {})[contender.object] = owner.spec.address
            continue
        strategy = placement.spec.configuration.apply
        # A message of the hub.
        conflict_text = _DUPLICATE if strategy.allow_co_ownership else _DISALLOWED
        if strategy.when_to_take_over == NEVER:
            conflict_text = _NO_OWNERSHIP
        # All contenders add the object in this plan.
        is_race = not current_owners
        conflict = OwnershipConflict(owner.spec.address, conflict_text, is_race)
        results[placement.address].conflicts.setdefault(cluster, {})[contender.object] = conflict


class _OwnershipCandidate(Struct, frozen=True):
    # An object that a placement would have on a cluster: whether it had it before, and whether it
    # keeps it as it is. Two imported placements may keep one object; nothing changes for that
    # before one of them rolls out.
    placement: PlacementPlan
    object: ObjectIdentity
    is_existing: bool
    is_kept: bool


def _list_shared_objects_of_placement(
    placement: PlacementPlan,
    binding: Binding,
    reached: AbstractSet[str],
    objects: frozenset[ObjectIdentity],
) -> Iterator[_OwnershipCandidate]:
    """Yield the shared `objects` wanted by a placement on a cluster.

    Its rollout changes the clusters in `reached`.
    """
    # Its objects are removed first.
    is_released = binding.cluster in placement.released_clusters
    content_before = {} if is_released else placement.current.applied.on_cluster
    manifests_before = content_before.get(binding.cluster, RenderedResources(())).manifests
    objects_before = collect_object_identities(manifests_before)
    is_untouched = binding.cluster not in reached
    for object_id in (
        collect_object_identities(placement.list_wanted_objects(binding, reached)) & objects
    ):
        is_existing = object_id in objects_before
        yield _OwnershipCandidate(
            placement, object_id, is_existing, is_kept=is_existing and is_untouched
        )


def _explain_takeover_failure(
    contender: _OwnershipCandidate, cluster: str, existing: Manifest | LiveWorkload
) -> str:
    """Return the hub's message if a placement cannot take over an existing object, else "".

    The object exists on the cluster. `existing` is the manifest of an object added directly, or an
    observed workload. The apply strategy decides with its `when_to_take_over`: Never, Always, or
    IfNoDiff (only an object equal to the one rendered for the cluster).
    """
    placement = contender.placement
    strategy = placement.spec.configuration.apply
    # The owners of an observed workload as texts: "AppliedWork web". Those of other
    # objects are unknown.
    owners = existing.owners if isinstance(existing, LiveWorkload) else ()
    has_fleet_owner = any(owner.startswith("AppliedWork ") for owner in owners)
    if contender.is_existing or has_fleet_owner:
        # applied by the fleet before, so there is nothing to take over.
        return ""
    if strategy.when_to_take_over == NEVER:
        return _NO_OWNERSHIP
    if owners and not strategy.allow_co_ownership:
        return _DISALLOWED
    # Always: differences do not matter.
    if strategy.when_to_take_over != IF_NO_DIFF:
        return ""
    store = placement.snapshot_store
    # None: no snapshot, or an unknown cluster.
    rendered = store.render_cluster(store.latest_index, cluster)
    manifests = expand_envelopes(rendered.manifests) if rendered is not None else ()
    # The bodies rendered for this object: one, or none.
    wanted = [
        manifest.body for manifest in manifests if get_object_identity(manifest) == contender.object
    ]
    if isinstance(existing, Manifest):
        return "" if existing.body in wanted else _DIFFERS
    return "" if _is_workload_equal(existing, wanted) else _DIFFERS


def _is_workload_equal(existing: LiveWorkload, wanted: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a workload on a cluster equals the `wanted` object for its pods.

    The compared fields are its replicas and the template of its pods.
    """
    spec = get_mapping(wanted[0] if wanted else {}, "spec")
    revisions = find_current_revisions(get_mapping(spec, "template"), existing, replica_sets=())
    # None: the existing template is unknown and counts as equal.
    has_other_template = revisions == ()
    return not has_other_template and spec.get("replicas", existing.replicas) == existing.replicas


def build_ownership_warnings(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Yield warnings about ownership conflicts, and about objects recorded for two placements."""
    for text in (*_describe_duplicates(placement), *_describe_conflicts(placement)):
        yield placement.spec.instance.build_diagnostic(
            Problem((), "object-owned-by-another", text, Severity.WARNING)
        )


def _group_clusters(
    by_cluster: Mapping[str, Mapping[ObjectIdentity, T]],
) -> dict[tuple[ObjectIdentity, T], list[str]]:
    """Return the clusters with the same value of an object, by (object, value).

    Values are owners or conflicts.
    """
    clusters_by_object: dict[tuple[ObjectIdentity, T], list[str]] = {}
    for cluster, values in sorted(by_cluster.items()):
        for object_and_value in values.items():
            clusters_by_object.setdefault(object_and_value, []).append(cluster)
    return clusters_by_object


def _describe_duplicates(placement: PlacementPlan) -> Iterator[str]:
    """Yield a sentence for each object and owner recorded for two placements."""
    for (object_id, owner), clusters in _group_clusters(placement.ownership.duplicates).items():
        yield (
            f"State records {object_id.title} on {format_first_items(clusters, _MAX_CLUSTERS)} "
            "for both "
            f"{owner} and this placement. On a hub, one of them failed. This plan does not change "
            "that, and the next rollout of this placement fails there. Select the object in only "
            "one "
            "of them."
        )


def _describe_conflicts(placement: PlacementPlan) -> Iterator[str]:
    """Yield a sentence for each conflicting object and cause."""
    for (object_id, conflict), clusters in _group_clusters(placement.ownership.conflicts).items():
        cluster_names = format_first_items(clusters, _MAX_CLUSTERS)
        # Both add the object in this plan.
        if conflict.is_race:
            yield (
                f"{conflict.owner} and {placement.address} both add {object_id.title} to "
                f"{cluster_names} "
                f"in this plan. One of them fails ({conflict.message}). The plan assumes that "
                f"{conflict.owner} is first, but the hub decides. Select the object in only one "
                "of them."
            )
        elif not conflict.owner:
            # "": not an object of the fleet.
            yield (
                f"{object_id.title} exists on {cluster_names} already: {conflict.message}. It is "
                "not changed there."
            )
        else:
            yield (
                f"{object_id.title} on {cluster_names} belongs to {conflict.owner}: "
                f"{conflict.message}. "
                f"This placement cannot apply it there until {conflict.owner} releases it."
            )
