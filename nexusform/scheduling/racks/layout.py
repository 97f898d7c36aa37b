"""A site by number, in the order given: its machines and racks, which do not change while VMs come and go
(`Layout`), what stands on them as one demand counts it (`Usage`), and what is left on a machine (`Room`), so
that equal machines share one number and one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from nexusform.scheduling.racks.vms import MIB_PER_GIB, Machine, VmSku


class Layout:
    """One site. Machines and racks are numbers from 0; every list is indexed by one of the two."""

    __slots__ = (
        "index",
        "machine_names",
        "machines",
        "machines_in",
        "rack_index",
        "rack_name",
        "rack_names",
        "rack_of",
        "rack_zone",
    )

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self.index = {machine.name: number for number, machine in enumerate(self.machines)}
        self.rack_index: dict[str, int] = {}
        self.rack_name: list[str] = []
        self.rack_zone: list[str] = []
        self.rack_of: list[int] = []
        self.machines_in: list[list[int]] = []
        for number, machine in enumerate(self.machines):
            self._add(number, machine)
        # As the tie-break digests them.
        self.machine_names = [machine.name.encode() for machine in self.machines]
        self.rack_names = [name.encode() for name in self.rack_name]

    def _add(self, number: int, machine: Machine) -> None:
        rack = self.rack_index.get(machine.rack)
        if rack is None:
            rack = self.rack_index[machine.rack] = len(self.rack_name)
            self.rack_name.append(machine.rack)
            self.rack_zone.append(machine.availability_zone)
            self.machines_in.append([])
        self.rack_of.append(rack)
        self.machines_in[rack].append(number)


Figure = Callable[[int], int]


class Counts(dict[int, int]):
    """VMs by the number of a machine or rack; 0 where there is none."""

    __slots__ = ()

    def __missing__(self, item: int) -> int:
        return 0

    def copy(self) -> Counts:
        """The same counts, to be written apart."""
        return Counts(self)


# Figures by the number of a machine or rack: a live list, live counts, or a function.
Figures = list[int] | Counts | Figure


class Tally:
    """VMs of one cluster or pool: per machine, per rack, and (clusters only) extra-large ones per machine."""

    __slots__ = ("extra_large", "machines", "racks")

    def __init__(self, machines: Counts, racks: Counts, extra_large: Counts) -> None:
        self.machines = machines
        self.racks = racks
        self.extra_large = extra_large

    @classmethod
    def empty(cls) -> Tally:
        """Nothing counted yet."""
        return cls(Counts(), Counts(), Counts())

    def copy(self) -> Tally:
        """The same counts, to be written apart."""
        return Tally(self.machines.copy(), self.racks.copy(), self.extra_large.copy())


# The counts of a cluster or pool that has no VM on the site. Never written.
NO_COUNTS: Final = Counts()
NOBODY: Final = Tally(NO_COUNTS, NO_COUNTS, NO_COUNTS)


class Usage(Struct, frozen=True):
    """What stands on a site, and what of it belongs to the demand's cluster and pool.

    By machine: `memory` (MiB used by VMs) and `extra_large` (VMs of such SKUs). By rack: `rack_vms` and
    `rack_memory`. All of it changes as VMs come and go, so a rule may keep a list and read it later.
    """

    layout: Layout
    memory: list[int]
    extra_large: list[int]
    rack_vms: list[int]
    rack_memory: list[int]
    cluster: Tally
    pool: Tally


class Room(NamedTuple):
    """What a machine has left: GiB of disk, and vCPUs, GiB and VFs of each cell.

    `hardware` is its machine SKU, None for a machine with figures of its own. In a room by number
    figures may be negative (a machine that shrank); rules see them as 0.
    """

    hardware: str | None
    disk: int
    cpus: tuple[int, ...]
    memory: tuple[int, ...]
    vfs: tuple[int, ...] = ()

    def without_debts(self) -> Room:
        """The room with 0 for what is negative."""
        if self.disk >= 0 and min((0, *self.cpus, *self.memory, *self.vfs)) >= 0:
            return self
        cpus = tuple(max(figure, 0) for figure in self.cpus)
        memory = tuple(max(figure, 0) for figure in self.memory)
        vfs = tuple(max(figure, 0) for figure in self.vfs)
        return Room(self.hardware, max(self.disk, 0), cpus, memory, vfs)


class Share(NamedTuple):
    """What a VM takes of a machine: GiB of disk, and of each of its `cells` so many vCPUs, GiB and VFs."""

    disk: int
    cells: int
    cpus: int
    memory: int
    vfs: int = 0

    @classmethod
    def of(cls, sku: VmSku) -> Share:
        """The share of a VM of this SKU."""
        return cls(sku.disk_gib, sku.numa_cells, sku.cpus_in_cell, sku.mib_in_cell, sku.vfs_in_cell)

    @property
    def of_cells(self) -> Share:
        """What it takes of its cells, whatever of the machine's disk."""
        return Share(0, self.cells, self.cpus, self.memory, self.vfs)


