"""Lazily corrected heaps: the least used machines of a rack, the least used racks of a site.

A heap holds whole numbers `key << INDEX_BITS | item`, where a lower key is preferred. Keys rise
when VMs arrive, and an entry whose key has risen is corrected when it comes to the top. A key that
falls (a VM left; the first extra-large VM arrived) is pushed anew at once; the old entry, too high
by then, is dropped when it comes up. So the top, once corrected, is always the true lowest.

While one pool is being placed (a session), racks and machines that hold VMs of it wait in a heap of
the session's own, under their full key, which nobody else changes meanwhile.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from nexusform.scheduling.racks.ledger import Counts, Ledger, Tally
from nexusform.scheduling.racks.model import RackSpread
from nexusform.scheduling.racks.site import Shape

INDEX_BITS = 28
INDEX_MASK = (1 << INDEX_BITS) - 1
MEMORY_BITS = 48
COUNT_BITS = 32


class Queues:
    """The heaps of one scheduler: machines by (rack, SKU), racks by (SKU, zones); made when asked for."""

    __slots__ = ("_machines", "_of_rack", "_racks", "ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._machines: dict[tuple[int, int], list[int]] = {}
        self._of_rack: dict[int, list[tuple[Shape, list[int]]]] = {}
        self._racks: dict[tuple[int, frozenset[str] | None], tuple[list[int], frozenset[int]]] = {}

    def machine_key(self, machine: int, shape: Shape) -> int:
        """Step 4 for a machine without VMs of the cluster: extra-large company first, then memory."""
        ledger = self.ledger
        if shape.extra_large and not ledger.extra_large[machine]:
            return 1 << MEMORY_BITS | ledger.memory[machine]
        return ledger.memory[machine]

    def rack_key(self, rack: int) -> int:
        """Step 3 for a rack without VMs of the pool: VMs, then memory."""
        return self.ledger.rack_vms[rack] << MEMORY_BITS | self.ledger.rack_memory[rack]

    def machines(self, rack: int, shape: Shape) -> list[int]:
        """The heap of the rack's schedulable machines on which the SKU fits."""
        heap = self._machines.get((rack, shape.number))
        if heap is None:
            rooms, steps, key = self.ledger.rooms, shape.steps, self.machine_key
            heap = [
                key(machine, shape) << INDEX_BITS | machine
                for machine in self.ledger.site.schedulable_in[rack]
                if steps[rooms[machine]] is not None
            ]
            heapify(heap)
            self._machines[rack, shape.number] = heap
            self._of_rack.setdefault(rack, []).append((shape, heap))
        return heap

    def racks(self, shape: Shape, zones: frozenset[str] | None) -> list[int]:
        """The heap of the racks in the zones; racks found full for the SKU leave it."""
        known = self._racks.get((shape.number, zones))
        if known is None:
            racks = self.ledger.site.racks_in(zones)
            heap = [self.rack_key(rack) << INDEX_BITS | rack for rack in racks]
            heapify(heap)
            known = self._racks[shape.number, zones] = heap, frozenset(racks)
        return known[0]

    def lowered(self, machine: int) -> None:
        """A VM left the machine: offer the machine and its rack again wherever they are ranked."""
        ledger = self.ledger
        rack = ledger.site.rack_of[machine]
        if not ledger.site.machines[machine].refusal:
            for shape, heap in self._of_rack.get(rack, ()):
                if shape.steps[ledger.rooms[machine]] is not None:
                    heappush(heap, self.machine_key(machine, shape) << INDEX_BITS | machine)
        for heap, racks in self._racks.values():
            if rack in racks:
                heappush(heap, self.rack_key(rack) << INDEX_BITS | rack)

    def extra_large_arrived(self, machine: int, *, but: list[int] | None = None) -> None:
        """The first extra-large VM stands on the machine: extra-large SKUs now prefer it.

        `but` is the heap of the session that holds the machine itself.
        """
        ledger = self.ledger
        rack = ledger.site.rack_of[machine]
        if ledger.site.machines[machine].refusal:
            return
        for shape, heap in self._of_rack.get(rack, ()):
            if shape.extra_large and heap is not but and shape.steps[ledger.rooms[machine]] is not None:
                heappush(heap, ledger.memory[machine] << INDEX_BITS | machine)


