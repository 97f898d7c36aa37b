"""fleet_resource_placement: places objects of one hub namespace on member clusters."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_placements import build_placement_type

FLEET_RESOURCE_PLACEMENT: Final = build_placement_type(
    "fleet_resource_placement",
    "ResourcePlacement",
    "Places objects of one namespace on member clusters.",
    is_namespaced=True,
)
