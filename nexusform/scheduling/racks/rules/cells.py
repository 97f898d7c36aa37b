"""Cells: of those that fit, the ones with the least free memory, then the lowest index."""

from __future__ import annotations

from nexusform.scheduling.racks.faces import Host
from nexusform.scheduling.racks.model import Demand


def fitting(demand: Demand, host: Host) -> tuple[int, ...]:
    """The cells with room for the VM's share, best first. The VM takes the first `numa_cells` of them."""
    sku = demand.sku
    found = [
        cell
        for cell, (cpus, memory) in enumerate(zip(host.free_cpus, host.free_memory, strict=True))
        if cpus >= sku.cpus_in_cell and memory >= sku.memory_in_cell
    ]
    return tuple(sorted(found, key=lambda cell: (host.free_memory[cell], cell)))
