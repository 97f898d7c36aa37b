"""What a placement brings to clusters in a plan: selected objects, and how overrides change them."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.diagnostics import Diagnostic
from nexusform.planning.fleet_hub import Hub
from nexusform.planning.fleet_placement import PlacementPlan
from nexusform.planning.fleet_selection import fingerprint, selected


def prepare_resources(
    placement: PlacementPlan, hub: Hub, _labels: Mapping[str, Mapping[str, str]]
) -> list[Diagnostic]:
    """Select the objects, number the resource snapshot and note what it holds."""
    placement.selected = selected(placement.written, hub.manifests)
    digest = fingerprint(placement.selected)
    prior = placement.instance.prior
    noted = (prior.private if prior is not None and not placement.created else None) or {}
    last = noted.get("resources")
    if last is not None:
        placement.resources_changed = last.get("hash") != digest
        placement.resource_index = int(last.get("index") or 0) + placement.resources_changed
    else:
        placement.resource_index = max((b.resource_snapshot or 0 for b in placement.prior), default=0)
    placement.instance.private = {
        "resources": {"index": placement.resource_index, "hash": digest},
        "overrides": placement.noted_overrides,
    }
    return []
