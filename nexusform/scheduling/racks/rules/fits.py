"""Fits: enough NUMA cells, each with the VM's share of vCPUs and memory.

A VM never straddles cells unless its SKU asks for more than one.
"""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host
from nexusform.scheduling.racks.model import Demand, VmSku
from nexusform.scheduling.racks.rules import cells


def refuse(demand: Demand, host: Host) -> str | None:
    """What is missing; None when enough cells have room."""
    sku = demand.sku
    found = len(cells.fitting(demand, host))
    if found >= sku.numa_cells:
        return None
    if sku.numa_cells == 1:
        return _one_cell(sku, host)
    share = f"{sku.cpus_in_cell} vCPUs and {sku.memory_in_cell} GiB"
    return f"{found} of the {sku.numa_cells} cells needed have {share} left"


def _one_cell(sku: VmSku, host: Host) -> str:
    most_cpus, most_memory = max(host.free_cpus, default=0), max(host.free_memory, default=0)
    if most_memory < sku.memory_gib:
        return f"no cell of {sku.memory_gib} GiB left (most: {most_memory})"
    if most_cpus < sku.host_vcpus:
        return f"no cell of {sku.host_vcpus} vCPUs left (most: {most_cpus})"
    return f"no cell has both {sku.host_vcpus} vCPUs and {sku.memory_gib} GiB left"
