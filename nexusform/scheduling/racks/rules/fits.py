"""Fits: enough NUMA cells, each with the VM's share of vCPUs and memory.

A VM never straddles cells unless its SKU spans more than one.
"""

from __future__ import annotations

from collections import Counter

from nexusform.scheduling.racks.layout import MachineCapacity, Share
from nexusform.scheduling.racks.rule import CapacityCheck, CapacityFilter, PoolKey, ShortageContext
from nexusform.scheduling.racks.rules import cells
from nexusform.scheduling.racks.rules.zones import describe_zones
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku, convert_to_gib

MAX_BLOCKING_POOLS = 5


def build_check(sku: VmSku) -> CapacityCheck:
    """Build a check that returns the shortage, or None if enough cells have capacity."""
    share, needed = Share.compute(sku), sku.numa_cells

    def find_rejection(capacity: MachineCapacity) -> str | None:
        fitting = len(cells.select_fitting_cells(share, capacity))
        if fitting >= needed:
            return None
        if needed == 1:
            # Describe the shortage for a VM that needs one cell.
            max_cpus, max_memory = max(capacity.cpus, default=0), max(capacity.memory, default=0)
            if max_memory < sku.memory_mib:
                return f"no cell of {sku.memory_gib:g} GiB left (most: {convert_to_gib(max_memory):g})"
            if max_cpus < sku.host_vcpus:
                return f"no cell of {sku.host_vcpus} vCPUs left (most: {max_cpus})"
            return f"no cell has both {sku.host_vcpus} vCPUs and {sku.memory_gib:g} GiB left"
        size = f"{share.cpus} vCPUs and {convert_to_gib(share.memory):g} GiB"
        return f"{fitting} of the {needed} cells needed have {size} left"

    return find_rejection


def _describe_remaining(demand: Demand, remaining: Interval, _before: Interval) -> str:
    cells_needed = "a free cell" if demand.sku.numa_cells == 1 else "enough free cells"
    return f"{remaining} have {cells_needed} of that size"


def _describe_shortage(context: ShortageContext) -> str:
    """Explain why no machine is left: the requested cells, and the VMs that occupy them."""
    sku = context.demand.sku
    size = f"{sku.cpus_in_cell} vCPUs and {sku.memory_in_cell:g} GiB"
    if sku.numa_cells > 1:
        text = f"No machine with {sku.numa_cells} NUMA cells of {size} each is free"
    else:
        text = f"No NUMA cell with {size} is free"
    text += f" on the site ({describe_zones(context.demand)})."
    large_enough = [machine for machine in context.machines_in_requested_racks if context.can_host_when_empty(machine)]
    if not large_enough:
        return f"{text} No machine can run one even when empty."
    broken = count_broken_cells(context, large_enough)
    return f"{text} {_describe_blocking_pools(broken)}" if broken else text


def _describe_blocking_pools(broken: Counter[PoolKey]) -> str:
    """Describe the pools of the VMs that broke the cells, most cells first."""
    ranked = sorted(broken.items(), key=lambda item: (-item[1], item[0]))
    names = ", ".join(f"{pool.cluster}/{pool.pool} ({count:,})" for pool, count in ranked[:MAX_BLOCKING_POOLS])
    unnamed = sum(count for _, count in ranked[MAX_BLOCKING_POOLS:])
    remainder = f", others ({unnamed:,})" if unnamed else ""
    return f"{broken.total():,} cells are fragmented by small VMs: {names}{remainder}."


def count_broken_cells(context: ShortageContext, machines: list[int]) -> Counter[PoolKey]:
    """Count the cells of these machines that are blocked only by smaller VMs, by the pool of the first VM."""
    sku = context.demand.sku
    share = Share.compute(sku)
    taken_cells: set[tuple[int, int]] = set()
    for machine in machines:
        capacity = context.get_capacity(machine)
        free = cells.select_fitting_cells(share, capacity)
        taken_cells.update((machine, cell) for cell in range(len(capacity.cpus)) if cell not in free)
    first_pool: dict[tuple[int, int], PoolKey] = {}
    for vm in context.list_vms():
        for cell in vm.cells:
            location = vm.machine, cell
            if location not in taken_cells:
                continue
            is_smaller = (vm.sku.memory_in_cell, vm.sku.cpus_in_cell) < (sku.memory_in_cell, sku.cpus_in_cell)
            if is_smaller:
                first_pool.setdefault(location, vm.pool)
            else:
                taken_cells.discard(location)
                first_pool.pop(location, None)
    return Counter(first_pool.values())


FILTER = CapacityFilter(
    name="fits",
    build_check=build_check,
    describe_shortage=_describe_shortage,
    binding="cells",
    line="1 fits",
    describe_remaining=_describe_remaining,
)
