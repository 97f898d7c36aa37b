"""The resource types and data sources of nexusform, in order of planning phase.

To add one, write its file and add its line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.ports import Registries, ResourceType
from nexusform.resource_types.fleet_cluster_resource_override import FLEET_CLUSTER_RESOURCE_OVERRIDE
from nexusform.resource_types.fleet_cluster_resource_placement import FLEET_CLUSTER_RESOURCE_PLACEMENT
from nexusform.resource_types.fleet_cluster_staged_update_run import FLEET_CLUSTER_STAGED_UPDATE_RUN
from nexusform.resource_types.fleet_cluster_staged_update_strategy import FLEET_CLUSTER_STAGED_UPDATE_STRATEGY
from nexusform.resource_types.fleet_hub_manifest import FLEET_HUB_MANIFEST
from nexusform.resource_types.fleet_member_cluster import FLEET_MEMBER_CLUSTER
from nexusform.resource_types.fleet_placement_disruption_budget import FLEET_PLACEMENT_DISRUPTION_BUDGET
from nexusform.resource_types.fleet_placement_eviction import FLEET_PLACEMENT_EVICTION
from nexusform.resource_types.fleet_resource_override import FLEET_RESOURCE_OVERRIDE
from nexusform.resource_types.fleet_resource_placement import FLEET_RESOURCE_PLACEMENT
from nexusform.resource_types.nexus_agent_pool import NEXUS_AGENT_POOL
from nexusform.resource_types.nexus_bare_metal_machine import NEXUS_BARE_METAL_MACHINE
from nexusform.resource_types.nexus_inventory import NEXUS_INVENTORY
from nexusform.resource_types.nexus_kubernetes_cluster import NEXUS_KUBERNETES_CLUSTER
from nexusform.resource_types.nexus_rack import NEXUS_RACK
from nexusform.resource_types.nexus_separation_rule import NEXUS_SEPARATION_RULE
from nexusform.resource_types.nexus_site import NEXUS_SITE
from nexusform.resource_types.nexus_virtual_machine import NEXUS_VIRTUAL_MACHINE
from nexusform.resource_types.nexus_vm_sku import NEXUS_VM_SKU
from nexusform.resource_types.tacker_vnf import TACKER_VNF

RESOURCE_TYPES: Final[Mapping[str, ResourceType]] = {
    "nexus_site": NEXUS_SITE,
    "nexus_vm_sku": NEXUS_VM_SKU,
    "nexus_rack": NEXUS_RACK,
    "nexus_bare_metal_machine": NEXUS_BARE_METAL_MACHINE,
    "nexus_kubernetes_cluster": NEXUS_KUBERNETES_CLUSTER,
    "nexus_agent_pool": NEXUS_AGENT_POOL,
    "nexus_virtual_machine": NEXUS_VIRTUAL_MACHINE,
    "tacker_vnf": TACKER_VNF,
    "fleet_member_cluster": FLEET_MEMBER_CLUSTER,
    "fleet_hub_manifest": FLEET_HUB_MANIFEST,
    "fleet_cluster_resource_override": FLEET_CLUSTER_RESOURCE_OVERRIDE,
    "fleet_resource_override": FLEET_RESOURCE_OVERRIDE,
    "fleet_placement_disruption_budget": FLEET_PLACEMENT_DISRUPTION_BUDGET,
    "fleet_placement_eviction": FLEET_PLACEMENT_EVICTION,
    "fleet_cluster_staged_update_strategy": FLEET_CLUSTER_STAGED_UPDATE_STRATEGY,
    "fleet_cluster_staged_update_run": FLEET_CLUSTER_STAGED_UPDATE_RUN,
    "fleet_cluster_resource_placement": FLEET_CLUSTER_RESOURCE_PLACEMENT,
    "fleet_resource_placement": FLEET_RESOURCE_PLACEMENT,
    "nexus_separation_rule": NEXUS_SEPARATION_RULE,
}

DATA_SOURCES: Final[Mapping[str, ResourceType]] = {
    "nexus_inventory": NEXUS_INVENTORY,
}


def registries() -> Registries:
    """Both tables, as the planner takes them."""
    return Registries(RESOURCE_TYPES, DATA_SOURCES)
