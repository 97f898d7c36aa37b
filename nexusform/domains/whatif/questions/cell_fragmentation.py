"""Unusable free capacity.

Such capacity is in cells fragmented by small VMs, or is vCPUs or memory too small for any SKU.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain

from msgspec import Struct, field

from nexusform.scheduling.racks.vms import Machine, ScheduledVm, VmSku
from nexusform.snapshots.snapshot import SiteSnapshot, is_large_enough, supports_machine_hardware


class FragmentingPool(Struct, frozen=True):
    """Pool with the first VM in this many fragmented cells."""

    cluster: str
    pool: str
    cells: int


class FragmentationCounts(Struct, frozen=True):
    """NUMA cells classified by the `yardstick` SKU.

    Every cell counts once. An `open` cell fits its share now. A `taken` one holds a VM of at least
    that share. A `broken` one holds only smaller VMs and cannot fit it. A `spoiled` one has
    capacity, but the machine lacks disk. A `small` one cannot hold it when empty, or its hardware
    is not supported. A `closed` one is on a machine closed to new VMs. An `unknown` one is on a
    machine with VMs in unknown cells. `broken_*` is free in fragmented cells, `stranded_*` is free
    in cells of open machines without a fitting SKU, `free_*` is free on all open machines.
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
    broken_by: tuple[FragmentingPool, ...]
    broken_vcpus: int
    broken_memory_gib: float
    stranded_cells: int
    stranded_vcpus: int
    stranded_memory_gib: float
    free_vcpus: int
    free_memory_gib: float


class _NumaCell(Struct):
    """NUMA cell of a machine: remaining vCPUs, memory and disk, and its VMs in order.

    The remains are negative if the cell is overfull.
    """

    machine: Machine
    vcpus: int
    memory: float
    disk: int = 0
    vms: list[ScheduledVm] = field(default_factory=list)

    @property
    def free_vcpus(self) -> int:
        """Free vCPUs; 0 if the cell is overfull."""
        return max(self.vcpus, 0)

    @property
    def free_memory(self) -> float:
        """Free GiB; 0 if the cell is overfull."""
        return max(self.memory, 0)


class CellUsability(StrEnum):
    """Classification of a cell, see FragmentationCounts."""

    OPEN = "open"
    TAKEN = "taken"
    BROKEN = "broken"
    SPOILED = "spoiled"
    SMALL = "small"
    CLOSED = "closed"
    UNKNOWN = "unknown"


def find_largest_sku(site: SiteSnapshot, machines: Sequence[Machine]) -> VmSku | None:
    """Find the SKU to measure cells by: the largest one-cell SKU fitting on some empty machine.

    Among equally large ones, prefer less disk, then a SKU in use. Return None if no SKU fits.
    """
    used_names = {pool.sku.name for pool in site.pools}
    # One machine of each kind of hardware.
    machine_by_kind: dict[object, Machine] = {}
    for machine in machines:
        kind = (
            machine.machine_sku,
            machine.cells,
            machine.cpus_per_cell,
            machine.memory_gib_per_cell,
            machine.disk_gib,
        )
        machine_by_kind[kind] = machine

    def has_fitting_machine(sku: VmSku) -> bool:
        return any(_can_hold_vm(machine, sku) for machine in machine_by_kind.values())

    # The largest SKU comes first, then that with the least disk.
    def build_size_key(sku: VmSku) -> tuple[float, int, int, bool, str]:
        return -sku.memory_gib, -sku.host_vcpus, sku.disk_gib, sku.name not in used_names, sku.name

    fitting_skus = [
        sku for sku in site.skus.values() if sku.numa_cells == 1 and has_fitting_machine(sku)
    ]
    return min(fitting_skus, key=build_size_key, default=None)


