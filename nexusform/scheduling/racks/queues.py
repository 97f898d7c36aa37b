"""Lazily corrected rankings: the least used machines of a rack, the least used racks of a site.

A ranking is an ascending list of whole numbers `key << INDEX_BITS | item`; a lower key is preferred.
Keys rise when VMs arrive, and an entry whose key has risen is corrected when its turn comes. A key
that falls (a VM left; the first extra-large VM arrived) is entered anew at once; the old entry, too
high by then, is dropped when its turn comes. So the first entry, once corrected, is the true lowest.

While one pool is being placed (a session), racks and machines that hold VMs of it wait in a heap of
the session's own, under their full key, which nobody else changes meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush

from nexusform.scheduling.racks.ledger import Ledger, Tally
from nexusform.scheduling.racks.model import RackSpread
from nexusform.scheduling.racks.site import Shape

INDEX_BITS = 28
INDEX_MASK = (1 << INDEX_BITS) - 1
MEMORY_BITS = 48
COUNT_BITS = 32
ALONE = 1 << MEMORY_BITS
OWN = -1  # the front came from the session's own heap
FEW = 8  # so many entries are inserted one by one; more are sorted in


class Queues:
    """The rankings of one scheduler, each made when first asked for.

    Every rack has two: its schedulable machines for ordinary SKUs and for extra-large ones. Every zone
    set has one of its racks; which of them are known to be full for a SKU is noted beside.
    """

    __slots__ = ("_full", "_machines", "_racks", "ledger", "repeated")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.repeated = False  # whether an item may stand twice in a ranking
        self._machines: dict[tuple[int, bool], list[int]] = {}
        self._racks: dict[frozenset[str] | None, tuple[list[int], frozenset[int]]] = {}
        self._full: dict[int, set[int]] = {}

    def machine_entry(self, machine: int, extra_large: bool) -> int:
        """Step 4 for a machine without VMs of the cluster: extra-large company first, then memory."""
        ledger = self.ledger
        key = ledger.memory[machine]
        if extra_large and not ledger.extra_large[machine]:
            key |= ALONE
        return key << INDEX_BITS | machine

    def rack_entry(self, rack: int) -> int:
        """Step 3 for a rack without VMs of the pool: VMs, then memory."""
        key = self.ledger.rack_vms[rack] << MEMORY_BITS | self.ledger.rack_memory[rack]
        return key << INDEX_BITS | rack

    def machines(self, rack: int, extra_large: bool) -> list[int]:
        """The ranking of a rack's machines, whether or not anything fits on them."""
        ranking = self._machines.get((rack, extra_large))
        if ranking is None:
            schedulable = self.ledger.site.schedulable_in[rack]
            ranking = sorted(self.machine_entry(machine, extra_large) for machine in schedulable)
            self._machines[rack, extra_large] = ranking
        return ranking

    def racks(self, zones: frozenset[str] | None) -> list[int]:
        """The ranking of the racks in the zones, full or not."""
        known = self._racks.get(zones)
        if known is None:
            racks = self.ledger.site.racks_in(zones)
            known = self._racks[zones] = sorted(map(self.rack_entry, racks)), frozenset(racks)
        return known[0]

    def full(self, shape: Shape) -> set[int]:
        """The racks that were found to have no room for the SKU, to be added to."""
        return self._full.setdefault(shape.number, set())

    def lowered(self, machine: int) -> None:
        """A VM left the machine: rank the machine and its rack anew; the rack may have room again."""
        ledger = self.ledger
        self.repeated = True
        rack = ledger.site.rack_of[machine]
        if not ledger.site.machines[machine].refusal:
            for extra_large in (False, True):
                ranking = self._machines.get((rack, extra_large))
                if ranking is not None:
                    insort(ranking, self.machine_entry(machine, extra_large))
        for ranking, racks in self._racks.values():
            if rack in racks:
                insort(ranking, self.rack_entry(rack))
        for full in self._full.values():
            full.discard(rack)

    def extra_large_arrived(self, machine: int, *, but: list[int] | None = None) -> None:
        """The first extra-large VM stands on the machine: extra-large SKUs now prefer it.

        `but` is the ranking of a session that looks after the machine itself.
        """
        site = self.ledger.site
        ranking = self._machines.get((site.rack_of[machine], True))
        if ranking is not None and ranking is not but and not site.machines[machine].refusal:
            self.repeated = True
            insort(ranking, self.machine_entry(machine, extra_large=True))


