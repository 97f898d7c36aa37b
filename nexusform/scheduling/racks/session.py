"""The fast way to place the VMs of one pool, one after the other."""

from __future__ import annotations

from nexusform.scheduling.racks.ledger import pack
from nexusform.scheduling.racks.model import Demand, RackSpread
from nexusform.scheduling.racks.queues import MachineFront, Pool, Queues, RackFront
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.shortage import Shortage
from nexusform.scheduling.racks.site import CELLS_BITS

NOWHERE = -1


class Session:
    """Places VMs of one pool, SKU and zone set, without hints.

    Nothing else may happen to the ledger between its opening and `close`.
    """

    __slots__ = (
        "_base",
        "_fronts",
        "_ledger",
        "_machine_names",
        "_number",
        "_of",
        "_rack_names",
        "_racks",
        "_rooms",
        "_start",
        "_steps",
        "_text",
        "cluster_name",
        "owner",
        "pool_name",
        "shortage",
        "sku",
        "zones",
    )

    def __init__(self, queues: Queues, demand: Demand, spread: RackSpread, seed: int) -> None:
        vm, ledger = demand.vm, queues.ledger
        self.owner, self.cluster_name, self.pool_name = vm.owner, vm.cluster, vm.pool
        self.sku, self.zones = demand.sku, demand.zones
        self.shortage: Shortage | None = None  # once a VM did not fit: why; no later one can
        shape = ledger.site.shape(demand.sku)
        self._ledger = ledger
        self._steps = shape.steps
        self._rooms = ledger.rooms
        self._base = pack(ledger.site.pool(vm), shape.number)
        self._start = self._text = tie_break.start(seed, vm)
        self._number: int | str | None = None  # whose text `_text` is
        self._rack_names = ledger.site.rack_names
        self._machine_names = ledger.site.machine_names
        self._of = Pool(queues, shape, ledger.cluster(vm.owner), ledger.pool(vm.owner, vm.pool), spread)
        self._racks = RackFront(self._of, demand.zones)
        self._fronts: dict[int, MachineFront] = {}

    def takes(self, demand: Demand) -> bool:
        """Whether the demand is one more VM of this session's pool."""
        vm = demand.vm
        return (
            demand.sku is self.sku
            and vm.owner == self.owner
            and vm.pool == self.pool_name
            and vm.cluster == self.cluster_name
            and demand.zones == self.zones
        )

    def place(self, number: int | str) -> int:
        """Steps 1 to 5 for the VM with this number. Gives its packed record, or NOWHERE."""
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
            racks.refuse(rack)
        # The rack's and the machine's keys rise now, so both left their fronts and are ranked again.
        at = self._lowest(number, self._machine_names, tied) if len(tied) > 1 else 0
        machine = tied.pop(at)
        step = self._steps[rooms[machine]]
        assert step is not None
        rooms[machine] = step.room
        self._count(rack, machine, machines)
        racks.offer(rack)
        machines.offer(machine)
        return self._base | machine << CELLS_BITS | step.cells

    def _lowest(self, number: int | str, names: list[bytes], tied: list[int]) -> int:
        if number != self._number:
            self._number = number
            self._text = self._start.copy()
            self._text.update(f"{number}|".encode())
        return tie_break.lowest(self._text, names, tied)

    def _open(self, rack: int) -> MachineFront:
        front = self._fronts[rack] = MachineFront(self._of, rack)
        return front

    def _count(self, rack: int, machine: int, front: MachineFront) -> None:
        ledger, of = self._ledger, self._of
        cluster, pool, shape = of.cluster, of.pool, of.shape
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
        if shape.extra_large:
            ledger.extra_large[machine] += 1
            counts = cluster.extra_large
            counts[machine] = counts.get(machine, 0) + 1
            if ledger.extra_large[machine] == 1:
                of.queues.extra_large_arrived(machine, but=front.shared)

    def close(self) -> None:
        """Give racks and machines back to the shared ranking."""
        self._racks.give_back()
        for front in self._fronts.values():
            front.give_back()