class MachineFront:
    """One rack in a session: `front` are the machines that tie for the next VM (indices)."""

    __slots__ = ("_cluster", "_owner_xl", "_pool", "_queues", "_shape", "_tied_key", "front", "own", "shared")

    def __init__(self, queues: Queues, rack: int, shape: Shape, cluster: Tally, pool: Tally) -> None:
        self._queues = queues
        self._shape = shape
        self._cluster = cluster.machines
        self._owner_xl = cluster.extra_large
        self._pool = pool.machines
        self._tied_key = 0
        self.shared = queues.machines(rack, shape)
        self.own: list[int] = []
        self.front: list[int] = []

    def offer(self, machine: int) -> None:
        """Rank a machine that holds VMs of the cluster: step 4 in full."""
        ledger = self._queues.ledger
        if self._shape.steps[ledger.rooms[machine]] is None:
            return
        key = self._cluster.get(machine, 0) << COUNT_BITS | self._pool.get(machine, 0)
        if self._shape.extra_large:
            alone = ledger.extra_large[machine] <= self._owner_xl.get(machine, 0)
            key = key << 1 | alone
        heappush(self.own, (key << MEMORY_BITS | ledger.memory[machine]) << INDEX_BITS | machine)

    def refill(self) -> list[int]:
        """The machines that tie for the next VM; empty when none is left."""
        if self.shared:
            self._from_shared()
        if not self.front:
            self.front = pop_tied(self.own)
        return self.front

    def _from_shared(self) -> None:
        heap, ledger, shape = self.shared, self._queues.ledger, self._shape
        rooms, steps, counted = ledger.rooms, shape.steps, self._cluster
        front = self.front
        while heap and not front:
            key = heap[0] >> INDEX_BITS
            last = -1
            while heap and heap[0] >> INDEX_BITS == key:
                machine = heappop(heap) & INDEX_MASK
                if machine == last or steps[rooms[machine]] is None:
                    continue
                last = machine
                actual = self._queues.machine_key(machine, shape)
                if actual > key:
                    heappush(heap, actual << INDEX_BITS | machine)
                elif actual == key:
                    if machine in counted:
                        self.offer(machine)
                    else:
                        front.append(machine)

    def give_back(self) -> None:
        """The session ends: everything that still fits is ranked with the others again."""
        queues, shape, heap = self._queues, self._shape, self.shared
        rooms, steps = queues.ledger.rooms, shape.steps
        for machine in [*self.front, *(entry & INDEX_MASK for entry in self.own)]:
            if steps[rooms[machine]] is not None:
                heappush(heap, queues.machine_key(machine, shape) << INDEX_BITS | machine)


class RackFront:
    """The racks in a session: `front` are the racks that tie for the next VM (indices)."""

    __slots__ = ("_by_cluster", "_cluster", "_pool", "_queues", "front", "own", "shared")

    def __init__(
        self, queues: Queues, shared: list[int], spread: RackSpread, cluster: Tally, pool: Tally
    ) -> None:
        self._queues = queues
        self._by_cluster = spread is RackSpread.CLUSTER
        self._cluster = cluster.racks
        self._pool = pool.racks
        self.shared = shared
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
        if self.shared:
            self._from_shared()
        if not self.front:
            self.front = pop_tied(self.own)
        return self.front

    def _from_shared(self) -> None:
        heap, front = self.shared, self.front
        counted: Counts = self._cluster if self._by_cluster else self._pool
        while heap and not front:
            key = heap[0] >> INDEX_BITS
            last = -1
            while heap and heap[0] >> INDEX_BITS == key:
                rack = heappop(heap) & INDEX_MASK
                if rack == last:
                    continue
                last = rack
                actual = self._queues.rack_key(rack)
                if actual > key:
                    heappush(heap, actual << INDEX_BITS | rack)
                elif actual == key:
                    if rack in counted:
                        self.offer(rack)
                    else:
                        front.append(rack)

    def give_back(self) -> None:
        """The session ends: racks that were not found full are ranked with the others again."""
        for rack in [*self.front, *(entry & INDEX_MASK for entry in self.own)]:
            heappush(self.shared, self._queues.rack_key(rack) << INDEX_BITS | rack)


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
