"""The fast way to place the VMs of one pool, one after the other."""

from __future__ import annotations

from nexusform.scheduling.racks.ledger import pack
from nexusform.scheduling.racks.model import Demand, RackSpread
from nexusform.scheduling.racks.queues import MachineFront, Queues, RackFront
from nexusform.scheduling.racks.rules.tie_break import lowest
from nexusform.scheduling.racks.shortage import Shortage
from nexusform.scheduling.racks.site import CELLS_BITS

NOWHERE = -1


class Session:
    """Places VMs of one pool, SKU and zone set, without hints.

    Nothing else may happen to the ledger between its opening and `close`.
    """

    __slots__ = (
        "_base",
        "_cluster",
        "_fronts",
        "_ledger",
        "_machine_names",
        "_pool",
        "_prefix",
        "_queues",
        "_rack_names",
        "_racks",
        "_rooms",
        "_shape",
        "_steps",
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
        self._queues = queues
        self._ledger = ledger
        self._shape = ledger.site.shape(demand.sku)
        self._steps = self._shape.steps
        self._rooms = ledger.rooms
        self._cluster = ledger.cluster(vm.owner)
        self._pool = ledger.pool(vm.owner, vm.pool)
        self._base = pack(ledger.site.pool(vm), self._shape.number)
        self._prefix = f"{seed}|{vm.cluster}|{vm.pool}|"
        self._rack_names = ledger.site.rack_names
        self._machine_names = ledger.site.machine_names
        shared = queues.racks(self._shape, demand.zones)
        self._racks = RackFront(queues, shared, spread, self._cluster, self._pool)
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
        racks = self._racks
        while True:
            rack_front = racks.front or racks.refill()
            if not rack_front:
                return NOWHERE
            at = 0
            if len(rack_front) > 1:
                at = lowest(f"{self._prefix}{number}|".encode(), self._rack_names, rack_front)
            rack = rack_front[at]
            machines = self._fronts.get(rack) or self._open(rack)
            front = machines.front or machines.refill()
            # Out of the front either way: its key is about to rise, or the rack is full for this SKU.
            rack_front[at] = rack_front[-1]
            rack_front.pop()
            if front:
                break
        at = 0
        if len(front) > 1:
            at = lowest(f"{self._prefix}{number}|".encode(), self._machine_names, front)
        machine = front[at]
        front[at] = front[-1]
        front.pop()
        step = self._steps[self._rooms[machine]]
        assert step is not None
        self._rooms[machine] = step.room
        self._count(rack, machine, machines)
        racks.offer(rack)
        machines.offer(machine)
        return self._base | machine << CELLS_BITS | step.cells

    def _open(self, rack: int) -> MachineFront:
        front = self._fronts[rack] = MachineFront(self._queues, rack, self._shape, self._cluster, self._pool)
        return front

    def _count(self, rack: int, machine: int, front: MachineFront) -> None:
        ledger, memory = self._ledger, self._shape.memory
        ledger.memory[machine] += memory
        ledger.rack_memory[rack] += memory
        ledger.rack_vms[rack] += 1
        counts = self._cluster.machines
        counts[machine] = counts.get(machine, 0) + 1
        counts = self._cluster.racks
        counts[rack] = counts.get(rack, 0) + 1
        counts = self._pool.machines
        counts[machine] = counts.get(machine, 0) + 1
        counts = self._pool.racks
        counts[rack] = counts.get(rack, 0) + 1
        if self._shape.extra_large:
            ledger.extra_large[machine] += 1
            counts = self._cluster.extra_large
            counts[machine] = counts.get(machine, 0) + 1
            if ledger.extra_large[machine] == 1:
                self._queues.extra_large_arrived(machine, but=front.shared)

    def close(self) -> None:
        """Give racks and machines back to the shared ranking."""
        self._racks.give_back()
        for front in self._fronts.values():
            front.give_back()
