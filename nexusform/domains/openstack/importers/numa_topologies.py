"""NUMA topologies of hosts and of servers, as Nova stores them."""

from collections.abc import Iterable, Mapping
from typing import Any

from nexusform.domains.openstack.importers.nova_objects import (
    parse_json_column,
    unwrap_versioned_object,
)
from nexusform.domains.openstack.importers.openstack_tables import read_count
from nexusform.json_data.plain_data import get_mapping


def parse_host_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a cell of Nova's NUMA topology to the form of the inventory."""
    shared = cell["cpuset"]
    pages = []
    for item in cell.get("mempages") or ():
        row = unwrap_versioned_object(item)
        counts = {name: read_count(row, name) for name in ("total", "used", "reserved")}
        pages.append({"size_kib": int(row["size_kb"]), **counts})
    return {
        "id": int(cell["id"]),
        "shared": _format_cpus(shared),
        # Nova before 20.0 has one set for both.
        "dedicated": _format_cpus(cell.get("pcpuset", shared)),
        "pinned": _format_cpus(cell.get("pinned_cpus") or ()),
        "siblings": list(map(_format_cpus, cell.get("siblings") or ())),
        "memory_mib": int(cell["memory"]),
        "used_memory_mib": read_count(cell, "memory_usage"),
        "used_vcpus": read_count(cell, "cpu_usage"),
        "pages": pages,
        "socket": cell.get("socket"),
    }


def parse_server_topology(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the use of each NUMA cell of its host by a server.

    Raises KeyError, TypeError, ValueError.
    """
    topology = parse_json_column(row.get("topology")) or {}
    page_size = topology.get("pagesize_kb")
    return [
        {
            "id": int(node["host_node"]),
            "vcpus": len(node["vcpu_set"]),
            "memory_mib": int(node["memory_mb"]),
            "page_size": None if page_size is None else int(page_size),
            "pins": _format_cpus(map(int, get_mapping(node, "cpu_pinning").values())),
        }
        for node in topology.get("nodes") or ()
        if node.get("host_node") is not None
    ]


def _format_cpus(numbers: Iterable[int]) -> str:
    """Return CPUs as text, such as "0-3,8"."""
    ordered = sorted(set(numbers))
    ranges: list[str] = []
    # index of the first number of the current range.
    start = 0
    for end in range(1, len(ordered) + 1):
        # A gap ends the range.
        if end == len(ordered) or ordered[end] != ordered[end - 1] + 1:
            first = ordered[start]
            last = ordered[end - 1]
            ranges.append(f"{first}" if first == last else f"{first}-{last}")
            start = end
    return ",".join(ranges)