class Pool:
    """The pool that a session places: its SKU, and the counts of its cluster and of itself."""

    __slots__ = ("by_cluster", "cluster", "ledger", "pool", "queues", "shape")

    def __init__(self, queues: Queues, shape: Shape, cluster: Tally, pool: Tally, spread: RackSpread) -> None:
        self.queues = queues
        self.ledger = queues.ledger
        self.shape = shape
        self.cluster = cluster
        self.pool = pool
        self.by_cluster = spread is RackSpread.CLUSTER


class MachineFront:
    """One rack in a session: `front` are the machines that tie for the next VM (indices)."""

    __slots__ = ("_filled", "_key", "_of", "_own", "_skipped", "_start", "front", "shared")

    def __init__(self, of: Pool, rack: int) -> None:
        self._of = of
        self.shared = of.queues.machines(rack, of.shape.extra_large)
        self._start = 0  # entries of `shared` before this one are this session's until `give_back`
        self._key = 0
        self._own: list[int] = []
        self._skipped: list[int] = []  # entries of machines on which the SKU does not fit, ascending
        self._filled: list[int] = []  # machines on which it does not fit any more
        self.front: list[int] = []

    def offer(self, machine: int) -> None:
        """Rank a machine that holds VMs of the cluster: step 4 in full.

        Whether the SKU still fits is looked at when its turn comes.
        """
        of = self._of
        ledger, shape = of.ledger, of.shape
        key = of.cluster.machines.get(machine, 0) << COUNT_BITS | of.pool.machines.get(machine, 0)
        if shape.extra_large:
            alone = ledger.extra_large[machine] <= of.cluster.extra_large.get(machine, 0)
            key = key << 1 | alone
        heappush(self._own, (key << MEMORY_BITS | ledger.memory[machine]) << INDEX_BITS | machine)

    def refill(self) -> list[int]:
        """The machines that tie for the next VM; empty when none is left."""
        while self._start < len(self.shared) and not self.front:
            self._take_tied()
        rooms, steps = self._of.ledger.rooms, self._of.shape.steps
        while self._own and not self.front:
            self._key = OWN
            for machine in pop_tied(self._own):
                fits = steps[rooms[machine]] is not None
                (self.front if fits else self._filled).append(machine)
        return self.front

    def _take_tied(self) -> None:
        """Take the first group of equal keys; `front` gets those that are right, fit and are uncounted."""
        of, ranking, start = self._of, self.shared, self._start
        rooms, steps, memory = of.ledger.rooms, of.shape.steps, of.ledger.memory
        counted = of.cluster.machines
        key = self._key = ranking[start] >> INDEX_BITS
        self._start = upper_end(ranking, start)
        group = ranking[start : self._start]
        if of.shape.extra_large or of.queues.repeated:
            self._sift(dict.fromkeys(group))
            return
        self.front = [
            machine
            for entry in group
            if memory[machine := entry & INDEX_MASK] == key
            and machine not in counted
            and steps[rooms[machine]] is not None
        ]
        if len(self.front) < len(group):
            taken = set(self.front)
            self._sift(entry for entry in group if entry & INDEX_MASK not in taken)

    def _sift(self, group: Iterable[int]) -> None:
        """Look at each machine of the group for itself, adding to `front`.

        One whose key has risen is ranked anew, an entry above its machine's key is dropped.
        """
        of = self._of
        entry_of, extra_large = of.queues.machine_entry, of.shape.extra_large
        rooms, steps, counted = of.ledger.rooms, of.shape.steps, of.cluster.machines
        for entry in group:
            machine = entry & INDEX_MASK
            actual = entry_of(machine, extra_large)
            if actual > entry:
                insort(self.shared, actual, self._start)
            elif actual == entry:
                if steps[rooms[machine]] is None:
                    self._skipped.append(entry)
                elif machine in counted:
                    self.offer(machine)
                else:
                    self.front.append(machine)

    def give_back(self) -> None:
        """The session ends: its machines are ranked with the others again."""
        queues, extra_large = self._of.queues, self._of.shape.extra_large
        others = [entry & INDEX_MASK for entry in self._own]
        others += self._filled
        if self._key == OWN:
            others += self.front
            self.front = []
        put_back(
            self.shared,
            self._start,
            [*self._skipped, *[self._key << INDEX_BITS | machine for machine in self.front]],
            [queues.machine_entry(machine, extra_large) for machine in others],
        )


