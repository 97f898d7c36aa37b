"""Numbered form of a site: machines and racks in the order given (`NumberedSite`).

VM counts per demand (`Usage`), free capacity of a machine (`FreeCapacity`).

Equal capacities share one number and one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from nexusform.scheduling.racks.vms import Machine, VmSku


class NumberedSite:
    """Machines and racks of one site, numbered from 0; every list is indexed by one of the two."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        """Assign numbers to the machines in their order, and to the racks.

        Racks are in the order of their first machine.
        """
        self.machines = tuple(machines)
        # Numbers of machines by name.
        self.machine_index: dict[str, int] = {}
        # Numbers of racks by name.
        self.rack_index: dict[str, int] = {}
        self.rack_name: list[str] = []
        self.rack_zone: list[str] = []
        # Rack number of each machine.
        self.rack_by_machine: list[int] = []
        # Machine numbers of each rack.
        self.machines_by_rack: list[list[int]] = []
        for number, machine in enumerate(self.machines):
            self.machine_index[machine.name] = number
            rack = self.rack_index.get(machine.rack)
            if rack is None:
                rack = self.rack_index[machine.rack] = len(self.rack_name)
                self.rack_name.append(machine.rack)
                self.rack_zone.append(machine.availability_zone)
                self.machines_by_rack.append([])
            self.rack_by_machine.append(rack)
            self.machines_by_rack[rack].append(number)
        # In the form used by tie-break digests.
        self.encoded_machine_names = [machine.name.encode() for machine in self.machines]
        self.encoded_rack_names = [name.encode() for name in self.rack_name]


Figure = Callable[[int], int]


class VmCounts(dict[int, int]):
    """VM counts by the number of a machine or rack; 0 without an entry."""

    __slots__ = ()

    def __missing__(self, item: int) -> int:
        return 0

    def copy(self) -> VmCounts:
        """Return an independent copy."""
        return VmCounts(self)


# Figures by machine or rack number: a live list, live counts, or a function.
Figures = list[int] | VmCounts | Figure


class OwnerVmCounts:
    """VMs of one cluster or pool.

    They are counted per machine and per rack, and for clusters the extra-large ones per machine.
    """

    __slots__ = ("extra_large", "machines", "racks")

    def __init__(self, machines: VmCounts, racks: VmCounts, extra_large: VmCounts) -> None:
        # VMs by machine number.
        self.machines = machines
        # VMs by rack number.
        self.racks = racks
        # VMs of extra-large SKUs by machine number.
        self.extra_large = extra_large

    def copy(self) -> OwnerVmCounts:
        """Return an independent copy."""
        return OwnerVmCounts(self.machines.copy(), self.racks.copy(), self.extra_large.copy())


# The counts of a cluster or pool that has no VM on the site. Never written.
NO_COUNTS: Final = VmCounts()
NO_VMS: Final = OwnerVmCounts(NO_COUNTS, NO_COUNTS, NO_COUNTS)


class Usage(Struct, frozen=True):
    """VMs of a site, in total and of the demand's cluster and pool.

    `memory` (MiB used by VMs) and `extra_large` (VMs of such SKUs) are by machine, `rack_vms` and
    `rack_memory` by rack. All of it is live, so a rule may keep a list and read it later.
    """

    layout: NumberedSite
    memory: list[int]
    extra_large: list[int]
    rack_vms: list[int]
    rack_memory: list[int]
    cluster: OwnerVmCounts
    pool: OwnerVmCounts


class FreeCapacity(NamedTuple):
    """Free capacity of a machine: GiB of disk, and vCPUs, MiB and VFs of each cell.

    `hardware` is its machine SKU, None for a machine with figures of its own. In a numbered
    capacity figures may be negative (on a machine reduced since); rules see them as 0. `records`
    are those of the machine and its VMs.
    """

    hardware: str | None
    disk: int
    cpus: tuple[int, ...]
    memory: tuple[int, ...]
    vfs: tuple[int, ...] = ()
    records: tuple[str, ...] = ()

    def drop_negatives(self) -> FreeCapacity:
        """Return the capacity as seen by rules: negative figures (of overfull machines) are 0."""
        if self.disk >= 0 and min((0, *self.cpus, *self.memory, *self.vfs)) >= 0:
            return self
        figures_by_resource = (self.cpus, self.memory, self.vfs)
        cpus, memory, vfs = (
            tuple(max(figure, 0) for figure in figures) for figures in figures_by_resource
        )
        return self._replace(disk=max(self.disk, 0), cpus=cpus, memory=memory, vfs=vfs)


class Share(NamedTuple):
    """Resources a VM takes of a machine.

    It takes GiB of disk, and vCPUs, MiB and VFs of each of its `cells`.
    """

    disk: int
    cells: int
    cpus: int
    memory: int
    vfs: int = 0
    record: str = ""

    @classmethod
    def compute(cls, sku: VmSku) -> Share:
        """Return the share of a VM of this SKU."""
        return cls(
            sku.disk_gib,
            sku.numa_cells,
            sku.cpus_in_cell,
            sku.mib_in_cell,
            sku.vfs_in_cell,
            sku.record,
        )

    @property
    def cells_share(self) -> Share:
        """The share in NUMA cells alone: without disk and record."""
        return self._replace(disk=0, record="")


# Number of the empty tuple of cells, for a VM in unknown cells.
UNKNOWN_CELLS: Final = 0


class CapacityTable:
    """Table of all capacities and tuples of cells on a site, by number.

    Each is stored once, and none is removed.
    """

    def __init__(self) -> None:
        # By number; negative figures: more is taken than the machine has.
        self.capacities: list[FreeCapacity] = []
        # By number, as seen by rules: negative figures set to 0.
        self.free_capacities: list[FreeCapacity] = []
        self._capacity_numbers: dict[FreeCapacity, int] = {}
        # By number, ascending; the first is UNKNOWN_CELLS.
        self.cells: list[tuple[int, ...]] = [()]
        self._cells_numbers: dict[tuple[int, ...], int] = {(): UNKNOWN_CELLS}

    def add_machine(self, machine: Machine) -> int:
        """Return the number of the capacity of an empty machine: its index in this table."""
        cpus = (machine.cpus_per_cell,) * machine.cells
        memory = (machine.memory_mib_per_cell,) * machine.cells
        vfs = (machine.vfs_per_cell,) * machine.cells
        records = (machine.record,) if machine.record else ()
        return self.add(
            FreeCapacity(machine.machine_sku, machine.disk_gib, cpus, memory, vfs, records)
        )

    def add(self, capacity: FreeCapacity) -> int:
        """Return the number of a capacity (its index in this table); a new capacity is added."""
        number = self._capacity_numbers.get(capacity)
        if number is None:
            number = self._capacity_numbers[capacity] = len(self.capacities)
            self.capacities.append(capacity)
            self.free_capacities.append(capacity.drop_negatives())
        return number

    def get_exhausted_capacity_number(self, number: int) -> int:
        """Return the index of the capacity at index `number`, but with nothing free in any cell."""
        capacity = self.capacities[number]
        zeros = (0,) * len(capacity.cpus)
        # A known or a new entry.
        return self.add(capacity._replace(cpus=zeros, memory=zeros, vfs=zeros))

    def add_cells(self, cells: tuple[int, ...]) -> int:
        """Return the number of a tuple of cells (its index in `cells`); a new tuple is added."""
        number = self._cells_numbers.get(cells)
        if number is None:
            number = self._cells_numbers[cells] = len(self.cells)
            self.cells.append(cells)
        return number

    def apply_share(self, number: int, share: Share, cells: tuple[int, ...], sign: int) -> int:
        """Return the number of the capacity after a VM took or returned its share.

        The share is that in each of `cells`. `sign` is -1 or +1. `number` is the position of the
        former capacity in `capacities`. vCPUs, memory and VFs change in each cell, disk once. A
        share may have a record, a text in the capacity while the VM runs. Of equal records, the
        last one is removed. Cells beyond those of the machine are ignored.
        """
        hardware, disk, old_cpus, old_memory, vfs, records = self.capacities[number]
        cpus = list(old_cpus)
        memory = list(old_memory)
        for cell in cells:
            if cell < len(cpus):
                cpus[cell] += sign * share.cpus
                memory[cell] += sign * share.memory
        if share.vfs:
            change = sign * share.vfs
            vfs = tuple(free + change if cell in cells else free for cell, free in enumerate(vfs))
        if share.record:
            if sign < 0:
                records = (*records, share.record)
            else:
                # Position of the last equal one.
                last = len(records) - 1 - records[::-1].index(share.record)
                records = (*records[:last], *records[last + 1 :])
        return self.add(
            FreeCapacity(
                hardware, disk + sign * share.disk, tuple(cpus), tuple(memory), vfs, records
            )
        )
