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
from heapq import heappop, heappush

from nexusform.scheduling.racks.ledger import Counts, Ledger, Tally
from nexusform.scheduling.racks.model import RackSpread
from nexusform.scheduling.racks.site import Shape

INDEX_BITS = 28
INDEX_MASK = (1 << INDEX_BITS) - 1
MEMORY_BITS = 48
COUNT_BITS = 32
ALONE = 1 << MEMORY_BITS


class Queues:
    """The rankings of one scheduler: machines by (rack, SKU), racks by (SKU, zones).

    Each is made when first asked for. `machines` ranks schedulable machines on which the SKU fits;
    `racks` ranks the racks of the zones, and those found full for the SKU leave it.
    """

    __slots__ = ("_machines", "_of_rack", "_racks", "ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._machines: dict[tuple[int, int], list[int]] = {}
        self._of_rack: dict[int, list[tuple[Shape, list[int]]]] = {}
        self._racks: dict[tuple[int, frozenset[str] | None], tuple[list[int], frozenset[int]]] = {}

    def machine_entry(self, machine: int, shape: Shape) -> int:
        """Step 4 for a machine without VMs of the cluster: extra-large company first, then memory."""
        ledger = self.ledger
        key = ledger.memory[machine]
        if shape.extra_large and not ledger.extra_large[machine]:
            key |= ALONE
        return key << INDEX_BITS | machine

    def rack_entry(self, rack: int) -> int:
        """Step 3 for a rack without VMs of the pool: VMs, then memory."""
        key = self.ledger.rack_vms[rack] << MEMORY_BITS | self.ledger.rack_memory[rack]
        return key << INDEX_BITS | rack

    def machines(self, rack: int, shape: Shape) -> list[int]:
        """The ranking of a rack's machines."""
        ranking = self._machines.get((rack, shape.number))
        if ranking is None:
            rooms, steps, entry = self.ledger.rooms, shape.steps, self.machine_entry
            ranking = sorted(
                entry(machine, shape)
                for machine in self.ledger.site.schedulable_in[rack]
                if steps[rooms[machine]] is not None
            )
            self._machines[rack, shape.number] = ranking
            self._of_rack.setdefault(rack, []).append((shape, ranking))
        return ranking

    def racks(self, shape: Shape, zones: frozenset[str] | None) -> list[int]:
        """The ranking of the racks in the zones."""
        known = self._racks.get((shape.number, zones))
        if known is None:
            racks = self.ledger.site.racks_in(zones)
            known = sorted(map(self.rack_entry, racks)), frozenset(racks)
            self._racks[shape.number, zones] = known
        return known[0]

    def lowered(self, machine: int) -> None:
        """A VM left the machine: rank the machine and its rack anew wherever they are ranked."""
        ledger = self.ledger
        rack = ledger.site.rack_of[machine]
        if not ledger.site.machines[machine].refusal:
            for shape, ranking in self._of_rack.get(rack, ()):
                if shape.steps[ledger.rooms[machine]] is not None:
                    insort(ranking, self.machine_entry(machine, shape))
        for ranking, racks in self._racks.values():
            if rack in racks:
                insort(ranking, self.rack_entry(rack))

    def extra_large_arrived(self, machine: int, *, but: list[int] | None = None) -> None:
        """The first extra-large VM stands on the machine: extra-large SKUs now prefer it.

        `but` is the ranking of a session that looks after the machine itself.
        """
        ledger = self.ledger
        if ledger.site.machines[machine].refusal:
            return
        for shape, ranking in self._of_rack.get(ledger.site.rack_of[machine], ()):
            if shape.extra_large and ranking is not but and shape.steps[ledger.rooms[machine]] is not None:
                insort(ranking, self.machine_entry(machine, shape))


class MachineFront:
    """One rack in a session: `front` are the machines that tie for the next VM (indices)."""

    __slots__ = (
        "_cluster",
        "_ledger",
        "_owner_xl",
        "_pool",
        "_queues",
        "_shape",
        "_start",
        "front",
        "own",
        "shared",
    )

    def __init__(self, queues: Queues, rack: int, shape: Shape, cluster: Tally, pool: Tally) -> None:
        self._queues = queues
        self._ledger = queues.ledger
        self._shape = shape
        self._cluster = cluster.machines
        self._owner_xl = cluster.extra_large
        self._pool = pool.machines
        self.shared = queues.machines(rack, shape)
        self._start = 0  # entries of `shared` before this one are this session's until `give_back`
        self.own: list[int] = []
        self.front: list[int] = []

    def offer(self, machine: int) -> None:
        """Rank a machine that holds VMs of the cluster, if the SKU still fits: step 4 in full."""
        ledger, shape = self._ledger, self._shape
        if shape.steps[ledger.rooms[machine]] is None:
            return
        key = self._cluster.get(machine, 0) << COUNT_BITS | self._pool.get(machine, 0)
        if shape.extra_large:
            alone = ledger.extra_large[machine] <= self._owner_xl.get(machine, 0)
            key = key << 1 | alone
        heappush(self.own, (key << MEMORY_BITS | ledger.memory[machine]) << INDEX_BITS | machine)

    def refill(self) -> list[int]:
        """The machines that tie for the next VM; empty when none is left."""
        while self._start < len(self.shared) and not self.front:
            self._take_tied()
        if not self.front:
            self.front = pop_tied(self.own)
        return self.front

    def _take_tied(self) -> None:
        """Take the first group of equal entries; into `front` go those that are right and uncounted."""
        ranking, at, ledger, shape = self.shared, self._start, self._ledger, self._shape
        rooms, steps, memory, counted = ledger.rooms, shape.steps, ledger.memory, self._cluster
        company = ledger.extra_large if shape.extra_large else None
        key, last = ranking[at] >> INDEX_BITS, -1
        for entry in ranking[at : upper_end(ranking, at)]:
            machine = entry & INDEX_MASK
            if machine == last or steps[rooms[machine]] is None:
                continue
            last = machine
            actual = memory[machine]
            if company is not None and not company[machine]:
                actual |= ALONE
            if actual != key:
                if actual > key:
                    insort(ranking, actual << INDEX_BITS | machine, at)
            elif machine in counted:
                self.offer(machine)
            else:
                self.front.append(machine)
        self._start = upper_end(ranking, at)

    def give_back(self) -> None:
        """The session ends: everything that still fits is ranked with the others again."""
        entry, shape = self._queues.machine_entry, self._shape
        rooms, steps = self._ledger.rooms, shape.steps
        back = [*self.front, *[entry & INDEX_MASK for entry in self.own]]
        put_back(
            self.shared,
            self._start,
            [entry(machine, shape) for machine in back if steps[rooms[machine]] is not None],
        )


class RackFront:
    """The racks in a session: `front` are the racks that tie for the next VM (indices)."""

    __slots__ = ("_by_cluster", "_cluster", "_pool", "_queues", "_start", "front", "own", "shared")

    def __init__(
        self, queues: Queues, shared: list[int], spread: RackSpread, cluster: Tally, pool: Tally
    ) -> None:
        self._queues = queues
        self._by_cluster = spread is RackSpread.CLUSTER
        self._cluster = cluster.racks
        self._pool = pool.racks
        self.shared = shared
        self._start = 0  # as in MachineFront
        self.own: list[int] = []
        self.front: list[int] = []

    def offer(self, rack: int) -> None:
        """Rank a rack that holds VMs of the pool (or of the cluster, when those are counted first)."""
        key = self._pool.get(rack, 0)
        if self._by_cluster:
            key |= self._cluster.get(rack, 0) << COUNT_BITS
        ledger = self._queues.ledger
        key = (key << COUNT_BITS | ledger.rack_vms[rack]) << MEMORY_BITS | ledger.rack_memory[rack]
        heappush(self.own, key << INDEX_BITS | rack)

    def refill(self) -> list[int]:
        """The racks that tie for the next VM; empty when none is left."""
        while self._start < len(self.shared) and not self.front:
            self._take_tied()
        if not self.front:
            self.front = pop_tied(self.own)
        return self.front

    def _take_tied(self) -> None:
        ranking, at, queues = self.shared, self._start, self._queues
        counted: Counts = self._cluster if self._by_cluster else self._pool
        last = -1
        for entry in ranking[at : upper_end(ranking, at)]:
            rack = entry & INDEX_MASK
            if rack == last:
                continue
            last = rack
            actual = queues.rack_entry(rack)
            if actual != entry:
                if actual > entry:
                    insort(ranking, actual, at)
            elif rack in counted:
                self.offer(rack)
            else:
                self.front.append(rack)
        self._start = upper_end(ranking, at)

    def give_back(self) -> None:
        """The session ends: racks that were not found full are ranked with the others again."""
        back = [*self.front, *[entry & INDEX_MASK for entry in self.own]]
        put_back(self.shared, self._start, [self._queues.rack_entry(rack) for rack in back])


def upper_end(ranking: list[int], at: int) -> int:
    """Where the entries end that have the same key as the one at `at`."""
    return bisect_left(ranking, ((ranking[at] >> INDEX_BITS) + 1) << INDEX_BITS, at)


def put_back(ranking: list[int], start: int, entries: list[int]) -> None:
    """Replace the first `start` entries by others."""
    ranking[:start] = entries
    ranking.sort()


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