# The number of no cells: where nobody told on which a VM stands.
UNKNOWN_CELLS: Final = 0


class Rooms:
    """The rooms, and the tuples of cells, that were ever seen on a site. They only ever grow."""

    __slots__ = ("_cells", "_cells_number", "_free", "_number", "_rooms")

    def __init__(self) -> None:
        self._rooms: list[Room] = []
        self._free: list[Room] = []  # the same without debts
        self._number: dict[Room, int] = {}
        self._cells: list[tuple[int, ...]] = [()]
        self._cells_number: dict[tuple[int, ...], int] = {(): UNKNOWN_CELLS}

    def of_machine(self, machine: Machine) -> int:
        """The room of an empty machine."""
        cpus = (machine.cpus_per_cell,) * machine.cells
        memory = (machine.memory_gib_per_cell * MIB_PER_GIB,) * machine.cells
        vfs = (machine.vfs_per_cell,) * machine.cells
        return self.intern(Room(machine.machine_sku, machine.disk_gib, cpus, memory, vfs))

    def intern(self, room: Room) -> int:
        """The number of a room."""
        number = self._number.get(room)
        if number is None:
            number = self._number[room] = len(self._rooms)
            self._rooms.append(room)
            self._free.append(room.without_debts())
        return number

    def room(self, number: int) -> Room:
        """The room behind a number."""
        return self._rooms[number]

    def free(self, number: int) -> Room:
        """The room behind a number as rules see it, with 0 for what is negative."""
        return self._free[number]

    def full(self, number: int) -> int:
        """The room with nothing free in any cell."""
        room = self._rooms[number]
        nothing = (0,) * len(room.cpus)
        return self.intern(Room(room.hardware, room.disk, nothing, nothing, nothing))

    def cells_id(self, cells: tuple[int, ...]) -> int:
        """The number of a tuple of cells."""
        number = self._cells_number.get(cells)
        if number is None:
            number = self._cells_number[cells] = len(self._cells)
            self._cells.append(cells)
        return number

    def cells(self, number: int) -> tuple[int, ...]:
        """The cells behind a number, ascending."""
        return self._cells[number]

    def changed(self, number: int, share: Share, cells: tuple[int, ...], sign: int) -> int:
        """The room after a VM took (`sign` -1) or gave back (+1) its share in each of these cells.

        Cells that the machine does not have are passed over.
        """
        hardware, disk, room_cpus, room_memory, vfs = self._rooms[number]
        cpus, memory = list(room_cpus), list(room_memory)
        for cell in cells:
            if cell < len(cpus):
                cpus[cell] += sign * share.cpus
                memory[cell] += sign * share.memory
        if share.vfs:
            vfs = tuple(left + sign * share.vfs * (cell in cells) for cell, left in enumerate(vfs))
        return self.intern(Room(hardware, disk + sign * share.disk, tuple(cpus), tuple(memory), vfs))
