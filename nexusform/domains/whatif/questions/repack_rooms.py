"""What may become of a cell or a machine: who leaves it, how many VMs of the demand come, what else fits.

These are counted by contents: cells with equal contents are one row of the program, with a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_ground import Free, Host, Kind, RepackGround, Source
from nexusform.scheduling.racks.vms import VmSku

# VMs of one group are alike to the program: those of a kind, or of one pool that is followed by itself.
Group: TypeAlias = tuple[str, int]
# How many VMs of each kind come: (kind, count), by kind.
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

    `rack` is "" where no pool is followed rack by rack, `solo` the machine where it stands for itself.
    """

    patterns: tuple[Pattern, ...]
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
    """Sinks and options, each worked out once. `capped` says that some were too many to be listed."""

    def __init__(self, kinds: Sequence[Kind], sku: VmSku) -> None:
        self._kinds = kinds
        self._sku = sku
        self._patterns: dict[
            tuple[tuple[tuple[Free, ...], ...], frozenset[int], int | None], tuple[Pattern, ...]
        ] = {}
        self.capped = False

    def sink(
        self, splits: tuple[tuple[Free, ...], ...], key: CellKey, disk: int | None = None
    ) -> Sink | None:
        """What may come into cells, whichever of the splits it is; None where nothing may."""
        admits = frozenset(kind for kind in key.admits if self._kinds[kind].sku.numa_cells == 1)
        known = (splits, admits, disk)
        patterns = self._patterns.get(known)
        if patterns is None:
            patterns = self._patterns[known] = self._find_patterns(splits, admits, disk)
        return Sink(patterns, key.rack, key.solo) if patterns else None

    def _find_patterns(
        self, splits: tuple[tuple[Free, ...], ...], admits: frozenset[int], disk: int | None
    ) -> tuple[Pattern, ...]:
        order = sorted(
            (
                kind
                for kind in admits
                if all(any(cell.takes(self._kinds[kind].sku) for cell in cells) for cells in splits)
            ),
            key=lambda kind: (-self._kinds[kind].sku.mib_in_cell, kind),
        )
        found: list[Pattern] = []
        self._extend(order, 0, [], [frozenset({cells}) for cells in splits], disk, found)
        return tuple(found)

    def _extend(
        self,
        order: Sequence[int],
        at: int,
        taken: list[tuple[int, int]],
        rooms: list[frozenset[tuple[Free, ...]]],
        disk: int | None,
        found: list[Pattern],
    ) -> None:
        """Add 0 or more VMs of the kind at this place, then of the next; note what nothing can be added to.

        `rooms` are for each split the ways in which what came so far may leave its cells.
        """
        if len(found) >= MOST_PATTERNS:
            self.capped = True
            return
        if at == len(order):
            pattern = tuple(sorted((kind, count) for kind, count in taken if count))
            if pattern and not self._takes_more(order, rooms, disk):
                found.append(pattern)
            return
        sku = self._kinds[order[at]].sku
        count = 0
        states: list[frozenset[tuple[Free, ...]]] = rooms
        chain = [states]
        while True:
            left = None if disk is None else disk - (count + 1) * sku.disk_gib
            states = [self._after(cells, sku) for cells in states]
            if not all(states) or (left is not None and left < 0):
                break
            chain.append(states)
            count += 1
        for number in range(count, -1, -1):
            left = None if disk is None else disk - number * sku.disk_gib
            self._extend(order, at + 1, [*taken, (order[at], number)], chain[number], left, found)

    def _takes_more(
        self, order: Sequence[int], rooms: list[frozenset[tuple[Free, ...]]], disk: int | None
    ) -> bool:
        for kind in order:
            sku = self._kinds[kind].sku
            if (disk is None or disk >= sku.disk_gib) and all(self._after(cells, sku) for cells in rooms):
                return True
        return False

    @staticmethod
    def _after(ways: frozenset[tuple[Free, ...]], sku: VmSku) -> frozenset[tuple[Free, ...]]:
        """The ways in which cells may be left when one more VM comes into one of them."""
        after: set[tuple[Free, ...]] = set()
        for cells in ways:
            for number, cell in enumerate(cells):
                if cell.takes(sku):
                    after.add((*cells[:number], cell.without(sku), *cells[number + 1 :]))
        return frozenset(after)

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
