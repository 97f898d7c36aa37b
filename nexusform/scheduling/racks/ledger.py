"""Who is where: what a scheduler counts per machine, rack, cluster and pool, and its list of VMs.

A copy shares what is large (counts of clusters and pools, the list of VMs) until one side writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nexusform.scheduling.racks.layout import NOBODY, UNKNOWN_CELLS, Counts, Share, Tally, Usage
from nexusform.scheduling.racks.site import (
    CELLS_BITS,
    CELLS_MASK,
    MACHINE_BITS,
    MACHINE_MASK,
    SKU_BITS,
    SKU_MASK,
    Shape,
    Site,
    SplitRooms,
)
from nexusform.scheduling.racks.uncertainty.splits import SPREAD, Cells, Roomiest, Way
from nexusform.scheduling.racks.vms import StandingVm, VmName

GONE = -1


class Record(NamedTuple):
    """One VM as the ledger knows it: numbers of its pool and SKU, where it stands, its own number."""

    pool: int
    shape: int
    machine: int
    cells: int
    number: int | str


class Loose:
    """The VMs of a machine whose cells nobody told: their SKUs by handle, and `cells` as they were drawn
    (None: not yet, or no split is legal). `known_room` is what all others leave; its disk is what all leave.
    """

    __slots__ = ("cells", "known_room", "shapes", "stale")

    def __init__(
        self,
        known_room: int,
        shapes: dict[int, int] | None = None,
        cells: dict[int, tuple[int, ...]] | None = None,
        *,
        stale: bool = True,
    ) -> None:
        self.known_room = known_room
        self.shapes: dict[int, int] = {} if shapes is None else shapes
        self.cells = cells
        self.stale = stale

    def copy(self) -> Loose:
        """A copy of the numbers, to be written apart."""
        cells = None if self.cells is None else self.cells.copy()
        return Loose(self.known_room, self.shapes.copy(), cells, stale=self.stale)


class Ledger:
    """Counts and VMs. Handles are numbers from 0 in the order in which VMs came.

    `loose` are the machines with VMs whose cells are not known, by number; their `rooms` are right once
    splits are drawn. All others have the rooms that their VMs leave.
    """

    __slots__ = (
        "_first",
        "_gone",
        "_layers",
        "_own",
        "_starts",
        "clusters",
        "extra_large",
        "loose",
        "memory",
        "numbers",
        "pools",
        "rack_memory",
        "rack_vms",
        "records",
        "rooms",
        "site",
    )

    def __init__(self, site: Site) -> None:
        racks = len(site.rack_name)
        self.site = site
        self.rooms = site.start_rooms.copy()
        self.memory = [0] * len(site.machines)
        self.extra_large = [0] * len(site.machines)
        self.rack_vms = [0] * racks
        self.rack_memory = [0] * racks
        self.clusters: dict[str, Tally] = {}
        self.pools: dict[tuple[str, str], Tally] = {}
        self.loose: dict[int, Loose] = {}
        self._own: set[int] = set()
        # VMs: older layers are shared with copies and never written; `records` and `numbers` are this one's.
        self.records: list[int] = []
        self.numbers: list[int | str] = []
        self._layers: list[tuple[list[int], list[int | str]]] = []
        self._starts: list[int] = []
        self._first = 0
        self._gone: set[int] = set()

    def copy(self) -> Ledger:
        """A ledger that goes its own way; costs one pass over machines, not over VMs."""
        if self.records:
            self._layers = [*self._layers, (self.records, self.numbers)]
            self._starts = [*self._starts, self._first]
            self._first += len(self.records)
            self.records, self.numbers = [], []
        self._own = set()
        twin = Ledger.__new__(Ledger)
        twin.site = self.site
        twin.rooms = self.rooms.copy()
        twin.memory = self.memory.copy()
        twin.extra_large = self.extra_large.copy()
        twin.rack_vms = self.rack_vms.copy()
        twin.rack_memory = self.rack_memory.copy()
        twin.clusters = self.clusters.copy()
        twin.pools = self.pools.copy()
        twin.loose = {machine: loose.copy() for machine, loose in self.loose.items()}
        twin._own = set()  # noqa: SLF001 - a twin of the same class
        twin.records, twin.numbers = [], []
        twin._layers, twin._starts = self._layers, self._starts  # noqa: SLF001 - as above
        twin._first = self._first  # noqa: SLF001 - as above
        twin._gone = self._gone.copy()  # noqa: SLF001 - as above
        return twin

    def cluster(self, owner: str) -> Tally:
        """The cluster's counts, safe to write."""
        tally = self.clusters.get(owner)
        if tally is None or id(tally) not in self._own:
            tally = self.clusters[owner] = tally.copy() if tally else Tally.empty()
            self._own.add(id(tally))
        return tally

    def pool(self, owner: str, pool: str) -> Tally:
        """The pool's counts, safe to write."""
        key = (owner, pool)
        tally = self.pools.get(key)
        if tally is None or id(tally) not in self._own:
            tally = self.pools[key] = tally.copy() if tally else Tally.empty()
            self._own.add(id(tally))
        return tally

    def usage(self, owner: str, pool: str) -> Usage:
        """What stands, as this cluster and pool see it now; not to be kept while VMs come or go."""
        return self._usage(self.clusters.get(owner, NOBODY), self.pools.get((owner, pool), NOBODY))

    def live_usage(self, owner: str, pool: str) -> Usage:
        """What stands, as this cluster and pool see it; it stays right until the ledger is copied."""
        return self._usage(self.cluster(owner), self.pool(owner, pool))

    def everybodys_usage(self) -> Usage:
        """What stands, as a cluster without a VM on the site sees it; stays right."""
        return self._usage(NOBODY, NOBODY)

    def _usage(self, cluster: Tally, pool: Tally) -> Usage:
        return Usage(self.site, self.memory, self.extra_large, self.rack_vms, self.rack_memory, cluster, pool)

    def write(self, packed: int, number: int | str) -> int:
        """Note a VM (see `pack`) whose counts are already in; gives its handle."""
        self.records.append(packed)
        self.numbers.append(number)
        return self._first + len(self.records) - 1

    def write_loose(self, packed: int, number: int | str) -> int:
        """Note a VM that was placed on a machine with a drawn split; gives its handle. On a real site nobody
        would know its cells either, so it is noted without them, and the drawn ones hold its room.
        """
        cells = packed & CELLS_MASK
        handle = self.write(packed - cells + UNKNOWN_CELLS, number)
        upper = packed >> CELLS_BITS
        machine, shape = upper & MACHINE_MASK, upper >> MACHINE_BITS & SKU_MASK
        self._loosen(machine, handle, shape, self.site.rooms.cells(cells))
        return handle

    def add(self, record: Record) -> int:
        """Count a VM in and note it; gives its handle."""
        if record.cells == UNKNOWN_CELLS and record.machine not in self.loose:
            self.loose[record.machine] = Loose(self.rooms[record.machine])
        self.count(record, 1)
        base = pack(record.pool, record.shape)
        handle = self.write(base | record.machine << CELLS_BITS | record.cells, record.number)
        if record.cells == UNKNOWN_CELLS:
            loose = self.loose[record.machine]
            loose.shapes[handle] = record.shape
            loose.stale = True
        return handle

    def add_drawn(self, record: Record) -> int:
        """Count in and note a VM that is placed on a machine with a drawn split; gives its handle."""
        loose = self.loose.pop(record.machine)
        self.count(record, 1)
        self.loose[record.machine] = loose
        base = pack(record.pool, record.shape)
        return self.write_loose(base | record.machine << CELLS_BITS | record.cells, record.number)

    def _loosen(self, machine: int, handle: int, shape: int, cells: tuple[int, ...]) -> None:
        """A VM that the split's room counts already is one of those whose cells are not known."""
        loose = self.loose[machine]
        disk = Share(self.site.shapes[shape].share.disk, 0, 0, 0)
        loose.known_room = self.site.rooms.changed(loose.known_room, disk, (), -1)
        loose.shapes[handle] = shape
        assert loose.cells is not None, "a machine without a split takes no VM"
        loose.cells[handle] = cells

    def remove(self, handle: int) -> Record:
        """Count a VM out. A handle that is gone already is a bug of the caller."""
        record = self.record(handle)
        if handle >= self._first:
            self.records[handle - self._first] = GONE
        else:
            self._gone.add(handle)
        self.count(record, -1)
        if record.cells == UNKNOWN_CELLS:
            self._let_go(record, handle)
        return record

    def _let_go(self, record: Record, handle: int) -> None:
        """One VM less whose cells are not known: what it was drawn to take is free again."""
        site, machine = self.site, record.machine
        loose = self.loose[machine]
        del loose.shapes[handle]
        if not loose.shapes:
            self.rooms[machine] = loose.known_room
            del self.loose[machine]
        elif loose.cells is None:
            loose.stale = True
        else:
            share = site.shapes[record.shape].share.of_cells
            cells = loose.cells.pop(handle)
            self.rooms[machine] = site.rooms.changed(self.rooms[machine], share, cells, 1)

    def split_rooms(self, machine: int) -> SplitRooms:
        """The rooms that a machine of `loose` may have."""
        loose = self.loose[machine]
        shares = tuple(sorted(self.site.shapes[shape].share for shape in loose.shapes.values()))
        return self.site.splits(loose.known_room, shares)

    def draw(self, way: Way) -> list[int]:
        """Take a split for every machine that waits for one; gives those machines."""
        stale = [machine for machine, loose in self.loose.items() if loose.stale]
        for machine in stale:
            self._draw(machine, way)
        return stale

    def _draw(self, machine: int, way: Way) -> None:
        """Take cells for a machine's VMs whose cells nobody told, and with them the room that is left."""
        site, loose = self.site, self.loose[machine]
        handles = sorted(loose.shapes, key=lambda handle: site.shapes[loose.shapes[handle]].share)
        split_rooms = self.split_rooms(machine)
        cells = self._cells_of(machine, way, handles, split_rooms)
        loose.stale = False
        if cells is None:
            loose.cells = None
            self.rooms[machine] = site.rooms.full(loose.known_room)
        else:
            loose.cells = dict(zip(handles, cells, strict=True))
            self.rooms[machine] = split_rooms.room_of(cells)

    def _cells_of(
        self, machine: int, way: Way, handles: Sequence[int], split_rooms: SplitRooms
    ) -> tuple[Cells, ...] | None:
        """The cells of each VM (`handles`, as the splits have them); None where there are none."""
        splits = split_rooms.splits
        if isinstance(way, Roomiest):
            roomiest = split_rooms.roomiest([self.site.shape(sku) for sku in way.skus])
            if roomiest is not None:
                return roomiest
        if isinstance(way, int):
            text = f"{way}|split|{self.site.machines[machine].name}|"
            return splits.drawn(text, lambda: [self._text(handle) for handle in handles])
        come = sorted(range(len(handles)), key=handles.__getitem__)  # handles count up as VMs come
        return splits.ordered(come, packed=way != SPREAD)

    def _text(self, handle: int) -> str:
        """What a VM's cells are drawn with."""
        vm = self.vm_name(self.record(handle))
        return f"{vm.owner}|{vm.pool}|{vm.number}"

    def fix(self, rooms: Mapping[int, int]) -> None:
        """From now on these machines have these rooms, and their VMs no cells that may turn out otherwise."""
        for machine, room in rooms.items():
            self.rooms[machine] = room
        self.loose.clear()

    def draw_anew(self) -> None:
        """Every machine of `loose` waits for another split."""
        for loose in self.loose.values():
            loose.stale = True

    def count(self, record: Record, sign: int) -> None:
        """Add one VM to every count, or take it out."""
        site, machine = self.site, record.machine
        key, shape = site.pools[record.pool], site.shapes[record.shape]
        rack = site.rack_of[machine]
        cells = site.rooms.cells(record.cells)
        self.rooms[machine] = site.rooms.changed(self.rooms[machine], shape.share, cells, -sign)
        loose = self.loose.get(machine)
        if loose is not None:
            loose.known_room = site.rooms.changed(loose.known_room, shape.share, cells, -sign)
            loose.stale |= loose.cells is None
        self.memory[machine] += sign * shape.memory
        self.rack_memory[rack] += sign * shape.memory
        self.rack_vms[rack] += sign
        cluster, pool = self.cluster(key.owner), self.pool(key.owner, key.pool)
        for counts, at in (
            (cluster.machines, machine),
            (cluster.racks, rack),
            (pool.machines, machine),
            (pool.racks, rack),
        ):
            _change(counts, at, sign)
        if shape.is_extra_large:
            self.extra_large[machine] += sign
            _change(cluster.extra_large, machine, sign)

    def record(self, handle: int) -> Record:
        """The VM behind a handle; KeyError when it is gone or was never given."""
        if handle >= self._first:
            records, numbers, at = self.records, self.numbers, handle - self._first
        else:
            layer = bisect_right(self._starts, handle) - 1
            if layer < 0 or handle in self._gone:
                raise KeyError(handle)
            (records, numbers), at = self._layers[layer], handle - self._starts[layer]
        if at >= len(records) or records[at] == GONE:
            raise KeyError(handle)
        return _unpack(records[at], numbers[at])

    def vms(self) -> Iterator[tuple[int, Record]]:
        """Every VM with its handle, in the order in which they came."""
        layers = [*self._layers, (self.records, self.numbers)]
        for start, (records, numbers) in zip([*self._starts, self._first], layers, strict=True):
            for at, packed in enumerate(records):
                if packed != GONE and start + at not in self._gone:
                    yield start + at, _unpack(packed, numbers[at])

    def standing_vm(self, handle: int, record: Record) -> StandingVm:
        """The VM of a record, as a value."""
        placement = self.site.placement(record.machine, record.cells)
        return StandingVm(handle, self.vm_name(record), self.shape(record).sku, placement)

    def vm_name(self, record: Record) -> VmName:
        """The VM's name."""
        key = self.site.pools[record.pool]
        return VmName(key.owner, key.cluster, key.pool, record.number)

    def shape(self, record: Record) -> Shape:
        """The VM's SKU."""
        return self.site.shapes[record.shape]


def pack(pool: int, shape: int) -> int:
    """The upper part of a packed record: pool and SKU by number."""
    return (pool << SKU_BITS | shape) << MACHINE_BITS << CELLS_BITS


def _unpack(packed: int, number: int | str) -> Record:
    """The record behind a packed one (see `pack`)."""
    upper = packed >> CELLS_BITS >> MACHINE_BITS
    machine = packed >> CELLS_BITS & MACHINE_MASK
    return Record(upper >> SKU_BITS, upper & SKU_MASK, machine, packed & CELLS_MASK, number)


def _change(counts: Counts, at: int, sign: int) -> None:
    """Count one more (sign 1) or one less (sign -1) under a number; zeros are not kept."""
    count = counts.get(at, 0) + sign
    if count:
        counts[at] = count
    else:
        counts.pop(at, None)
