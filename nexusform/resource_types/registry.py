"""The resource types and data sources of nexusform, in order of planning phase.

To add one, write its file and add its line: here for those of this room, in domain_table.py for those that a
domain brings. A type's module is imported when the type is asked for: a plan pays for the types that its
configuration and its state name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.domain_table import Loaded, type_target, types_of_domains
from nexusform.ports import Registries, ResourceType

_HERE: Final = "nexusform.resource_types"
_TYPES: Final = (
    "nexus_site",
    "nexus_vm_sku",
    "nexus_rack",
    "nexus_bare_metal_machine",
    "nexus_kubernetes_cluster",
    "nexus_agent_pool",
    "nexus_virtual_machine",
)
_AFTER_ALL_OTHERS: Final = ("nexus_separation_rule",)
_DATA: Final = ("nexusform_remote_state",)


def _targets(*names: str) -> dict[str, str]:
    return {name: type_target(_HERE, name) for name in names}


RESOURCE_TYPES: Final[Mapping[str, ResourceType]] = Loaded(
    {**_targets(*_TYPES), **types_of_domains("resource_types"), **_targets(*_AFTER_ALL_OTHERS)}
)
DATA_SOURCES: Final[Mapping[str, ResourceType]] = Loaded(
    {**_targets(*_DATA), **types_of_domains("data_sources")}
)


def registries() -> Registries:
    """Both tables, as the planner takes them."""
    return Registries(RESOURCE_TYPES, DATA_SOURCES)
