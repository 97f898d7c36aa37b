"""fleet_resource_override: changes objects of one namespace per cluster."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_overrides import build_override_type

FLEET_RESOURCE_OVERRIDE: Final = build_override_type(
    "fleet_resource_override",
    "ResourceOverride",
    "Changes objects of one namespace per cluster; overrides fleet_cluster_resource_override.",
    selector="resource_selector",
    is_namespaced=True,
)
