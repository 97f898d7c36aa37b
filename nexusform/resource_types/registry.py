"""The resource types and data sources of nexusform, in order of planning phase.

To add one, write its file and add its line: here for those of this room, in domain_table.py for those that a
domain brings. A type's module is imported when the type is asked for: a plan pays for the types that its
configuration and its state name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from nexusform.domain_table import PACKAGE, domains
from nexusform.ports import Registries, ResourceType

_HERE: Final = "nexusform.resource_types"


class _Table(Mapping[str, ResourceType]):
    """Types by name, of which a module each is known: `nexus_rack` is what nexus_rack.py calls NEXUS_RACK."""

    def __init__(self, rooms: Mapping[str, str]) -> None:
        self._rooms = rooms
        self._types: dict[str, ResourceType] = {}

    def __getitem__(self, name: str) -> ResourceType:
        if name not in self._types:
            module = import_module(f"{self._rooms[name]}.{name}")
            self._types[name] = getattr(module, name.upper())
        return self._types[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rooms

    def __iter__(self) -> Iterator[str]:
        return iter(self._rooms)

    def __len__(self) -> int:
        return len(self._rooms)


def _rooms(first: tuple[str, ...], of_domains: Mapping[str, tuple[str, ...]], *last: str) -> dict[str, str]:
    """Types to the rooms of their modules: our own, those of domains, and what only looks at all others."""
    rooms = dict.fromkeys(first, _HERE)
    for domain, names in of_domains.items():
        rooms.update(dict.fromkeys(names, f"{PACKAGE}.{domain}.types"))
    return {**rooms, **dict.fromkeys(last, _HERE)}


RESOURCE_TYPES: Final[Mapping[str, ResourceType]] = _Table(
    _rooms(
        (
            "nexus_site",
            "nexus_vm_sku",
            "nexus_rack",
            "nexus_bare_metal_machine",
            "nexus_kubernetes_cluster",
            "nexus_agent_pool",
            "nexus_virtual_machine",
        ),
        {domain.name: domain.resource_types for domain in domains().values()},
        "nexus_separation_rule",
    )
)

DATA_SOURCES: Final[Mapping[str, ResourceType]] = _Table(
    _rooms(
        ("nexusform_remote_state",),
        {domain.name: domain.data_sources for domain in domains().values()},
    )
)


def registries() -> Registries:
    """Both tables, as the planner takes them."""
    return Registries(RESOURCE_TYPES, DATA_SOURCES)
