"""fleet_resource_override: objects of one namespace changed per cluster."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_overrides import override_type

FLEET_RESOURCE_OVERRIDE: Final = override_type(
    "fleet_resource_override",
    "ResourceOverride",
    "Changes objects of one namespace per cluster; overrides fleet_cluster_resource_override.",
    selector="resource_selector",
    namespaced=True,
)
