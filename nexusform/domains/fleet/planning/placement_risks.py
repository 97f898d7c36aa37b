"""Risks of placement moves: no ready copy, volumes left behind, ineffective spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.fleet.planning.fleet_snapshot import FleetMemberState
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.importers.manifest_parser import Manifest

_MAX_NAMES: Final = 4
_LOCATION: Final = "fleet.azure.com/location"
_WORKLOAD_KINDS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})


def find_placement_risks(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    """Yield the warnings about one placement as (id, text)."""
    objects = (
        placement.snapshot_store.snapshots[-1].objects
        if placement.snapshot_store.snapshots
        else placement.selection.manifests
    )
    workloads = [manifest for manifest in objects if manifest.kind in _WORKLOAD_KINDS]
    volume_users = [manifest for manifest in objects if _has_persistent_volume_claims(manifest)]
    yield from _find_wave_without_ready_copy(placement, workloads)
    # Find moves of volume users; their volumes are empty on the new clusters.
    clusters_before = _collect_clusters_with_resources(placement.spec.prior_bindings)
    clusters_after = _collect_clusters_with_resources(placement.bindings)
    removed = sorted(clusters_before - clusters_after)
    added = sorted(clusters_after - clusters_before)
    if volume_users and removed and added:
        names = format_first_items([manifest.title for manifest in volume_users], _MAX_NAMES)
        text = (
            f"{placement.key} moves from {format_first_items(removed, _MAX_NAMES)} to "
            f"{format_first_items(added, _MAX_NAMES)}. The volumes of {names} are not moved and start "
            "empty. Copy the data first."
        )
        yield "volumes-left-behind", text
    yield from _find_ineffective_spread(placement, members)


def _find_wave_without_ready_copy(placement: PlacementPlan, workloads: list[Manifest]) -> Iterator[tuple[str, str]]:
    """Find a wave that removes the last ready cluster before a new one is ready."""
    ready = _collect_clusters_with_resources(placement.spec.prior_bindings)
    added = _collect_clusters_with_resources(placement.bindings) - ready
    if not workloads or not ready or not added:
        return
    for number, wave in enumerate(placement.rollout.waves, 1):
        ready -= set(wave.deleted_clusters)
        if not ready:
            names = format_first_items([manifest.title for manifest in workloads], _MAX_NAMES)
            added_names = format_first_items(sorted(added), _MAX_NAMES)
            text = (
                f"Wave {number} of {placement.key} removes {names} from the last cluster before "
                f'{added_names} can be ready. No copy is ready until then. With max_unavailable = "0" and '
                "a max_surge, the new copy starts first."
            )
            yield "brief-unavailability", text
            return
        ready |= set(wave.bound_clusters)


def _collect_clusters_with_resources(bindings: Iterable[Binding]) -> set[str]:
    return {binding.cluster for binding in bindings if binding.has_resources}


def _has_persistent_volume_claims(manifest: Manifest) -> bool:
    """Return True for a volume claim or a StatefulSet with claim templates."""
    spec = manifest.body.get("spec")
    templates = spec.get("volumeClaimTemplates") if isinstance(spec, Mapping) else None
    return manifest.kind == "PersistentVolumeClaim" or (manifest.kind == "StatefulSet" and bool(templates))


def _find_ineffective_spread(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    """Find a spread over locations if all members share one."""
    policy = placement.spec.configuration.policy
    keys = {constraint.topology_key for constraint in policy.spread_constraints} if policy is not None else set()
    if _LOCATION not in keys:
        return
    members_after = [member.planned for member in members.values() if member.planned is not None]
    locations = {member.labels.get(_LOCATION) for member in members_after}
    is_one_location = len(locations) == 1 and None not in locations
    if len(members_after) > 1 and is_one_location:
        text = (
            f"{placement.key} spreads over {_LOCATION}, but all {len(members_after)} members are in "
            f"{locations.pop()}. Spread over a label with several values."
        )
        yield "spread-over-one-value", text
