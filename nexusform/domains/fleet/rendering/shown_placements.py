"""Placements of a state as `show` prints them."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.address import Address
from nexusform.domains.fleet.importers.fleet_model import FleetPlacement
from nexusform.domains.fleet.planning.contents import read_placement
from nexusform.domains.fleet.rendering.placement_status_text import render_placement
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.state.objects import InstanceState


def placements_text(
    instances: Mapping[Address, InstanceState], version: str, width: int, *, show_sensitive: bool
) -> str:
    """Placements as `kubectl describe` prints them; "" where one cannot be read or is hidden."""
    texts = []
    for address, instance in instances.items():
        read = RESOURCE_TYPES[address.type].fleet
        held = instance.current
        if held is None or read is None or (held.sensitive and not show_sensitive):
            return ""
        written = read(held.attributes)
        if isinstance(written, FleetPlacement):
            placement = read_placement(held.attributes, written)
            texts.append(render_placement(address.type, placement, version, width))
    return "\n\n".join(texts)
