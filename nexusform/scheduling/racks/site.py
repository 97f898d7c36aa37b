"""A site and the tables that turn SKUs, rooms and pools into small integers.

All of it is shared by a scheduler and its copies; the tables only ever grow, and growing them changes
no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.layout import Layout, Room, Rooms, Share
from nexusform.scheduling.racks.rule import CountFilter, DemandFilter, MachineFilter, PoolKey, RoomFilter
from nexusform.scheduling.racks.rules import cells as cell_rules
from nexusform.scheduling.racks.uncertainty.splits import Cells, Left, Splits, bounds
from nexusform.scheduling.racks.vms import NONE_FITS, Interval, Machine, Placement, VmName, VmSku

CELLS_BITS = 16
CELLS_MASK = (1 << CELLS_BITS) - 1
MACHINE_BITS = 28
MACHINE_MASK = (1 << MACHINE_BITS) - 1
SKU_BITS = 20
SKU_MASK = (1 << SKU_BITS) - 1


class Step(NamedTuple):
    """What one more VM of a shape does to a room: the cells it takes (an id) and the room left."""

    cells: int
    room: int


class Steps(dict[int, Step | None]):
    """Room number -> Step, or None where one more VM of the SKU does not fit; filled as asked."""

    __slots__ = ("_refusals", "_rooms", "_share")

    def __init__(self, rooms: Rooms, sku: VmSku) -> None:
        super().__init__()
        self._rooms = rooms
        self._share = Share.of(sku)
        self._refusals = [rule.opens(sku) for rule in profile.FILTERS if isinstance(rule, RoomFilter)]

    def __missing__(self, number: int) -> Step | None:
        step = self[number] = self._compute(number)
        return step

    def count(self, number: int) -> int:
        """How many VMs of the SKU fit in a room, one after the other."""
        count = 0
        step = self[number]
        while step is not None:
            count += 1
            step = self[step.room]
        return count

    def _compute(self, number: int) -> Step | None:
        room = self._rooms.free(number)
        for refuse in self._refusals:
            if refuse(room) is not None:
                return None
        share = self._share
        cells = tuple(sorted(ranked_cells(share, room)[: share.cells]))
        return Step(self._rooms.cells_id(cells), self._rooms.changed(number, share, cells, -1))


def ranked_cells(share: Share, room: Room) -> list[int]:
    """The cells that can take their share: lowest keys first, then lowest number."""
    fitting = cell_rules.with_room(share, room)
    if share.vfs:
        # A rule has said before whether any has them.
        fitting = cell_rules.with_vfs(share, room, fitting) or fitting
    if len(fitting) == 1:
        return fitting
    return sorted(fitting, key=lambda cell: (*(key(room, cell) for key in profile.CELL_KEYS), cell))


class SplitRooms:
    """The rooms that a machine may have: one for each legal split of its VMs without known cells.

    `rooms` are empty where no split is legal, and where there are too many (then `splits.known` is False).
    """

    __slots__ = ("_known_room", "_table", "_vfs_left", "rooms", "splits")

    def __init__(self, table: Rooms, known_room: int, shares: tuple[Share, ...]) -> None:
        free = table.free(known_room)
        self._table = table
        self._known_room = known_room
        self.splits = Splits(tuple(zip(free.cpus, free.memory, strict=True)), shares)
        # VFs are no part of a split: each cell has all, or none of what these VMs take.
        taken_vfs = min(sum(share.vfs for share in shares), max(free.vfs, default=0))
        self._vfs_left = sorted({free.vfs, tuple(max(left - taken_vfs, 0) for left in free.vfs)})
        self.rooms = [self._room(left, vfs) for left in self.splits.left for vfs in self._vfs_left]

    def _room(self, left: Left, vfs: tuple[int, ...]) -> int:
        """The room that a split leaves, with these VFs in each cell."""
        free = self._table.free(self._known_room)
        cpus, memory = tuple(cell[0] for cell in left), tuple(cell[1] for cell in left)
        return self._table.intern(Room(free.hardware, free.disk, cpus, memory, vfs))

    def room_of(self, cells: tuple[Cells, ...]) -> int:
        """The room when the VMs lie on these cells."""
        number = self._known_room
        for share, vm_cells in zip(self.splits.shares, cells, strict=True):
            number = self._table.changed(number, share.of_cells, vm_cells, -1)
        return number

    def possible(self) -> list[int]:
        """The rooms that it may have; where there are too many, one with more and one with less than each."""
        if self.rooms:
            return self.rooms
        full = self._table.full(self._known_room)
        return [full] if self.splits.known else [full, self._known_room]

    def count(self, shape: Shape) -> Interval:
        """How many VMs of a SKU fit, whichever split it is."""
        if self.rooms:
            counts = [shape.steps.count(room) for room in self.rooms]
            return Interval(min(counts), max(counts))
        if self.splits.known or shape.steps[self._known_room] is None:
            return NONE_FITS
        return bounds(self._table.free(self._known_room), self.splits.shares, shape.share)

    def extremes(self, shape: Shape) -> tuple[int, int]:
        """The rooms that take the fewest and the most VMs of a SKU."""
        rooms = self.possible()
        return min(rooms, key=shape.steps.count), max(rooms, key=shape.steps.count)

    def roomiest(self, shapes: Sequence[Shape]) -> tuple[Cells, ...] | None:
        """The cells of the VMs where most VMs of the first SKU fit beside them, of all such of the next, and
        so on; None where that is not known.
        """
        if not self.splits.left:
            return None
        return self.splits.leaving(max(self.splits.left, key=lambda left: self._most(left, shapes)))

    def _most(self, left: Left, shapes: Sequence[Shape]) -> tuple[int, ...]:
        """How many VMs of each SKU fit alone, at most."""
        rooms = [self._room(left, vfs) for vfs in self._vfs_left]
        return tuple(max(shape.steps.count(room) for room in rooms) for shape in shapes)


class Shape:
    """A VM SKU as the engine sees it."""

    __slots__ = ("is_extra_large", "memory", "number", "share", "sku", "steps")

    def __init__(self, number: int, sku: VmSku, steps: Steps) -> None:
        self.number = number
        self.sku = sku
        self.share = Share.of(sku)
        self.memory = sku.memory_mib
        self.is_extra_large = sku.extra_large
        self.steps = steps


class Site(Layout):
    """A layout with its tables. `open_in` are the machines of each rack that take new VMs at all.

    `demand_filters` are the profile's filters that look at more than machines and rooms.
    """

    __slots__ = (
        "_placements",
        "_pool_id",
        "_shape_by_id",
        "_shape_by_sku",
        "_splits",
        "demand_filters",
        "is_open",
        "open_in",
        "pools",
        "rooms",
        "shapes",
        "start_rooms",
    )

    def __init__(self, machines: Sequence[Machine]) -> None:
        super().__init__(machines)
        self.demand_filters = [
            rule for rule in profile.FILTERS if isinstance(rule, DemandFilter | CountFilter)
        ]
        self.is_open = [_is_open(machine) for machine in self.machines]
        self.open_in = [list(filter(self.is_open.__getitem__, rack)) for rack in self.machines_in]
        self.rooms = Rooms()
        self.start_rooms = [self.rooms.of_machine(machine) for machine in self.machines]
        self.shapes: list[Shape] = []
        self.pools: list[PoolKey] = []
        self._pool_id: dict[PoolKey, int] = {}
        self._shape_by_sku: dict[VmSku, Shape] = {}
        # By identity: hashing a SKU costs as much as placing a VM. The SKU beside the shape keeps the
        # identity alive.
        self._shape_by_id: dict[int, tuple[VmSku, Shape]] = {}
        self._placements: dict[int, Placement] = {}
        self._splits: dict[tuple[int, tuple[Share, ...]], SplitRooms] = {}

    def shape(self, sku: VmSku) -> Shape:
        """The shape of a SKU; equal SKUs have one shape."""
        sku_and_shape = self._shape_by_id.get(id(sku))
        if sku_and_shape is not None:
            return sku_and_shape[1]
        shape = self._shape_by_sku.get(sku)
        if shape is None:
            shape = Shape(len(self.shapes), sku, Steps(self.rooms, sku))
            self._shape_by_sku[sku] = shape
            self.shapes.append(shape)
        self._shape_by_id[id(sku)] = (sku, shape)
        return shape

    def splits(self, room: int, shares: tuple[Share, ...]) -> SplitRooms:
        """How VMs of these shares may lie in a room that all other VMs leave; its disk is what all leave."""
        split_rooms = self._splits.get((room, shares))
        if split_rooms is None:
            split_rooms = self._splits[room, shares] = SplitRooms(self.rooms, room, shares)
        return split_rooms

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


def _is_open(machine: Machine) -> bool:
    """Whether no rule refuses the machine to everybody."""
    closing = [rule.refuse for rule in profile.FILTERS if isinstance(rule, MachineFilter)]
    return all(refuse(machine) is None for refuse in closing)
