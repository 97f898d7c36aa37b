"""fleet_cluster_resource_override: changes cluster objects, or whole namespaces, per cluster."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_overrides import build_override_type

FLEET_CLUSTER_RESOURCE_OVERRIDE: Final = build_override_type(
    "fleet_cluster_resource_override",
    "ClusterResourceOverride",
    "Changes cluster-scoped objects or whole namespaces per cluster.",
    selector="cluster_resource_selector",
    is_namespaced=False,
)
