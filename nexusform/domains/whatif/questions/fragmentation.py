"""Free room that is no use: cells broken by small VMs, and vCPUs or memory that no SKU can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain

from msgspec import Struct, field

from nexusform.scheduling.racks.vms import Machine, StandingVm, VmSku
from nexusform.worlds.world_view import SiteView, holds_when_empty, lists_hardware


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
    `closed` is on a machine that takes no new VMs; `unknown` on one with VMs whose cells nobody told.
    `broken_*` is what is free in broken cells. `stranded_*` is free in cells of machines that take VMs, and
    no known SKU fits there any more. `free_*` is free on all machines that take VMs.
    """

    yardstick: VmSku | None
    cells: int
    open: int
    taken: int
    broken: int
    spoiled: int
    small: int
    closed: int
    unknown: int
    broken_by: tuple[BrokenBy, ...]
    broken_vcpus: int
    broken_memory_gib: float
    stranded_cells: int
    stranded_vcpus: int
    stranded_memory_gib: float
    free_vcpus: int
    free_memory_gib: float


class _Cell(Struct):
    """A NUMA cell of a machine: what is left of it and of the machine's disk (negative where more stands
    there than fits), and who stands in it, first come first.
    """

    machine: Machine
    vcpus: int
    memory: float
    disk: int = 0
    vms: list[StandingVm] = field(default_factory=list)

    @property
    def free_vcpus(self) -> int:
        return max(self.vcpus, 0)

    @property
    def free_memory(self) -> float:
        return max(self.memory, 0)


class CellKind(StrEnum):
    """What a cell counts as; see Fragmentation."""

    OPEN = "open"
    TAKEN = "taken"
    BROKEN = "broken"
    SPOILED = "spoiled"
    SMALL = "small"
    CLOSED = "closed"
    UNKNOWN = "unknown"


def skus_in_use(site: SiteView) -> set[VmSku]:
    """The SKUs of all pools of the site."""
    return {pool.sku for pool in site.pools}


def largest_sku(site: SiteView, machines: Sequence[Machine]) -> VmSku | None:
    """The largest one-cell SKU that some machine could hold; of equal ones one that is in use."""
    used = {sku.name for sku in skus_in_use(site)}
    kinds = _kinds_of_hardware(machines)
    one_cell = [sku for sku in site.skus.values() if sku.numa_cells == 1]

    def fits_somewhere(sku: VmSku) -> bool:
        return any(_may_hold(machine, sku) for machine in kinds)

    def smallness(sku: VmSku) -> tuple[float, int, int, bool, str]:
        return -sku.memory_gib, -sku.host_vcpus, sku.disk_gib, sku.name not in used, sku.name

    return min(filter(fits_somewhere, one_cell), key=smallness, default=None)


def find_fragmentation(
    site: SiteView, machines: Sequence[Machine], yardstick: VmSku | None = None
) -> Fragmentation:
    """Sort the cells of these machines. `yardstick` None = the largest SKU."""
    sku = yardstick or largest_sku(site, machines)
    loose = frozenset(site.scheduler.loose_machines())
    cells: dict[CellKind, list[_Cell]] = {kind: [] for kind in CellKind}
    for cell in _cells(site, machines):
        is_unknown = cell.machine.name in loose and not cell.machine.refusal
        cells[CellKind.UNKNOWN if is_unknown else _kind(cell, sku)].append(cell)
    usable = _Usable(site.skus.values())
    known_kinds = [kind for kind in CellKind if kind not in (CellKind.CLOSED, CellKind.UNKNOWN)]
    in_use = list(chain.from_iterable(cells[kind] for kind in known_kinds))
    loose_vcpus, loose_memory = _free_as_a_whole(site, cells[CellKind.UNKNOWN])
    stranded = [cell for cell in in_use if usable.is_stranded(cell)]
    broken = cells[CellKind.BROKEN]
    return Fragmentation(
        yardstick=sku,
        cells=sum(len(of_kind) for of_kind in cells.values()),
        open=len(cells[CellKind.OPEN]),
        taken=len(cells[CellKind.TAKEN]),
        broken=len(broken),
        spoiled=len(cells[CellKind.SPOILED]),
        small=len(cells[CellKind.SMALL]),
        closed=len(cells[CellKind.CLOSED]),
        unknown=len(cells[CellKind.UNKNOWN]),
        broken_by=_broken_by(broken),
        broken_vcpus=sum(cell.free_vcpus for cell in broken),
        broken_memory_gib=sum(cell.free_memory for cell in broken),
        stranded_cells=len(stranded),
        stranded_vcpus=sum(cell.free_vcpus for cell in stranded),
        stranded_memory_gib=sum(cell.free_memory for cell in stranded),
        free_vcpus=sum(cell.free_vcpus for cell in in_use) + loose_vcpus,
        free_memory_gib=sum(cell.free_memory for cell in in_use) + loose_memory,
    )


