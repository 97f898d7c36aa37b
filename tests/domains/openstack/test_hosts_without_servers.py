"""Tests of hosts of an inventory without servers.

A check of decisions adds the servers by their flavors.
"""

from __future__ import annotations

from typing import Any

from nexusform.domains.openstack.scheduling.hosts_without_servers import build_hosts_without_servers
from nexusform.domains.openstack.scheduling.nova_profile import build_nova_settings


def _build_host(pinned: str) -> dict[str, Any]:
    cell = {
        "id": 0,
        "memory_mib": 65536,
        "used_memory_mib": 2048,
        "used_vcpus": 0,
        "dedicated": "0-7",
    }
    cell |= {"pinned": pinned, "siblings": [str(cpu) for cpu in range(8)], "pages": []}
    return {"availability_zone": "nova", "resources": {}, "has_details": True, "numa_cells": [cell]}


def _build_server(host: str, pins: str) -> dict[str, Any]:
    cell = {"id": 0, "vcpus": 2, "memory_mib": 1024, "pins": pins, "dedicated_vcpus": 2}
    return {"host": host, "dedicated_vcpus": 2, "numa_cells": [cell]}


def test_cells_are_used_only_by_recorded_servers_of_their_host() -> None:
    source = {
        "hosts": {"a": _build_host("0-3"), "b": _build_host("0-3")},
        "servers": {
            "1": _build_server("a", "0-1"),
            "2": _build_server("a", "2-3"),
            "3": _build_server("b", "0-1"),
            "4": _build_server("b", "2-3"),
        },
    }
    hosts = build_hosts_without_servers(source, build_nova_settings({}), {"server 1", "server 4"})
    cells = {name: host["numa_cells"][0] for name, host in hosts.items()}
    assert [(cells[name]["pinned"], cells[name]["used_memory_mib"]) for name in "ab"] == [
        ("0,1", 1024),
        ("2,3", 1024),
    ]