def compute_cell_fragmentation(
    site: SiteSnapshot, machines: Sequence[Machine], yardstick: VmSku | None = None
) -> FragmentationCounts:
    """Compute the number of NUMA cells of each kind, and the free capacity in them.

    See FragmentationCounts. `yardstick` is the SKU to measure cells by; None means the largest SKU.
    """
    sku = yardstick or find_largest_sku(site, machines)
    unknown_machines = frozenset(site.scheduler.list_machines_with_unknown_cells())
    cells_by_kind: dict[CellUsability, list[_NumaCell]] = {kind: [] for kind in CellUsability}
    for cell in _build_cells_with_free_capacity(site, machines):
        cells_by_kind[_determine_usability(cell, sku, unknown_machines)].append(cell)
    # Closed cells have no usable capacity. The code below adds the sum per machine for cells
    # with unknown VMs.
    countable_kinds = [
        kind for kind in CellUsability if kind not in (CellUsability.CLOSED, CellUsability.UNKNOWN)
    ]
    countable = list(chain.from_iterable(cells_by_kind[kind] for kind in countable_kinds))
    unknown_vcpus, unknown_memory = _sum_free_of_machines(
        site, cells_by_kind[CellUsability.UNKNOWN]
    )
    # With capacity too small for any SKU.
    stranded = _find_stranded_cells(countable, site.skus.values())
    # Fragmented cells have smaller VMs only, and no longer fit `sku`.
    broken = cells_by_kind[CellUsability.BROKEN]
    (broken_vcpus, broken_memory), (stranded_vcpus, stranded_memory) = (
        _sum_free(broken),
        _sum_free(stranded),
    )
    free_vcpus, free_memory = _sum_free(countable)
    # A broken cell counts for the pool of its first VM.
    first_vms = [cell.vms[0].vm for cell in broken]
    counts = Counter((vm.cluster, vm.pool) for vm in first_vms)
    # Pools with the most cells come first.
    ranked = sorted(counts, key=lambda pool_key: (-counts[pool_key], pool_key))
    return FragmentationCounts(
        yardstick=sku,
        cells=sum(map(len, cells_by_kind.values())),
        open=len(cells_by_kind[CellUsability.OPEN]),
        taken=len(cells_by_kind[CellUsability.TAKEN]),
        broken=len(broken),
        spoiled=len(cells_by_kind[CellUsability.SPOILED]),
        small=len(cells_by_kind[CellUsability.SMALL]),
        closed=len(cells_by_kind[CellUsability.CLOSED]),
        unknown=len(cells_by_kind[CellUsability.UNKNOWN]),
        broken_by=tuple(
            FragmentingPool(cluster, pool, counts[cluster, pool]) for cluster, pool in ranked
        ),
        broken_vcpus=broken_vcpus,
        broken_memory_gib=broken_memory,
        stranded_cells=len(stranded),
        stranded_vcpus=stranded_vcpus,
        stranded_memory_gib=stranded_memory,
        free_vcpus=free_vcpus + unknown_vcpus,
        free_memory_gib=free_memory + unknown_memory,
    )


def _sum_free(cells: Iterable[_NumaCell]) -> tuple[int, float]:
    """Sum the free vCPUs and GiB of cells."""
    vcpus = 0
    # Whole GiB stay whole numbers.
    memory: float = 0
    for cell in cells:
        vcpus += cell.free_vcpus
        memory += cell.free_memory
    return vcpus, memory


def _sum_free_of_machines(site: SiteSnapshot, cells: Iterable[_NumaCell]) -> tuple[int, float]:
    """Sum the free vCPUs and GiB of these cells.

    The size of VMs in unknown cells of their machines does not count.
    """
    overfull = frozenset(site.scheduler.list_overfull_machines())
    vcpus: Counter[str] = Counter()
    memory: dict[str, float] = {}
    for cell in cells:
        # Nothing counts as free on machines without a possible layout.
        if cell.machine.name not in overfull:
            vcpus[cell.machine.name] += cell.free_vcpus
            memory[cell.machine.name] = memory.get(cell.machine.name, 0) + cell.free_memory
    for vm in site.scheduler.list_vms():
        # No cell accounts for this VM.
        if not vm.placement.cells and vm.placement.machine in vcpus:
            vcpus[vm.placement.machine] -= vm.sku.cpus_in_cell * vm.sku.numa_cells
            memory[vm.placement.machine] -= vm.sku.memory_in_cell * vm.sku.numa_cells
    return sum(vcpus.values()), sum(memory.values())


