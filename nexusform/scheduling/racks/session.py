"""The fast way to place the VMs of one pool, one after the other."""

from __future__ import annotations

from nexusform.scheduling.racks import opened
from nexusform.scheduling.racks.explanation import Shortage
from nexusform.scheduling.racks.layout import NO_COUNTS
from nexusform.scheduling.racks.ledger import pack
from nexusform.scheduling.racks.opened import OpenRules, Passes
from nexusform.scheduling.racks.queues import INDEX_MASK, Front, Passing, Queues
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.site import CELLS_BITS, Steps
from nexusform.scheduling.racks.vms import Demand, RackSpread

NOWHERE = -1


class PoolSession:
    """Places VMs of one pool with one SKU and one set of terms.

    Nothing else may happen to the ledger between its opening and `close`.
    """

    __slots__ = (
        "_base",
        "_everybodys",
        "_fronts",
        "_full",
        "_ledger",
        "_machine_key",
        "_machine_names",
        "_machines_counted",
        "_number",
        "_passing",
        "_queues",
        "_rack_names",
        "_racks",
        "_rooms",
        "_shape",
        "_start",
        "_steps",
        "_text",
        "_usage",
        "_vm",
        "shortage",
        "sku",
        "terms",
    )

    def __init__(self, queues: Queues, rules: OpenRules, spread: RackSpread, seed: int) -> None:
        demand, ledger = rules.demand, queues.ledger
        vm = demand.vm
        self._vm = vm
        self.sku, self.terms = demand.sku, demand.terms
        self.shortage: Shortage | None = None  # once a VM did not fit: why; no later one can
        self._queues = queues
        self._ledger = ledger
        self._shape = shape = ledger.site.shape(demand.sku)
        self._steps = shape.steps
        self._rooms = ledger.rooms
        self._base = pack(ledger.site.pool(vm), shape.number)
        self._start = self._text = tie_break.start(seed, vm)
        self._number: int | str | None = None  # whose text `_text` is
        self._rack_names = ledger.site.rack_names
        self._machine_names = ledger.site.machine_names
        self._usage = usage = rules.usage
        self._fronts: dict[int, Front] = {}
        self._everybodys = queues.everybodys(demand, spread)
        self._machine_key = rules.machine_keys.figure
        self._machines_counted = rules.machine_keys.counted(usage.cluster.machines, usage.pool.machines)
        chosen, of_racks, of_machines = opened.split(rules.filters)
        self._passing = _passing_machines(self._rooms, shape.steps, opened.passes_all(of_machines))
        # That a rack is full for a SKU holds for every demand, but not what its own filters refuse.
        full = queues.full(shape)
        self._full = full.copy() if of_machines else full
        self._racks = Front(
            queues.racks(self._everybodys, demand, chosen),
            rules.rack_keys.figure,
            rules.rack_keys.counted(usage.cluster.racks, usage.pool.racks),
            _passing_racks(self._full, opened.passes_all(of_racks)),
        )

    def takes(self, demand: Demand) -> bool:
        """Whether the demand is one more VM of this session's pool."""
        vm, session_vm = demand.vm, self._vm
        return (
            demand.sku is self.sku
            and (demand.terms is self.terms or demand.terms == self.terms)
            and demand.last_resort is None
            and vm.owner == session_vm.owner
            and vm.pool == session_vm.pool
            and vm.cluster == session_vm.cluster
        )

    def place(self, number: int | str) -> int:
        """Place the VM with this number. Gives its packed record, or NOWHERE."""
        racks, rooms = self._racks, self._rooms
        while True:
            tied = racks.front or racks.refill()
            if not tied:
                return NOWHERE
            at = self._lowest(number, self._rack_names, tied) if len(tied) > 1 else 0
            rack = tied.pop(at)
            machines = self._fronts.get(rack) or self._open(rack)
            tied = machines.front or machines.refill()
            if tied:
                break
            self._full.add(rack)
            racks.refuse(rack)
        # The rack's and the machine's keys change now, so both left their fronts and are ranked again.
        at = self._lowest(number, self._machine_names, tied) if len(tied) > 1 else 0
        machine = tied.pop(at)
        step = self._steps[rooms[machine]]
        assert step is not None
        rooms[machine] = step.room
        self._count(rack, machine)
        racks.offer(rack)
        machines.offer(machine)
        return self._base | machine << CELLS_BITS | step.cells

    def _lowest(self, number: int | str, names: list[bytes], tied: list[int]) -> int:
        """Which position in `tied` the tie-break chooses for the VM of this number."""
        if number != self._number:
            self._number = number
            self._text = self._start.copy()
            self._text.update(f"{number}|".encode())
        return tie_break.lowest(self._text, names, tied)

    def _open(self, rack: int) -> Front:
        """The front of a rack's machines, from now on part of the session."""
        ranking = self._queues.machines(self._everybodys, rack)
        # Where the rack has no VM of the cluster its machines have none.
        counted = self._machines_counted if self._usage.cluster.racks[rack] else NO_COUNTS
        front = self._fronts[rack] = Front(ranking, self._machine_key, counted, self._passing)
        return front

    def _count(self, rack: int, machine: int) -> None:
        """Count one more VM on a machine and its rack, as the rules read it."""
        ledger, shape, usage = self._ledger, self._shape, self._usage
        cluster, pool = usage.cluster, usage.pool
        ledger.memory[machine] += shape.memory
        ledger.rack_memory[rack] += shape.memory
        ledger.rack_vms[rack] += 1
        counts = cluster.machines
        counts[machine] = counts.get(machine, 0) + 1
        counts = cluster.racks
        counts[rack] = counts.get(rack, 0) + 1
        counts = pool.machines
        counts[machine] = counts.get(machine, 0) + 1
        counts = pool.racks
        counts[rack] = counts.get(rack, 0) + 1
        if shape.is_extra_large:
            ledger.extra_large[machine] += 1
            counts = cluster.extra_large
            counts[machine] = counts.get(machine, 0) + 1

    def close(self) -> None:
        """Give racks and machines back to everybody's rankings."""
        queues = self._queues
        queues.doubt_racks(self._racks.give_back(), but=self._racks.ranking)
        for rack, front in self._fronts.items():
            queues.doubt_machines(rack, front.give_back(), but=front.ranking)


def _passing_machines(rooms: list[int], steps: Steps, passes: Passes | None) -> Passing:
    """Those of some machines on which the SKU fits and that no other filter refuses."""
    if passes is None:
        return lambda entries: [
            machine for entry in entries if steps[rooms[machine := entry & INDEX_MASK]] is not None
        ]
    return lambda entries: [
        machine
        for entry in entries
        if steps[rooms[machine := entry & INDEX_MASK]] is not None and passes(machine)
    ]


def _passing_racks(full: set[int], passes: Passes | None) -> Passing:
    """Those of some racks that are not known to be full and that no filter refuses."""
    if passes is None:
        return lambda entries: [rack for entry in entries if (rack := entry & INDEX_MASK) not in full]
    return lambda entries: [
        rack for entry in entries if (rack := entry & INDEX_MASK) not in full and passes(rack)
    ]
