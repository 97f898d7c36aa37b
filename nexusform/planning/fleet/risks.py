"""What a plan may cost that moves placements: a moment without a ready copy, volumes that stay behind, and a
spread that keeps nothing apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nexusform.importers.kubernetes.kubernetes_manifests import Manifest
from nexusform.planning.fleet.contents import has_resources
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.fleet.world import FleetMemberState
from nexusform.words import first_of

_MOST_NAMED: Final = 4
_LOCATION: Final = "fleet.azure.com/location"
_RUNNING: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})


def placement_risks(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    """The id of a warning and what it says."""
    objects = placement.snapshots[-1].objects if placement.snapshots else placement.selected
    yield from _no_ready_copy(placement, [one for one in objects if one.kind in _RUNNING])
    yield from _volumes_behind(placement, [one for one in objects if _has_claims(one)])
    yield from _spread_over_one(placement, members)


def _no_ready_copy(placement: PlacementPlan, workloads: list[Manifest]) -> Iterator[tuple[str, str]]:
    """Clusters change, and a wave takes the last old one away before a new one is ready."""
    ready = {binding.cluster for binding in placement.prior if has_resources(binding)}
    coming = {binding.cluster for binding in placement.held if has_resources(binding)} - ready
    if not workloads or not ready or not coming:
        return
    for number, wave in enumerate(placement.waves, 1):
        ready -= set(wave.deleted)
        if not ready:
            names = first_of([one.title for one in workloads], _MOST_NAMED)
            come = first_of(sorted(coming), _MOST_NAMED)
            text = (
                f"In wave {number} of {placement.written.key} the last cluster that has {names} is left "
                f'before {come} can be ready: until then no copy is. With max_unavailable = "0" '
                "and a max_surge the new one comes first."
            )
            yield "no-ready-copy-for-a-moment", text
            return
        ready |= set(wave.bound)


def _has_claims(manifest: Manifest) -> bool:
    spec = manifest.body.get("spec")
    templates = spec.get("volumeClaimTemplates") if isinstance(spec, Mapping) else None
    return manifest.kind == "PersistentVolumeClaim" or (manifest.kind == "StatefulSet" and bool(templates))


def _volumes_behind(placement: PlacementPlan, claiming: list[Manifest]) -> Iterator[tuple[str, str]]:
    before = {binding.cluster for binding in placement.prior if has_resources(binding)}
    after = {binding.cluster for binding in placement.held if has_resources(binding)}
    left, came = sorted(before - after), sorted(after - before)
    if claiming and left and came:
        names = first_of([one.title for one in claiming], _MOST_NAMED)
        text = (
            f"{placement.written.key} leaves {first_of(left, _MOST_NAMED)} and comes to "
            f"{first_of(came, _MOST_NAMED)}. The volumes of {names} do not come along: they begin empty "
            "there. Take the data over first."
        )
        yield "volumes-stay-behind", text


def _spread_over_one(
    placement: PlacementPlan, members: Mapping[str, FleetMemberState]
) -> Iterator[tuple[str, str]]:
    policy = placement.written.policy
    keys = {constraint.topology_key for constraint in policy.spread} if policy is not None else set()
    now = [member.now for member in members.values() if member.now is not None]
    values = {member.labels.get(_LOCATION) for member in now}
    if _LOCATION in keys and len(now) > 1 and len(values) == 1 and None not in values:
        text = (
            f"{placement.written.key} spreads over {_LOCATION}, and all {len(now)} members are in "
            f"{values.pop()}: that keeps none of them apart. Spread over a label that tells them apart."
        )
        yield "spread-over-one-value", text