def _build_cells_with_free_capacity(
    site: SiteSnapshot, machines: Sequence[Machine]
) -> Iterator[_NumaCell]:
    """Build every cell of the machines with its free capacity.

    VMs in unknown cells take disk only.
    """
    # By machine and number.
    cells: dict[str, list[_NumaCell]] = {}
    free_disk: dict[str, int] = {}
    for machine in machines:
        empty_cell = (machine, machine.cpus_per_cell, machine.memory_gib_per_cell)
        cells[machine.name] = [_NumaCell(*empty_cell) for _ in range(machine.cells)]
        free_disk[machine.name] = machine.disk_gib
    for vm in site.scheduler.list_vms():
        machine_cells = cells.get(vm.placement.machine)
        # A machine of another zone.
        if machine_cells is None:
            continue
        free_disk[vm.placement.machine] -= vm.sku.disk_gib
        for number in vm.placement.cells:
            # Cells missing in the inventory are ignored.
            if number < len(machine_cells):
                cell = machine_cells[number]
                cell.vcpus -= vm.sku.cpus_in_cell
                cell.memory -= vm.sku.memory_in_cell
                cell.vms.append(vm)
    for name, cells_of_machine in cells.items():
        for cell in cells_of_machine:
            cell.disk = free_disk[name]
            yield cell


def _determine_usability(
    cell: _NumaCell, sku: VmSku | None, unknown_machines: Collection[str]
) -> CellUsability:
    """Return the usability of a NUMA cell for one more VM of the SKU.

    A `sku` of None means that no SKU fits any machine. SPOILED lacks only disk. TAKEN has a VM
    as large in the cell as one of the SKU, BROKEN only smaller ones. `unknown_machines` have VMs
    in unknown cells.
    """
    if cell.machine.unschedulable_reason:
        return CellUsability.CLOSED
    if cell.machine.name in unknown_machines:
        return CellUsability.UNKNOWN
    if sku is None or not _can_hold_vm(cell.machine, sku):
        return CellUsability.SMALL
    if cell.vcpus >= sku.cpus_in_cell and cell.memory >= sku.memory_in_cell:
        return CellUsability.OPEN if cell.disk >= sku.disk_gib else CellUsability.SPOILED
    # A VM is in the cell: the SKU would fit into an empty one.
    share = (sku.memory_in_cell, sku.cpus_in_cell)
    largest = max((vm.sku.memory_in_cell, vm.sku.cpus_in_cell) for vm in cell.vms)
    return CellUsability.TAKEN if largest >= share else CellUsability.BROKEN


def _can_hold_vm(machine: Machine, sku: VmSku) -> bool:
    """Return True if an empty machine can hold a VM of a SKU."""
    return supports_machine_hardware(sku, machine) and is_large_enough(machine, sku)


def _find_stranded_cells(cells: Iterable[_NumaCell], skus: Collection[VmSku]) -> list[_NumaCell]:
    """Find the cells with free capacity, but without a fitting SKU.

    Check equal cells once.
    """
    # By hardware, vCPUs, memory and disk.
    fits_by_key: dict[tuple[str | None, int, float, int], bool] = {}
    stranded: list[_NumaCell] = []
    for cell in cells:
        # Nothing is left to be stranded.
        if not cell.free_vcpus and not cell.free_memory:
            continue
        key = (cell.machine.machine_sku, cell.free_vcpus, cell.free_memory, cell.disk)
        if key not in fits_by_key:
            fits_by_key[key] = any(
                cell.free_vcpus >= sku.cpus_in_cell
                and cell.free_memory >= sku.memory_in_cell
                and cell.disk >= sku.disk_gib
                and supports_machine_hardware(sku, cell.machine)
                for sku in skus
            )
        if not fits_by_key[key]:
            stranded.append(cell)
    return stranded
