"""The resource types and data sources of nexusform, in order of planning phase.

To add one, write its file and add its line here. A type's module is imported when the type is asked
for: a plan pays for the types that its configuration and its state name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from nexusform.ports import Registries, ResourceType


class _Table(Mapping[str, ResourceType]):
    """Types by name: `nexus_rack` is what nexus_rack.py calls NEXUS_RACK."""

    def __init__(self, *names: str) -> None:
        self._names = dict.fromkeys(names)
        self._types: dict[str, ResourceType] = {}

    def __getitem__(self, name: str) -> ResourceType:
        if name not in self._types:
            if name not in self._names:
                raise KeyError(name)
            self._types[name] = getattr(import_module(f"{__package__}.{name}"), name.upper())
        return self._types[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


RESOURCE_TYPES: Final[Mapping[str, ResourceType]] = _Table(
    "nexus_site",
    "nexus_vm_sku",
    "nexus_rack",
    "nexus_bare_metal_machine",
    "nexus_kubernetes_cluster",
    "nexus_agent_pool",
    "nexus_virtual_machine",
    "tacker_vnf",
    "fleet_member_cluster",
    "fleet_hub_manifest",
    "fleet_cluster_resource_override",
    "fleet_resource_override",
    "fleet_placement_disruption_budget",
    "fleet_placement_eviction",
    "fleet_cluster_staged_update_strategy",
    "fleet_cluster_staged_update_run",
    "fleet_staged_update_strategy",
    "fleet_staged_update_run",
    "fleet_cluster_approval_request",
    "fleet_approval_request",
    "fleet_cluster_resource_placement",
    "fleet_resource_placement",
    "nexus_separation_rule",
)

DATA_SOURCES: Final[Mapping[str, ResourceType]] = _Table(
    "nexus_inventory",
    "nexusform_remote_state",
    "kubernetes_nodes",
    "fleet_hub_export",
    "kubernetes_manifests",
    "fleet_cluster_request",
)


def registries() -> Registries:
    """Both tables, as the planner takes them."""
    return Registries(RESOURCE_TYPES, DATA_SOURCES)
