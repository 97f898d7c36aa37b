"""What may become of a cell or a machine: who leaves it, how many VMs of the demand come, what else fits.

These are counted by contents: cells with equal contents are one row of the program, with a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_ground import Free, Host, Kind, RepackGround, Source
from nexusform.scheduling.racks.layout import Share
from nexusform.scheduling.racks.vms import VmSku

# VMs of one group are alike to the program: those of a kind, or of one pool that is followed by itself.
Group: TypeAlias = tuple[str, int]
# What is free in the cells of a machine, or in one of them; and that for every split.
Cells: TypeAlias = tuple[Free, ...]
Splits: TypeAlias = tuple[Cells, ...]
# For every split the ways in which VMs that came may leave its cells.
Ways: TypeAlias = Sequence[frozenset[Cells]]
# How many VMs of each size come: (size, count), by size.
Pattern: TypeAlias = tuple[tuple[int, int], ...]
# Who leaves a cell: (group, count), by group.
Leaving: TypeAlias = tuple[tuple[Group, int], ...]

MOST_PATTERNS: Final = 4_000
MOST_LEAVINGS: Final = 4_000


class Option(Struct, frozen=True):
    """One thing that may become of a cell: who leaves, how many VMs of the demand come, what then may come.

    `arrival` is a VM of several cells that takes its share here: the number of its kind, -1 the demand, None
    none. `spanning` are VMs of several cells that leave, by their place among those of the machine.
    """

    leaving: Leaving
    demand: int
    sink: Sink | None
    pods: int = 0
    arrival: int | None = None
    spanning: tuple[int, ...] = ()

    @property
    def recreations(self) -> int:
        """How many VMs leave that stand in this cell alone."""
        return sum(count for _, count in self.leaving)


class Sink(Struct, frozen=True):
    """Room for VMs that are re-created: the most that may come, in every combination that leaves nothing out.

    `admits` are the kinds that may come, `rack` is "" where no pool is followed rack by rack, `solo` the
    machine where it stands for itself.
    """

    patterns: tuple[Pattern, ...]
    admits: frozenset[int]
    rack: str
    solo: str = ""


class CellKey(Struct, frozen=True):
    """What makes cells equal. `leaving` has for every group the pods of its VMs here, fewest first."""

    free: Free
    leaving: tuple[tuple[Group, tuple[int, ...]], ...]
    admits: frozenset[int]
    demanded: bool
    rack: str
    solo: str = ""
    spanning: tuple[tuple[int, int], ...] = ()


class RoomBook:
    """Sinks and options, each worked out once. `capped` says that some were too many to be listed.

    VMs of kinds that take as much are one size: `sizes` by number, `size_of` by the number of a kind.
    """

    def __init__(self, kinds: Sequence[Kind], sku: VmSku) -> None:
        self._kinds = kinds
        self._sku = sku
        self._patterns: dict[tuple[Splits, frozenset[int], int | None], tuple[Pattern, ...]] = {}
        numbers: dict[Share, int] = {}
        self.size_of = [numbers.setdefault(Share.of(kind.sku), len(numbers)) for kind in kinds]
        self.sizes = tuple(numbers)
        self.capped = False

    def sink(self, splits: Splits, key: CellKey, disk: int | None = None) -> Sink | None:
        """What may come into cells, whichever of the splits it is; None where nothing may."""
        narrow = [kind for kind in key.admits if self._kinds[kind].sku.numa_cells == 1]
        sizes = frozenset(self.size_of[kind] for kind in narrow)
        known = (splits, sizes, disk)
        patterns = self._patterns.get(known)
        if patterns is None:
            patterns = self._patterns[known] = self._find_patterns(splits, sizes, disk)
        return Sink(patterns, key.admits, key.rack, key.solo) if patterns else None

    def _find_patterns(self, splits: Splits, sizes: frozenset[int], disk: int | None) -> tuple[Pattern, ...]:
        """The combinations that fit and to which nothing can be added."""
        rooms = [frozenset({cells}) for cells in splits]
        order = [size for size in sizes if all(_after(ways, self.sizes[size]) for ways in rooms)]
        order.sort(key=lambda size: (-self.sizes[size].memory, size))
        search = _PatternSearch([(size, self.sizes[size]) for size in order])
        search.extend(0, (), rooms, disk)
        self.capped |= search.capped
        return tuple(search.patterns)

    def options(
        self,
        key: CellKey,
        group_skus: Mapping[Group, VmSku],
        arrivals: Sequence[tuple[int, VmSku]],
        spanning: Mapping[int, VmSku],
    ) -> Iterator[Option]:
        """What may become of a cell with these contents, beside staying as it is."""
        choices = [range(len(pods) + 1) for _, pods in key.leaving]
        spans = [range(2) for _ in key.spanning]
        for listed, counts in enumerate(product(*choices, *spans)):
            if listed >= MOST_LEAVINGS:
                self.capped = True
                return
            counted = list(zip(key.leaving, counts[: len(choices)], strict=True))
            gone = tuple(
                number for (number, _), out in zip(key.spanning, counts[len(choices) :], strict=True) if out
            )
            free = key.free
            for (group, _), count in counted:
                free = free.without(group_skus[group], -count)
            for number in gone:
                free = free.without(spanning[number], -1)
            leaving = tuple((group, count) for (group, _), count in counted if count)
            pods = sum(sum(all_pods[:count]) for (_, all_pods), count in counted)
            yield from self._options(key, free, leaving, pods, gone, arrivals)

    def _options(
        self,
        key: CellKey,
        free: Free,
        leaving: Leaving,
        pods: int,
        gone: tuple[int, ...],
        arrivals: Sequence[tuple[int, VmSku]],
    ) -> Iterator[Option]:
        """The options of one choice of VMs that leave: with VMs of the demand, or a share of a wide one."""
        for kind, sku in arrivals:
            if (key.demanded if kind < 0 else kind in key.admits) and free.takes(sku):
                left = free.without(sku)
                yield Option(leaving, 0, self._sink_of(key, left), pods, kind, gone)
        if leaving or gone:
            yield Option(leaving, 0, self._sink_of(key, free), pods, None, gone)
        if not key.demanded or self._sku.numa_cells > 1:
            return
        count = 1
        while free.without(self._sku, count).is_legal:
            yield Option(leaving, count, self._sink_of(key, free.without(self._sku, count)), pods, None, gone)
            count += 1

    def _sink_of(self, key: CellKey, free: Free) -> Sink | None:
        return self.sink(((free,),), key)


class _PatternSearch:
    """Goes through combinations, size after size, the most of each first."""

    def __init__(self, sizes: Sequence[tuple[int, Share]]) -> None:
        self._sizes = sizes
        self.patterns: list[Pattern] = []
        self.capped = False

    def extend(self, at: int, taken: Pattern, rooms: Ways, disk: int | None) -> None:
        """Add 0 or more VMs of the size at this place, then of the next.

        `rooms` are for each split the ways in which what came so far may leave its cells.
        """
        if len(self.patterns) >= MOST_PATTERNS:
            self.capped = True
            return
        if at == len(self._sizes):
            if taken and not self._takes_more(rooms, disk):
                self.patterns.append(tuple(sorted(taken)))
            return
        number, share = self._sizes[at]
        chain = [(rooms, disk)]
        while (more := _one_more(*chain[-1], share)) is not None:
            chain.append(more)
        for count in range(len(chain) - 1, -1, -1):
            added = (*taken, (number, count)) if count else taken
            self.extend(at + 1, added, *chain[count])

    def _takes_more(self, rooms: Ways, disk: int | None) -> bool:
        return any(_one_more(rooms, disk, share) is not None for _, share in self._sizes)


def _one_more(rooms: Ways, disk: int | None, share: Share) -> tuple[Ways, int | None] | None:
    """The rooms and the disk with one more VM; None where it does not fit in every split."""
    left = None if disk is None else disk - share.disk
    if left is not None and left < 0:
        return None
    after = []
    for ways in rooms:
        fitting = _after(ways, share)
        if not fitting:
            return None
        after.append(fitting)
    return after, left


def _after(ways: frozenset[Cells], share: Share) -> frozenset[Cells]:
    """The ways in which cells may be left when one more VM comes into one of them."""
    after: set[Cells] = set()
    for cells in ways:
        for number, (cpus, memory, vfs) in enumerate(cells):
            if cpus >= share.cpus and memory >= share.memory and vfs >= share.vfs:
                left = Free(cpus - share.cpus, memory - share.memory, vfs - share.vfs)
                after.add((*cells[:number], left, *cells[number + 1 :]))
    return frozenset(after)


class CellAt(Struct, frozen=True):
    """One cell: the machine, its number there (-1: the whole machine), and its VMs that may leave."""

    host: Host
    cell: int
    sources: tuple[Source, ...]


def groups_of(ground: RepackGround, followed: frozenset[int]) -> dict[int, Group]:
    """The group of every VM that may leave, by its handle."""
    return {
        source.handle: ("pool", source.pool) if source.pool in followed else ("kind", source.kind)
        for source in ground.sources
    }
