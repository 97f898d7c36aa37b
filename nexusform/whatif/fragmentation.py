"""Free room that is no use: cells broken by small VMs, and vCPUs or memory that no SKU can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from nexusform.scheduling.racks.model import Machine, VmSku
from nexusform.scheduling.racks.standing import StandingVm
from nexusform.whatif.world_view import SiteView


class BrokenBy(Struct, frozen=True):
    """A pool whose VM was the first in so many broken cells."""

    cluster: str
    pool: str
    cells: int


class Fragmentation(Struct, frozen=True):
    """NUMA cells seen from the `yardstick`, the SKU that they should be able to take.

    Every cell is counted once: `open` can take its share now; `taken` holds a VM that asks at least
    as much of a cell; `broken` holds only smaller VMs and cannot take it; `spoiled` has the room but
    lacks the machine's disk; `small` could not hold it when empty, or its hardware does not list it;
    `closed` is on a machine that takes no new VMs. `broken_*` is what is free in broken cells.
    `stranded_*` is free in cells of machines that take VMs, and no known SKU fits there any more.
    """

    yardstick: VmSku | None
    cells: int
    open: int
    taken: int
    broken: int
    spoiled: int
    small: int
    closed: int
    broken_by: tuple[BrokenBy, ...]
    broken_vcpus: int
    broken_memory_gib: int
    stranded_cells: int
    stranded_vcpus: int
    stranded_memory_gib: int
    free_vcpus: int
    free_memory_gib: int


class _Cell(Struct):
    """What is left of a cell, and who stands in it, first come first."""

    vcpus: int
    memory: int
    vms: list[StandingVm]


def largest_sku(site: SiteView, here: Sequence[Machine]) -> VmSku | None:
    """The largest one-cell SKU that some machine could hold; of equal ones one that is in use."""
    used = {pool.sku.name for cluster in site.clusters for pool in cluster.pools}
    fitting = [
        sku
        for sku in site.skus.values()
        if sku.numa_cells == 1 and any(_holds_when_empty(machine, sku) for machine in _distinct(here))
    ]
    return min(
        fitting,
        key=lambda s: (-s.memory_gib, -s.host_vcpus, s.disk_gib, s.name not in used, s.name),
        default=None,
    )


def find_fragmentation(
    site: SiteView, here: Sequence[Machine], yardstick: VmSku | None = None
) -> Fragmentation:
    """Sort the cells of these machines. `yardstick` None = the largest SKU."""
    sku = yardstick or largest_sku(site, here)
    cells, disk = _cells(site, here)
    counts: Counter[str] = Counter()
    culprits: Counter[tuple[str, str]] = Counter()
    figures = Counter[str]()
    usable = _Usable(site.skus.values())
    for machine in here:
        for cell in cells[machine.name]:
            kind = "closed" if machine.refusal else _sort(machine, cell, disk[machine.name], sku)
            counts[kind] += 1
            if machine.refusal:
                continue
            vcpus, memory = max(cell.vcpus, 0), max(cell.memory, 0)
            figures.update({"free_vcpus": vcpus, "free_memory_gib": memory})
            if kind == "broken":
                figures.update({"broken_vcpus": vcpus, "broken_memory_gib": memory})
                culprits[cell.vms[0].vm.cluster, cell.vms[0].vm.pool] += 1
            if (vcpus or memory) and not usable.by_any(machine, vcpus, memory, disk[machine.name]):
                figures.update({"stranded_cells": 1, "stranded_vcpus": vcpus, "stranded_memory_gib": memory})
    ranked = sorted(culprits.items(), key=lambda item: (-item[1], item[0]))
    names = ("open", "taken", "broken", "spoiled", "small", "closed")
    sums = ("broken_vcpus", "broken_memory_gib", "stranded_cells", "stranded_vcpus", "stranded_memory_gib")
    return Fragmentation(
        yardstick=sku,
        cells=sum(counts.values()),
        broken_by=tuple(BrokenBy(cluster, pool, n) for (cluster, pool), n in ranked),
        free_vcpus=figures["free_vcpus"],
        free_memory_gib=figures["free_memory_gib"],
        **{name: counts[name] for name in names},
        **{name: figures[name] for name in sums},
    )


def _cells(site: SiteView, here: Sequence[Machine]) -> tuple[dict[str, list[_Cell]], dict[str, int]]:
    """Every cell of the machines with what is free, and every machine's free disk."""
    cells = {
        m.name: [_Cell(m.cpus_per_cell, m.memory_gib_per_cell, []) for _ in range(m.cells)] for m in here
    }
    disk = {m.name: m.disk_gib for m in here}
    for vm in site.scheduler.vms():
        own = cells.get(vm.placement.machine)
        if own is None:
            continue
        disk[vm.placement.machine] -= vm.sku.disk_gib
        for number in vm.placement.cells:
            if number < len(own):
                own[number].vcpus -= vm.sku.cpus_in_cell
                own[number].memory -= vm.sku.memory_in_cell
                own[number].vms.append(vm)
    return cells, disk


def _sort(machine: Machine, cell: _Cell, disk: int, sku: VmSku | None) -> str:
    if sku is None or not _holds_when_empty(machine, sku):
        return "small"
    if cell.vcpus >= sku.cpus_in_cell and cell.memory >= sku.memory_in_cell:
        return "open" if disk >= sku.disk_gib else "spoiled"
    share = (sku.memory_in_cell, sku.cpus_in_cell)
    if any((vm.sku.memory_in_cell, vm.sku.cpus_in_cell) >= share for vm in cell.vms):
        return "taken"
    return "broken"


def _holds_when_empty(machine: Machine, sku: VmSku) -> bool:
    listed = not sku.machine_skus or machine.machine_sku is None or machine.machine_sku in sku.machine_skus
    roomy = machine.cpus_per_cell >= sku.cpus_in_cell and machine.memory_gib_per_cell >= sku.memory_in_cell
    return listed and roomy and machine.disk_gib >= sku.disk_gib and machine.cells >= sku.numa_cells


def _distinct(machines: Iterable[Machine]) -> list[Machine]:
    """One machine of each kind of hardware."""
    kinds: Mapping[tuple[object, ...], Machine] = {
        (m.machine_sku, m.cells, m.cpus_per_cell, m.memory_gib_per_cell, m.disk_gib): m for m in machines
    }
    return list(kinds.values())


class _Usable:
    """Whether any SKU can still take what is left of a cell; equal cells are asked about once."""

    def __init__(self, skus: Iterable[VmSku]) -> None:
        self._skus = tuple(skus)
        self._known: dict[tuple[str | None, int, int, int], bool] = {}

    def by_any(self, machine: Machine, vcpus: int, memory: int, disk: int) -> bool:
        key = (machine.machine_sku, vcpus, memory, disk)
        if key not in self._known:
            self._known[key] = any(
                vcpus >= sku.cpus_in_cell
                and memory >= sku.memory_in_cell
                and disk >= sku.disk_gib
                and (not sku.machine_skus or machine.machine_sku in (None, *sku.machine_skus))
                for sku in self._skus
            )
        return self._known[key]