class RackFront:
    """The racks in a session: `front` are the racks that tie for the next VM (indices)."""

    __slots__ = ("_filled", "_full", "_key", "_of", "_own", "_skipped", "_start", "front", "shared")

    def __init__(self, of: Pool, zones: frozenset[str] | None) -> None:
        self._of = of
        self.shared = of.queues.racks(zones)
        self._start = 0  # as in MachineFront
        self._key = 0
        self._own: list[int] = []
        self._full = of.queues.full(of.shape)
        self._skipped: list[int] = []  # entries of racks known to be full for the SKU, ascending
        self._filled: list[int] = []  # racks that turned out to be full
        self.front: list[int] = []

    def refuse(self, rack: int) -> None:
        """The rack turned out to have no machine on which the SKU fits."""
        self._full.add(rack)
        self._filled.append(rack)

    def offer(self, rack: int) -> None:
        """Rank a rack that holds VMs of the pool (or of the cluster, when those are counted first)."""
        of = self._of
        key = of.pool.racks.get(rack, 0)
        if of.by_cluster:
            key |= of.cluster.racks.get(rack, 0) << COUNT_BITS
        ledger = of.ledger
        key = (key << COUNT_BITS | ledger.rack_vms[rack]) << MEMORY_BITS | ledger.rack_memory[rack]
        heappush(self._own, key << INDEX_BITS | rack)

    def refill(self) -> list[int]:
        """The racks that tie for the next VM; empty when none is left."""
        while self._start < len(self.shared) and not self.front:
            self._take_tied()
        if not self.front:
            self._key = OWN
            self.front = pop_tied(self._own)
        return self.front

    def _take_tied(self) -> None:
        of, ranking, start = self._of, self.shared, self._start
        counted = of.cluster.racks if of.by_cluster else of.pool.racks
        self._key = ranking[start] >> INDEX_BITS
        self._start = upper_end(ranking, start)
        entry_of, full, group = of.queues.rack_entry, self._full, ranking[start : self._start]
        for entry in dict.fromkeys(group) if of.queues.repeated else group:
            rack = entry & INDEX_MASK
            actual = entry_of(rack)
            if actual > entry:
                insort(ranking, actual, self._start)
            elif actual == entry and rack in full:
                self._skipped.append(entry)
            elif actual == entry and rack in counted:
                self.offer(rack)
            elif actual == entry:
                self.front.append(rack)

    def give_back(self) -> None:
        """The session ends: its racks are ranked with the others again."""
        others = [entry & INDEX_MASK for entry in self._own]
        others += self._filled
        if self._key == OWN:
            others += self.front
            self.front = []
        put_back(
            self.shared,
            self._start,
            [*self._skipped, *[self._key << INDEX_BITS | rack for rack in self.front]],
            [self._of.queues.rack_entry(rack) for rack in others],
        )


def upper_end(ranking: list[int], at: int) -> int:
    """Where the entries end that have the same key as the one at `at`."""
    return bisect_left(ranking, ((ranking[at] >> INDEX_BITS) + 1) << INDEX_BITS, at)


def put_back(ranking: list[int], start: int, front: list[int], others: list[int]) -> None:
    """Replace the first `start` entries by `front`, ascending and not above what follows, and `others`."""
    ranking[:start] = front
    if len(others) > FEW:
        ranking += others
        ranking.sort()
    else:
        for entry in others:
            insort(ranking, entry)


def pop_tied(heap: list[int]) -> list[int]:
    """Take every item with the lowest key out of the heap, each once."""
    tied: list[int] = []
    if heap:
        key = heap[0] >> INDEX_BITS
        last = -1
        while heap and heap[0] >> INDEX_BITS == key:
            item = heappop(heap) & INDEX_MASK
            if item != last:
                tied.append(item)
                last = item
    return tied
