"""Resource types and data sources of nexusform, in order of planning phase.

To add one, write its file and add its line: here for those of this package, in domain_table.py for
those of a domain. A type's module is imported on first use: a plan loads only the types in its
configuration and state.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Final

from nexusform.domain_table import LazyTable, collect_type_loaders
from nexusform.interfaces.plugins import PluginRegistries, ResourceType

_PACKAGE: Final = "nexusform.resource_types"
_TYPES: Final = (
    "nexus_site",
    "nexus_vm_sku",
    "nexus_rack",
    "nexus_bare_metal_machine",
    "nexus_bare_metal_machine_action",
    "nexus_kubernetes_cluster",
    "nexus_agent_pool",
    "nexus_virtual_machine",
)


def _load_type(name: str) -> ResourceType:
    """Import the constant with the name of a type in its module of this package: NEXUS_RACK."""
    resource_type: ResourceType = getattr(import_module(f"{_PACKAGE}.{name}"), name.upper())
    return resource_type


def _build_loaders(*names: str) -> dict[str, Callable[[], ResourceType]]:
    return {name: partial(_load_type, name) for name in names}


RESOURCE_TYPES: Final[Mapping[str, ResourceType]] = LazyTable(
    _build_loaders(*_TYPES)
    | collect_type_loaders("resource_types")
    | _build_loaders("nexus_separation_rule")
)
DATA_SOURCES: Final[Mapping[str, ResourceType]] = LazyTable(
    _build_loaders("nexusform_remote_state") | collect_type_loaders("data_sources")
)


def build_registries() -> PluginRegistries:
    """Return the tables of resource types and data sources for the planner."""
    return PluginRegistries(RESOURCE_TYPES, DATA_SOURCES)