def _free_as_a_whole(site: SiteView, cells: Iterable[_Cell]) -> tuple[int, float]:
    """VCPUs and GiB that are free on the machines of these cells, whichever of their cells VMs are in."""
    overfull = frozenset(site.scheduler.overfull_machines())
    vcpus: Counter[str] = Counter()
    memory: dict[str, float] = {}
    for cell in cells:
        if cell.machine.name not in overfull:
            vcpus[cell.machine.name] += cell.free_vcpus
            memory[cell.machine.name] = memory.get(cell.machine.name, 0) + cell.free_memory
    for vm in site.scheduler.vms():
        if not vm.placement.cells and vm.placement.machine in vcpus:
            vcpus[vm.placement.machine] -= vm.sku.cpus_in_cell * vm.sku.numa_cells
            memory[vm.placement.machine] -= vm.sku.memory_in_cell * vm.sku.numa_cells
    return sum(vcpus.values()), sum(memory.values())


def _broken_by(cells: Iterable[_Cell]) -> tuple[BrokenBy, ...]:
    """The pools whose VMs came first into broken cells, those of most cells first."""
    first = [cell.vms[0].vm for cell in cells]
    counts = Counter((vm.cluster, vm.pool) for vm in first)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(BrokenBy(cluster, pool, count) for (cluster, pool), count in ranked)


def _cells(site: SiteView, machines: Sequence[Machine]) -> Iterator[_Cell]:
    """Every cell of the machines, with what the VMs of the site leave of it."""
    cells = {machine.name: _empty_cells(machine) for machine in machines}
    disk = {machine.name: machine.disk_gib for machine in machines}
    for vm in site.scheduler.vms():
        machine = vm.placement.machine
        if machine not in cells:
            continue
        disk[machine] -= vm.sku.disk_gib
        for number in vm.placement.cells:
            if number < len(cells[machine]):
                _take(cells[machine][number], vm)
    for name, cells_of_machine in cells.items():
        for cell in cells_of_machine:
            cell.disk = disk[name]
            yield cell


def _empty_cells(machine: Machine) -> list[_Cell]:
    return [_Cell(machine, machine.cpus_per_cell, machine.memory_gib_per_cell) for _ in range(machine.cells)]


def _take(cell: _Cell, vm: StandingVm) -> None:
    cell.vcpus -= vm.sku.cpus_in_cell
    cell.memory -= vm.sku.memory_in_cell
    cell.vms.append(vm)


def _kind(cell: _Cell, sku: VmSku | None) -> CellKind:
    """What a cell is to a SKU: open, taken, too small, or broken up by smaller VMs."""
    if cell.machine.refusal:
        return CellKind.CLOSED
    if sku is None or not _may_hold(cell.machine, sku):
        return CellKind.SMALL
    if cell.vcpus >= sku.cpus_in_cell and cell.memory >= sku.memory_in_cell:
        return CellKind.OPEN if cell.disk >= sku.disk_gib else CellKind.SPOILED
    share = (sku.memory_in_cell, sku.cpus_in_cell)
    largest = max((vm.sku.memory_in_cell, vm.sku.cpus_in_cell) for vm in cell.vms)
    return CellKind.TAKEN if largest >= share else CellKind.BROKEN


def _may_hold(machine: Machine, sku: VmSku) -> bool:
    """Whether a machine, with nobody on it, could hold a VM of a SKU."""
    return lists_hardware(sku, machine) and holds_when_empty(machine, sku)


def _kinds_of_hardware(machines: Iterable[Machine]) -> list[Machine]:
    """One machine of each kind of hardware."""
    kinds = {
        (
            machine.machine_sku,
            machine.cells,
            machine.cpus_per_cell,
            machine.memory_gib_per_cell,
            machine.disk_gib,
        ): machine
        for machine in machines
    }
    return list(kinds.values())


class _Usable:
    """Whether any SKU can still take what is left of a cell; equal cells are asked about once."""

    def __init__(self, skus: Iterable[VmSku]) -> None:
        self._skus = tuple(skus)
        self._known: dict[tuple[str | None, int, float, int], bool] = {}

    def is_stranded(self, cell: _Cell) -> bool:
        """Whether something is free in the cell, and no SKU can take it."""
        if not cell.free_vcpus and not cell.free_memory:
            return False
        key = (cell.machine.machine_sku, cell.free_vcpus, cell.free_memory, cell.disk)
        if key not in self._known:
            self._known[key] = any(self._takes(sku, cell) for sku in self._skus)
        return not self._known[key]

    def _takes(self, sku: VmSku, cell: _Cell) -> bool:
        """Whether what is left of a cell is enough for the share of a SKU, and its hardware is listed."""
        fits = cell.free_vcpus >= sku.cpus_in_cell and cell.free_memory >= sku.memory_in_cell
        return fits and cell.disk >= sku.disk_gib and lists_hardware(sku, cell.machine)
