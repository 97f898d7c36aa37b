"""fleet_resource_placement: which member clusters get which objects of one namespace of the hub."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_placements import placement_type

FLEET_RESOURCE_PLACEMENT: Final = placement_type(
    "fleet_resource_placement",
    "ResourcePlacement",
    "Places objects of one namespace on member clusters.",
    namespaced=True,
)
