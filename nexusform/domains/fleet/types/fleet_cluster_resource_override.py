"""fleet_cluster_resource_override: cluster objects, or whole namespaces, changed per cluster."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_overrides import override_type

FLEET_CLUSTER_RESOURCE_OVERRIDE: Final = override_type(
    "fleet_cluster_resource_override",
    "ClusterResourceOverride",
    "Changes cluster-scoped objects or whole namespaces per cluster.",
    selector="cluster_resource_selector",
    namespaced=False,
)
