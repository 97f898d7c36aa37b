"""Placements of a state as printed by `show`."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.planning.placement_records import read_placement
from nexusform.domains.fleet.rendering.placement_status_text import render_placement
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState


def render_placements(
    instances: Mapping[Address, InstanceState], version: str, width: int, *, show_sensitive: bool
) -> str:
    """Render placements like `kubectl describe`; "" if one is unreadable or hidden."""
    texts = []
    for address, instance in instances.items():
        read_object = RESOURCE_TYPES[address.type].build_fleet_object
        current = instance.current
        if current is None or read_object is None or (current.sensitive and not show_sensitive):
            return ""
        configuration = read_object(current.attributes)
        if isinstance(configuration, FleetPlacement):
            placement = read_placement(current.attributes, configuration)
            texts.append(render_placement(address.type, placement, version, width))
    return "\n\n".join(texts)
