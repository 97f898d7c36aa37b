"""What a plan may cost that moves placements: a moment without a ready copy, volumes that stay behind, and a
spread that keeps nothing apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nexusform.domains.fleet.planning.contents import has_resources
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.world import FleetMemberState
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.words import first_of

_MOST_NAMED: Final = 4
_LOCATION: Final = "fleet.azure.com/location"
_RUNNING: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})


def placement_risks(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    """The warnings about one placement, each as (id, text)."""
    objects = placement.stock.snapshots[-1].objects if placement.stock.snapshots else placement.offer.selected
    running = [manifest for manifest in objects if manifest.kind in _RUNNING]
    claiming = [manifest for manifest in objects if _has_claims(manifest)]
    yield from _no_ready_copy(placement, running)
    yield from _volumes_behind(placement, claiming)
    yield from _spread_over_one(placement, members)


def _no_ready_copy(placement: PlacementPlan, workloads: list[Manifest]) -> Iterator[tuple[str, str]]:
    """Clusters change, and a wave takes the last old one away before a new one is ready."""
    ready = _clusters_with_resources(placement.asked.prior)
    coming = _clusters_with_resources(placement.held) - ready
    if not workloads or not ready or not coming:
        return
    for number, wave in enumerate(placement.rolled_out.waves, 1):
        ready -= set(wave.deleted)
        if not ready:
            names = first_of([manifest.title for manifest in workloads], _MOST_NAMED)
            come = first_of(sorted(coming), _MOST_NAMED)
            text = (
                f"In wave {number} of {placement.key} the last cluster that has {names} is left "
                f'before {come} can be ready: until then no copy is. With max_unavailable = "0" '
                "and a max_surge the new one comes first."
            )
            yield "no-ready-copy-for-a-moment", text
            return
        ready |= set(wave.bound)


def _clusters_with_resources(bindings: Iterable[Binding]) -> set[str]:
    return {binding.cluster for binding in bindings if has_resources(binding)}


def _has_claims(manifest: Manifest) -> bool:
    """Whether an object is a claim of a volume, or makes some for its pods."""
    spec = manifest.body.get("spec")
    templates = spec.get("volumeClaimTemplates") if isinstance(spec, Mapping) else None
    return manifest.kind == "PersistentVolumeClaim" or (manifest.kind == "StatefulSet" and bool(templates))


def _volumes_behind(placement: PlacementPlan, claiming: list[Manifest]) -> Iterator[tuple[str, str]]:
    """What claims volumes leaves clusters and comes to others, where its volumes begin empty."""
    clusters_before = _clusters_with_resources(placement.asked.prior)
    clusters_after = _clusters_with_resources(placement.held)
    leaving = sorted(clusters_before - clusters_after)
    coming = sorted(clusters_after - clusters_before)
    if claiming and leaving and coming:
        names = first_of([manifest.title for manifest in claiming], _MOST_NAMED)
        text = (
            f"{placement.key} leaves {first_of(leaving, _MOST_NAMED)} and comes to "
            f"{first_of(coming, _MOST_NAMED)}. The volumes of {names} do not come along: they begin empty "
            "there. Take the data over first."
        )
        yield "volumes-stay-behind", text


def _spread_over_one(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    """A spread over locations of members that are all in one."""
    policy = placement.asked.written.policy
    keys = {constraint.topology_key for constraint in policy.spread} if policy is not None else set()
    if _LOCATION not in keys:
        return
    members_after = [member.now for member in members.values() if member.now is not None]
    locations = {member.labels.get(_LOCATION) for member in members_after}
    is_one_location = len(locations) == 1 and None not in locations
    if len(members_after) > 1 and is_one_location:
        text = (
            f"{placement.key} spreads over {_LOCATION}, and all {len(members_after)} members are in "
            f"{locations.pop()}: that keeps none of them apart. Spread over a label that tells them apart."
        )
        yield "spread-over-one-value", text
