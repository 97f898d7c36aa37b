"""NUMA cells, PCI devices and supported instances: the table compute_nodes of Nova, and topologies of servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_DATA: Final = "nova_object.data"


def parse_host_details(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a host from its row, with objects of Nova as JSON texts.

    Raises KeyError, TypeError, ValueError.
    """
    topology = _unwrap_versioned_object(_parse(row["numa_topology"]))
    stored_pools = _unwrap_versioned_object(_parse(row["pci_stats"])) or []
    pools = stored_pools["objects"] if isinstance(stored_pools, Mapping) else stored_pools
    return {
        "has_details": True,
        "numa_cells": [_parse_cell(_unwrap_versioned_object(cell)) for cell in topology["cells"]] if topology else [],
        "device_pools": sorted(map(_parse_device_pool, pools), key=_rank_device_pool),
        "supported_instances": [
            [str(part).lower() for part in instance] for instance in _parse(row["supported_instances"]) or ()
        ],
    }


def parse_server_topology(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the share of a server in the NUMA cells of its host. Raises KeyError, TypeError, ValueError."""
    topology = _parse(row.get("topology")) or {}
    page_size = topology.get("pagesize_kb")
    return [
        {
            "id": int(node["host_node"]),
            "vcpus": len(node["vcpu_set"]),
            "memory_mib": int(node["memory_mb"]),
            "page_size": None if page_size is None else int(page_size),
            "pins": format_cpus(int(cpu) for cpu in (node.get("cpu_pinning") or {}).values()),
        }
        for node in topology.get("nodes") or ()
        if node.get("host_node") is not None
    ]


def format_cpus(numbers: Iterable[int]) -> str:
    """Return CPUs as text, such as "0-3,8"."""
    return ",".join(_list_cpu_ranges(sorted(set(numbers))))


def _list_cpu_ranges(numbers: list[int]) -> Iterator[str]:
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:
            first, last = numbers[start], numbers[end - 1]
            yield f"{first}" if first == last else f"{first}-{last}"
            start = end


def _parse(value: Any) -> Any:
    """Return the document of a text; other values are documents already."""
    return json.loads(value) if isinstance(value, str) and value else value


def _unwrap_versioned_object(value: Any) -> Any:
    """Return the fields of a serialized object of Nova."""
    return value[_DATA] if isinstance(value, Mapping) and _DATA in value else value


def _parse_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    shared = cell["cpuset"]
    return {
        "id": int(cell["id"]),
        "shared": format_cpus(shared),
        # Nova before 20.0 has one set for both.
        "dedicated": format_cpus(cell.get("pcpuset", shared)),
        "pinned": format_cpus(cell.get("pinned_cpus") or ()),
        "siblings": [format_cpus(core) for core in cell.get("siblings") or ()],
        "memory_mib": int(cell["memory"]),
        "used_memory_mib": int(cell.get("memory_usage") or 0),
        "used_vcpus": int(cell.get("cpu_usage") or 0),
        "pages": [_parse_memory_pages(_unwrap_versioned_object(pages)) for pages in cell.get("mempages") or ()],
        "socket": cell.get("socket"),
    }


def _parse_memory_pages(pages: Mapping[str, Any]) -> dict[str, int]:
    return {
        "size_kib": int(pages["size_kb"]),
        **{name: int(pages.get(name) or 0) for name in ("total", "used", "reserved")},
    }


def _parse_device_pool(pool: Any) -> dict[str, Any]:
    fields = dict(_unwrap_versioned_object(pool))
    properties = {**fields, **(fields.pop("tags", None) or {})}
    node = properties.pop("numa_node", None)
    return {
        "count": int(properties.pop("count")),
        "numa_node": None if node is None else int(node),
        "properties": {str(key): str(value) for key, value in sorted(properties.items()) if key != "tags"},
    }


def _rank_device_pool(pool: Mapping[str, Any]) -> int:
    """Return the order of Nova's use: pools with few properties first."""
    return len(pool["properties"])
