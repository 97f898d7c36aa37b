"""fleet_cluster_resource_placement: which member clusters get which objects of the hub."""

from __future__ import annotations

from typing import Final

from nexusform.domains.fleet.types.fleet_placements import placement_type

FLEET_CLUSTER_RESOURCE_PLACEMENT: Final = placement_type(
    "fleet_cluster_resource_placement",
    "ClusterResourcePlacement",
    "Places cluster-scoped objects and namespaces on member clusters.",
    namespaced=False,
)
