"""Fits: enough NUMA cells, each with the VM's share of vCPUs and memory.

A VM never straddles cells unless its SKU asks for more than one.
"""

from __future__ import annotations

from collections import Counter

from nexusform.scheduling.racks.layout import Room, Share
from nexusform.scheduling.racks.rule import PoolKey, RefuseRoom, RoomFilter, Scene
from nexusform.scheduling.racks.rules import cells
from nexusform.scheduling.racks.rules.zones import where
from nexusform.scheduling.racks.vms import Demand, Interval, VmSku, gib

MOST_CULPRITS = 5


def opens(sku: VmSku) -> RefuseRoom:
    """What is missing; None when enough cells have room."""
    share, needed = Share.of(sku), sku.numa_cells

    def refuse(room: Room) -> str | None:
        fitting = len(cells.with_room(share, room))
        if fitting >= needed:
            return None
        if needed == 1:
            return _one_cell(sku, room)
        size = f"{share.cpus} vCPUs and {gib(share.memory):g} GiB"
        return f"{fitting} of the {needed} cells needed have {size} left"

    return refuse


def _one_cell(sku: VmSku, room: Room) -> str:
    """What is missing where a VM needs one cell."""
    most_cpus, most_memory = max(room.cpus, default=0), max(room.memory, default=0)
    if most_memory < sku.memory_mib:
        return f"no cell of {sku.memory_gib:g} GiB left (most: {gib(most_memory):g})"
    if most_cpus < sku.host_vcpus:
        return f"no cell of {sku.host_vcpus} vCPUs left (most: {most_cpus})"
    return f"no cell has both {sku.host_vcpus} vCPUs and {sku.memory_gib:g} GiB left"


def _count(demand: Demand, left: Interval, _before: Interval) -> str:
    cells_needed = "a free cell" if demand.sku.numa_cells == 1 else "enough free cells"
    return f"{left} have {cells_needed} of that size"


def _sentence(scene: Scene) -> str:
    """Why no machine is left: how much is asked of how many cells, and what stands in them instead."""
    sku = scene.demand.sku
    size = f"{sku.cpus_in_cell} vCPUs and {sku.memory_in_cell:g} GiB"
    if sku.numa_cells > 1:
        text = f"No machine with {sku.numa_cells} NUMA cells of {size} each is free"
    else:
        text = f"No NUMA cell with {size} is free"
    text += f" on the site ({where(scene.demand)})."
    large_enough = [machine for machine in scene.in_asked_racks if scene.holds_when_empty(machine)]
    if not large_enough:
        return f"{text} No machine there could hold one even when empty."
    broken = broken_cells(scene, large_enough)
    return f"{text} {_culprits(broken)}" if broken else text


def _culprits(broken: Counter[PoolKey]) -> str:
    """Whose VMs broke the cells, most cells first."""
    ranked = sorted(broken.items(), key=lambda item: (-item[1], item[0]))
    names = ", ".join(f"{pool.cluster}/{pool.pool} ({count:,})" for pool, count in ranked[:MOST_CULPRITS])
    unnamed = sum(count for _, count in ranked[MOST_CULPRITS:])
    others = f", others ({unnamed:,})" if unnamed else ""
    return f"{broken.total():,} cells hold only smaller VMs; they were broken by {names}{others}."


def broken_cells(scene: Scene, machines: list[int]) -> Counter[PoolKey]:
    """Cells of these machines that only VMs smaller than the demand keep from it, by whose VM came first."""
    sku = scene.demand.sku
    share = Share.of(sku)
    taken_cells: set[tuple[int, int]] = set()
    for machine in machines:
        room = scene.room(machine)
        free = cells.with_room(share, room)
        taken_cells.update((machine, cell) for cell in range(len(room.cpus)) if cell not in free)
    first_pool: dict[tuple[int, int], PoolKey] = {}
    for vm in scene.vms():
        for cell in vm.cells:
            place = vm.machine, cell
            if place not in taken_cells:
                continue
            if _is_smaller(vm.sku, sku):
                first_pool.setdefault(place, vm.pool)
            else:
                taken_cells.discard(place)
                first_pool.pop(place, None)
    return Counter(first_pool.values())


def _is_smaller(sku: VmSku, than: VmSku) -> bool:
    """Whether a VM asks less of its cells than another one."""
    return (sku.memory_in_cell, sku.cpus_in_cell) < (than.memory_in_cell, than.cpus_in_cell)


FILTER = RoomFilter(
    name="fits", opens=opens, sentence=_sentence, binding="cells", line="1 fits", count=_count
)
