"""Resource types and data sources of nexusform, in order of planning phase.

To add one, write its file, its function and its line: here for those of this package. Those of a
domain have a line in domain_table.py. A type's module is imported on first use: a plan loads only
the types in its configuration and state.
"""

from collections.abc import Mapping
from typing import Final

from nexusform.domain_table import LazyTable, collect_type_loaders
from nexusform.interfaces.plugins import PluginRegistries, ResourceType


def _load_site() -> ResourceType:
    from nexusform.resource_types.nexus_site import NEXUS_SITE

    return NEXUS_SITE


def _load_vm_sku() -> ResourceType:
    from nexusform.resource_types.nexus_vm_sku import NEXUS_VM_SKU

    return NEXUS_VM_SKU


def _load_rack() -> ResourceType:
    from nexusform.resource_types.nexus_rack import NEXUS_RACK

    return NEXUS_RACK


def _load_bare_metal_machine() -> ResourceType:
    from nexusform.resource_types.nexus_bare_metal_machine import NEXUS_BARE_METAL_MACHINE

    return NEXUS_BARE_METAL_MACHINE


def _load_bare_metal_machine_action() -> ResourceType:
    from nexusform.resource_types.nexus_bare_metal_machine_action import (
        NEXUS_BARE_METAL_MACHINE_ACTION,
    )

    return NEXUS_BARE_METAL_MACHINE_ACTION


def _load_kubernetes_cluster() -> ResourceType:
    from nexusform.resource_types.nexus_kubernetes_cluster import NEXUS_KUBERNETES_CLUSTER

    return NEXUS_KUBERNETES_CLUSTER


def _load_agent_pool() -> ResourceType:
    from nexusform.resource_types.nexus_agent_pool import NEXUS_AGENT_POOL

    return NEXUS_AGENT_POOL


def _load_virtual_machine() -> ResourceType:
    from nexusform.resource_types.nexus_virtual_machine import NEXUS_VIRTUAL_MACHINE

    return NEXUS_VIRTUAL_MACHINE


def _load_separation_rule() -> ResourceType:
    from nexusform.resource_types.nexus_separation_rule import NEXUS_SEPARATION_RULE

    return NEXUS_SEPARATION_RULE


def _load_remote_state() -> ResourceType:
    from nexusform.resource_types.nexusform_remote_state import NEXUSFORM_REMOTE_STATE

    return NEXUSFORM_REMOTE_STATE


RESOURCE_TYPES: Final[Mapping[str, ResourceType]] = LazyTable(
    {
        "nexus_site": _load_site,
        "nexus_vm_sku": _load_vm_sku,
        "nexus_rack": _load_rack,
        "nexus_bare_metal_machine": _load_bare_metal_machine,
        "nexus_bare_metal_machine_action": _load_bare_metal_machine_action,
        "nexus_kubernetes_cluster": _load_kubernetes_cluster,
        "nexus_agent_pool": _load_agent_pool,
        "nexus_virtual_machine": _load_virtual_machine,
        **collect_type_loaders("resource_types"),
        "nexus_separation_rule": _load_separation_rule,
    }
)
DATA_SOURCES: Final[Mapping[str, ResourceType]] = LazyTable(
    {"nexusform_remote_state": _load_remote_state, **collect_type_loaders("data_sources")}
)


def build_registries() -> PluginRegistries:
    """Return the tables of resource types and data sources for the planner."""
    return PluginRegistries(RESOURCE_TYPES, DATA_SOURCES)
