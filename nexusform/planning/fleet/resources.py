"""What a placement brings to clusters in a plan: selected objects, and how overrides change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexusform.planning.fleet.hub import Hub
from nexusform.planning.fleet.overrides import Renders, applicable
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.fleet.selection import fingerprint, selected
from nexusform.planning.vms.placed_note import note_placed
from nexusform.scheduling.fleet.model import BindingState


def prepare_resources(placement: PlacementPlan, hub: Hub, labels: Mapping[str, Mapping[str, str]]) -> None:
    """Select the objects, number the resource snapshot, and find the clusters whose overrides changed.
    `labels` are those of the members, by name.
    """
    placement.selected = selected(placement.written, hub.manifests)
    placement.digest = fingerprint(placement.selected)
    noted = noted_before(placement)
    last = noted.get("resources")
    if last is not None:
        placement.resources_changed = last.get("hash") != placement.digest
        placement.resource_index = int(last.get("index") or 0) + placement.resources_changed
    else:
        placement.resource_index = max((b.resource_snapshot or 0 for b in placement.prior), default=0)
    overrides = applicable(
        hub.overrides, placement.written.name, namespaced=bool(placement.written.namespace)
    )
    placement.overrides = overrides
    placement.renders = Renders(placement.selected, overrides, labels)
    before = noted.get("overrides")
    if before is not None:
        placement.outdated = frozenset(
            b.cluster
            for b in placement.prior
            if b.state is BindingState.BOUND
            and (rendered := placement.renders.get(b.cluster)) is not None
            and before.get(b.cluster, "") != rendered.digest
        )


def noted_before(placement: PlacementPlan) -> Mapping[str, Any]:
    """What state notes of the placement that stays."""
    prior = placement.instance.prior
    return (prior.private if prior is not None and not placement.created else None) or {}


def note_resources(placement: PlacementPlan, serial: int) -> None:
    """Note what the placement brought where and why each binding came, once everything is rolled out.
    `serial` is the one that applying the plan will give.
    """
    noted = noted_before(placement)
    before = noted.get("overrides") or {}
    held_before = {binding.cluster for binding in placement.prior} - placement.evicted
    present = [b.cluster for b in placement.held]
    came = [(c, str(placement.picked.get(c, ""))) for c in present if c not in held_before]
    placement.instance.private = {
        **(note_placed(noted, came, present, serial) or {}),
        "resources": {"index": placement.resource_index, "hash": placement.digest},
        "overrides": {
            b.cluster: before.get(b.cluster, "") if _behind(placement, b.cluster) else rendered.digest
            for b in placement.held
            if (rendered := placement.renders.get(b.cluster)) is not None
        },
    }


def _behind(placement: PlacementPlan, cluster: str) -> bool:
    """Whether the latest overrides have not reached a cluster."""
    return cluster in placement.outdated and cluster not in placement.rolled
