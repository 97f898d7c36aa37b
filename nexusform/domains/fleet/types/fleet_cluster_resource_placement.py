"""fleet_cluster_resource_placement: places hub objects on member clusters."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_placements import build_placement_type

FLEET_CLUSTER_RESOURCE_PLACEMENT: Final = build_placement_type(
    "fleet_cluster_resource_placement",
    "ClusterResourcePlacement",
    "Places cluster-scoped objects and namespaces on member clusters.",
    is_namespaced=False,
)
