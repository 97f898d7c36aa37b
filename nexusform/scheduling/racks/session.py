"""Fast placement of the VMs of one pool, one after the other."""

from nexusform.scheduling.racks import demand_rules
from nexusform.scheduling.racks.candidate_rankings import (
    INDEX_MASK,
    CandidateQueue,
    CandidateQueues,
    Passing,
)
from nexusform.scheduling.racks.demand_rules import DemandRules, Passes
from nexusform.scheduling.racks.layout import NO_COUNTS
from nexusform.scheduling.racks.ledger import pack_placement_record
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.site import CELLS_BITS, CapacitySteps
from nexusform.scheduling.racks.vms import Demand, NoFitReason, RackSpread

NOWHERE = -1


class PoolPlacementSession:
    """Placement of VMs of one pool with one SKU and constraints.

    Nothing else changes the ledger until `close`.
    """

    def __init__(
        self,
        queues: CandidateQueues,
        rules: DemandRules,
        spread: RackSpread,
        seed: int,
        *,
        is_sample: bool = False,
        tied_machines: set[int] | None = None,
    ) -> None:
        """Open the session for a demand.

        `tied_machines` collects the machines tied for any of its VMs, if given.
        """
        demand = rules.demand
        ledger = queues.ledger
        vm = demand.vm
        self._vm = vm
        self.sku = demand.sku
        self.constraints = demand.constraints
        self.tied_machines = tied_machines
        # Reason why a VM did not fit; no later one can.
        self.shortage: NoFitReason | None = None
        self._queues = queues
        self._ledger = ledger
        self._shape = shape = ledger.site.get_shape(demand.sku)
        # Chosen cells and remaining capacity, by capacity number.
        self._steps = shape.steps
        self._capacities = ledger.capacities
        # Equal bits of all its records.
        self._base = pack_placement_record(ledger.site.add_pool(vm), shape.number)
        # `_text` becomes the digest of a VM.
        self._start = self._text = tie_break.start_pool_digest(seed, vm)
        # The VM number of `_text`.
        self._number: int | str | None = None
        self._is_sample = is_sample
        # The numbers drawn for that VM: for racks and for machines.
        self._rack_number = self._machine_number = 0
        self._encoded_rack_names = ledger.site.encoded_rack_names
        self._encoded_machine_names = ledger.site.encoded_machine_names
        self._usage = usage = rules.usage
        self._machine_queues: dict[int, CandidateQueue] = {}  # by rack
        self._neutral_keys = queues.get_neutral_keys(demand, spread)
        self._machine_key = rules.machine_keys.figure
        self._machines_counted = rules.machine_keys.select_counts(
            usage.cluster.machines, usage.pool.machines
        )
        rack_selections, rack_checks, machine_checks = demand_rules.split_filters(rules.filters)
        self._passing = _build_machine_selection(
            self._capacities, shape.steps, demand_rules.build_combined_check(machine_checks)
        )
        # Full racks of a SKU are the same for every demand, but not the rejections of
        # its own filters.
        full_racks = queues.full_racks[shape.number]
        self._full_racks = full_racks.copy() if machine_checks else full_racks
        self._rack_queue = CandidateQueue(
            queues.rank_racks(self._neutral_keys, demand, rack_selections),
            rules.rack_keys.figure,
            rules.rack_keys.select_counts(usage.cluster.racks, usage.pool.racks),
            _build_rack_selection(self._full_racks, demand_rules.build_combined_check(rack_checks)),
        )

    def is_for_session(self, demand: Demand) -> bool:
        """Check whether the demand is one more VM of this session's pool."""
        vm = demand.vm
        session_vm = self._vm
        return (
            # Usually identical.
            (demand.sku is self.sku or demand.sku == self.sku)
            and (demand.constraints is self.constraints or demand.constraints == self.constraints)
            # A session ranks all machines alike.
            and demand.last_resort is None
            and vm.owner == session_vm.owner
            and vm.pool == session_vm.pool
            and vm.cluster == session_vm.cluster
        )

    def place(self, number: int | str) -> int:
        """Place and count a VM.

        Return its pool, SKU, machine and cells packed in one number, NOWHERE if none fits.
        """
        racks = self._rack_queue
        capacities = self._capacities
        while True:
            # The front: items known to tie for the next VM.
            tied_racks = racks.front or racks.list_tied_items()
            if not tied_racks:
                return NOWHERE
            index = self._select_rack(number, tied_racks) if len(tied_racks) > 1 else 0
            rack = tied_racks.pop(index)
            machines = self._machine_queues.get(rack) or self._open_queue(rack)
            tied_machines = machines.front or machines.list_tied_items()
            if tied_machines:
                break
            # None of its machines fits the VM, nor any later one.
            self._full_racks.add(rack)
            racks.reject(rack)
        if self.tied_machines is not None:
            self.tied_machines.update(tied_machines)
        # The keys of the rack and the machine change now, so both left their fronts and
        # are ranked again.
        index = self._select_machine(number, tied_machines) if len(tied_machines) > 1 else 0
        machine = tied_machines.pop(index)
        step = self._steps[capacities[machine]]
        assert step is not None
        capacities[machine] = step.capacity
        self._count(rack, machine)
        racks.push(rack)
        machines.push(machine)
        # `_base` has the pool and the SKU in the bits above the machine and its cells.
        return self._base | machine << CELLS_BITS | step.cells

    def _select_rack(self, number: int | str, tied: list[int]) -> int:
        """Return the position in `tied` of the chosen rack.

        `number` is the VM's number, or its for_each key.
        """
        if number != self._number:
            # It sets `_text` and, in a sample, the drawn numbers.
            self._start_tie_break_for_vm(number)
        # A repetition of the plan with other ties: a number drawn for the VM decides.
        if self._is_sample:
            return self._rack_number % len(tied)
        return tie_break.find_lowest_digest(self._text, self._encoded_rack_names, tied)

    def _select_machine(self, number: int | str, tied: list[int]) -> int:
        """Return the position in `tied` of the chosen machine.

        `number` is the VM's number, or its for_each key.
        """
        if number != self._number:
            # It sets `_text` and, in a sample, the drawn numbers.
            self._start_tie_break_for_vm(number)
        # A repetition of the plan with other ties: a number drawn for the VM decides.
        if self._is_sample:
            return self._machine_number % len(tied)
        return tie_break.find_lowest_digest(self._text, self._encoded_machine_names, tied)

    def _start_tie_break_for_vm(self, number: int | str) -> None:
        """Set the text of the VM that decides ties, and in a sample the numbers drawn for it."""
        self._number = number
        self._text = self._start.copy()
        self._text.update(f"{number}|".encode())
        if self._is_sample:
            self._rack_number, self._machine_number = tie_break.draw_sample_numbers(self._text)

    def _open_queue(self, rack: int) -> CandidateQueue:
        """Open the queue of a rack's machines for the rest of the session."""
        ranking = self._queues.rank_machines(self._neutral_keys, rack)
        # Without VMs of the cluster on the rack, all its machines have neutral keys: those of a
        # cluster without VMs.
        counted = self._machines_counted if self._usage.cluster.racks[rack] else NO_COUNTS
        queue = self._machine_queues[rack] = CandidateQueue(
            ranking, self._machine_key, counted, self._passing
        )
        return queue

    def _count(self, rack: int, machine: int) -> None:
        """Count one more VM of the session on a machine and its rack.

        Filters and rankings read these counts.
        """
        ledger = self._ledger
        shape = self._shape
        usage = self._usage
        cluster = usage.cluster
        pool = usage.pool
        ledger.memory[machine] += shape.memory
        ledger.rack_memory[rack] += shape.memory
        ledger.rack_vms[rack] += 1
        cluster.machines[machine] += 1
        cluster.racks[rack] += 1
        pool.machines[machine] += 1
        pool.racks[rack] += 1
        if shape.is_extra_large:
            ledger.extra_large[machine] += 1
            cluster.extra_large[machine] += 1

    def close(self) -> None:
        """Return racks and machines to the shared rankings.

        Those with new VMs are ranked again there.
        """
        # `release_items` ranks the items in the ranking of their own queue.
        queues = self._queues
        queues.invalidate_racks(
            self._rack_queue.release_items(), up_to_date=self._rack_queue.ranking
        )
        for rack, queue in self._machine_queues.items():
            queues.invalidate_machines(rack, queue.release_items(), up_to_date=queue.ranking)


def _build_machine_selection(
    capacities: list[int], steps: CapacitySteps, passes: Passes | None
) -> Passing:
    """Build a function to select machines from sorted entries.

    One more VM fits on them, and they pass the filters. An entry has the machine number in its
    lowest bits (INDEX_MASK), below its sort key. `capacities` has the capacity number of each
    machine, and `steps` the effect of one more VM on a capacity, None if it does not fit.
    """
    if passes is None:
        return lambda entries: [
            machine
            for entry in entries
            if steps[capacities[machine := entry & INDEX_MASK]] is not None
        ]
    return lambda entries: [
        machine
        for entry in entries
        if steps[capacities[machine := entry & INDEX_MASK]] is not None and passes(machine)
    ]


def _build_rack_selection(full_racks: set[int], passes: Passes | None) -> Passing:
    """Build a function to select racks from sorted entries.

    They are not known to be full, and they pass the filters. An entry has the rack number in its
    lowest bits (INDEX_MASK), below its sort key.
    """
    if passes is None:
        return lambda entries: [
            rack for entry in entries if (rack := entry & INDEX_MASK) not in full_racks
        ]
    return lambda entries: [
        rack for entry in entries if (rack := entry & INDEX_MASK) not in full_racks and passes(rack)
    ]
