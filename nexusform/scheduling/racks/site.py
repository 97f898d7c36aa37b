"""What does not change while VMs come and go: machines, racks and their names.

Beside them the tables that turn SKUs, rooms and pools into small integers. All of it is shared by a
scheduler and its copies; the tables only ever grow, and growing them changes no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nexusform.scheduling.racks.model import Machine, Placement, VmName, VmSku

# A room is what a machine has left: (hardware, free disk, free vCPUs of cell 0, free GiB of cell 0,
# the same of cell 1, ...). Figures may be negative (a machine that shrank); they count as 0.
Room = tuple[int, ...]

CELLS_BITS = 16
CELLS_MASK = (1 << CELLS_BITS) - 1
MACHINE_BITS = 28
MACHINE_MASK = (1 << MACHINE_BITS) - 1
SKU_BITS = 20
SKU_MASK = (1 << SKU_BITS) - 1
OWN_HARDWARE = -1


class Step(NamedTuple):
    """What one more VM of a shape does to a room: the cells it takes (an id) and the room left."""

    cells: int
    room: int


class Rooms:
    """Rooms by number, so that equal machines share one number and one answer."""

    __slots__ = ("_cells", "_cells_id", "_hardware", "_id", "_rooms")

    def __init__(self) -> None:
        self._rooms: list[Room] = []
        self._id: dict[Room, int] = {}
        self._cells: list[tuple[int, ...]] = []
        self._cells_id: dict[tuple[int, ...], int] = {}
        self._hardware: list[str] = []

    def of_machine(self, machine: Machine) -> int:
        """The room of an empty machine."""
        hardware = OWN_HARDWARE
        if machine.machine_sku is not None:
            if machine.machine_sku not in self._hardware:
                self._hardware.append(machine.machine_sku)
            hardware = self._hardware.index(machine.machine_sku)
        cells = (machine.cpus_per_cell, machine.memory_gib_per_cell) * machine.cells
        return self.intern((hardware, machine.disk_gib, *cells))

    def intern(self, room: Room) -> int:
        """The number of a room."""
        number = self._id.get(room)
        if number is None:
            number = self._id[room] = len(self._rooms)
            self._rooms.append(room)
        return number

    def room(self, number: int) -> Room:
        """The room behind a number."""
        return self._rooms[number]

    def cells_id(self, cells: tuple[int, ...]) -> int:
        """The number of a tuple of cells."""
        number = self._cells_id.get(cells)
        if number is None:
            number = self._cells_id[cells] = len(self._cells)
            self._cells.append(cells)
        return number

    def cells(self, number: int) -> tuple[int, ...]:
        """The cells behind a number, ascending."""
        return self._cells[number]

    def hardware_passes(self, room: Room, listed: frozenset[str]) -> bool:
        """Whether a SKU that lists this hardware may stand in the room; no list = any hardware."""
        return room[0] == OWN_HARDWARE or not listed or self._hardware[room[0]] in listed

    def changed(self, number: int, sku: VmSku, cells: tuple[int, ...], sign: int) -> int:
        """The room after a VM took (`sign` -1) or gave back (+1) these cells.

        Cells that the machine does not have are passed over.
        """
        room = list(self._rooms[number])
        room[1] += sign * sku.disk_gib
        for cell in cells:
            at = 2 + 2 * cell
            if at < len(room):
                room[at] += sign * sku.cpus_in_cell
                room[at + 1] += sign * sku.memory_in_cell
        return self.intern(tuple(room))


class Steps(dict[int, Step | None]):
    """Room number -> Step, or None where one more VM of the SKU does not fit; filled as asked."""

    __slots__ = ("_listed", "_rooms", "_sku")

    def __init__(self, rooms: Rooms, sku: VmSku) -> None:
        super().__init__()
        self._rooms = rooms
        self._sku = sku
        self._listed = frozenset(sku.machine_skus)

    def __missing__(self, number: int) -> Step | None:
        step = self[number] = self._compute(number)
        return step

    def _compute(self, number: int) -> Step | None:
        room = self._rooms.room(number)
        if not self._rooms.hardware_passes(room, self._listed) or max(room[1], 0) < self._sku.disk_gib:
            return None
        fitting = fitting_cells(room, self._sku)
        if len(fitting) < self._sku.numa_cells:
            return None
        cells = tuple(sorted(fitting[: self._sku.numa_cells]))
        return Step(self._rooms.cells_id(cells), self._rooms.changed(number, self._sku, cells, -1))


def fitting_cells(room: Room, sku: VmSku) -> list[int]:
    """The cells that can take their share of the SKU: least free memory first, then lowest index."""
    cpus, memory = sku.cpus_in_cell, sku.memory_in_cell
    found = [
        (max(room[at + 1], 0), at // 2 - 1)
        for at in range(2, len(room), 2)
        if max(room[at], 0) >= cpus and max(room[at + 1], 0) >= memory
    ]
    return [cell for _, cell in sorted(found)]


class Shape:
    """A VM SKU as the engine sees it."""

    __slots__ = ("extra_large", "memory", "number", "sku", "steps")

    def __init__(self, number: int, sku: VmSku, steps: Steps) -> None:
        self.number = number
        self.sku = sku
        self.memory = sku.memory_gib
        self.extra_large = sku.extra_large
        self.steps = steps


class PoolKey(NamedTuple):
    """A pool as VMs are counted (owner, pool) and as ties are broken (cluster, pool)."""

    owner: str
    cluster: str
    pool: str


class Site:
    """Machines and racks by number, in the order given."""

    __slots__ = (
        "_placements",
        "_pool_id",
        "_shape_by_id",
        "_shape_by_sku",
        "index",
        "machine_names",
        "machines",
        "machines_in",
        "pools",
        "rack_index",
        "rack_name",
        "rack_names",
        "rack_of",
        "rack_zone",
        "rooms",
        "schedulable_in",
        "shapes",
        "start_rooms",
    )

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self.index = {machine.name: number for number, machine in enumerate(self.machines)}
        self.rooms = Rooms()
        self.start_rooms = [self.rooms.of_machine(machine) for machine in self.machines]
        self.rack_index: dict[str, int] = {}
        self.rack_name: list[str] = []
        self.rack_zone: list[str] = []
        self.rack_of: list[int] = []
        self.machines_in: list[list[int]] = []
        self.schedulable_in: list[list[int]] = []
        for number, machine in enumerate(self.machines):
            self._add(number, machine)
        self.machine_names = [machine.name.encode() for machine in self.machines]
        self.rack_names = [name.encode() for name in self.rack_name]
        self.shapes: list[Shape] = []
        self.pools: list[PoolKey] = []
        self._pool_id: dict[PoolKey, int] = {}
        self._shape_by_sku: dict[VmSku, Shape] = {}
        # By identity: hashing a SKU costs as much as placing a VM. `kept` keeps the identity alive.
        self._shape_by_id: dict[int, tuple[VmSku, Shape]] = {}
        self._placements: dict[int, Placement] = {}

    def _add(self, number: int, machine: Machine) -> None:
        rack = self.rack_index.get(machine.rack)
        if rack is None:
            rack = self.rack_index[machine.rack] = len(self.rack_name)
            self.rack_name.append(machine.rack)
            self.rack_zone.append(machine.availability_zone)
            self.machines_in.append([])
            self.schedulable_in.append([])
        self.rack_of.append(rack)
        self.machines_in[rack].append(number)
        if not machine.refusal:
            self.schedulable_in[rack].append(number)

    def shape(self, sku: VmSku) -> Shape:
        """The shape of a SKU; equal SKUs have one shape."""
        known = self._shape_by_id.get(id(sku))
        if known is not None:
            return known[1]
        shape = self._shape_by_sku.get(sku)
        if shape is None:
            shape = Shape(len(self.shapes), sku, Steps(self.rooms, sku))
            self._shape_by_sku[sku] = shape
            self.shapes.append(shape)
        self._shape_by_id[id(sku)] = (sku, shape)
        return shape

    def pool(self, vm: VmName) -> int:
        """The number of a VM's pool."""
        key = PoolKey(vm.owner, vm.cluster, vm.pool)
        number = self._pool_id.get(key)
        if number is None:
            number = self._pool_id[key] = len(self.pools)
            self.pools.append(key)
        return number

    def placement(self, machine: int, cells: int) -> Placement:
        """The placement on a machine and cells, by their numbers; one object for all VMs that have it."""
        key = machine << CELLS_BITS | cells
        placement = self._placements.get(key)
        if placement is None:
            facts = self.machines[machine]
            placement = Placement(facts.name, facts.rack, facts.availability_zone, self.rooms.cells(cells))
            self._placements[key] = placement
        return placement

    def racks_in(self, zones: frozenset[str] | None) -> list[int]:
        """The racks whose zone is asked for; None = all."""
        if zones is None:
            return list(range(len(self.rack_name)))
        return [rack for rack, zone in enumerate(self.rack_zone) if zone in zones]
