"""Hosts of an inventory with the use of chosen servers only."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from nexusform.domains.openstack.scheduling.hardware_fit import HostCell
from nexusform.domains.openstack.scheduling.nova_profile import NovaSettings, build_nova_site


def build_hosts_without_servers(
    source: Mapping[str, Any], settings: NovaSettings, records: Collection[str]
) -> dict[str, Any]:
    """Return the hosts of an inventory as plain data.

    NUMA cells and PCI devices of each are used only by the servers in `records` (such as "server
    KEY"). The caller adds all other servers to this use, by their flavors.
    """
    site = build_nova_site(source)
    table = site.build_usage_table(settings.aliases)
    hosts = {}
    for host in site.hosts:
        # By host and servers; those of other hosts do not count.
        usage = table.get_usage((host.name, *sorted(records)))
        hosts[host.name] = {
            **source["hosts"][host.name],
            "numa_cells": list(map(_describe_cell, usage.cells)),
            "device_pools": msgspec.to_builtins(usage.pools),
        }
    return hosts


def _describe_cell(cell: HostCell) -> dict[str, Any]:
    """Return a NUMA cell as plain data of `build_host`."""
    cpu_sets = {
        name: _format_cpus(getattr(cell, name)) for name in ("shared", "dedicated", "pinned")
    }
    siblings = list(map(_format_cpus, cell.siblings))
    return {
        **{
            name: getattr(cell, name)
            for name in ("id", "memory_mib", "used_memory_mib", "used_vcpus", "socket")
        },
        **cpu_sets,
        "siblings": siblings,
        "pages": msgspec.to_builtins(cell.pages),
    }


def _format_cpus(cpus: Collection[int]) -> str:
    return ",".join(map(str, sorted(cpus)))
