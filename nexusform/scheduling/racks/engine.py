"""The rack scheduler: who is where on one site, and where the next VM goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from nexusform.scheduling.racks import opened
from nexusform.scheduling.racks.explanation import (
    Explanation,
    Shortage,
    explain,
    find_shortage,
    first_refusal,
)
from nexusform.scheduling.racks.layout import Counts
from nexusform.scheduling.racks.ledger import Ledger, Record
from nexusform.scheduling.racks.queues import Queues
from nexusform.scheduling.racks.rooms import Share
from nexusform.scheduling.racks.rule import CountFilter, Item
from nexusform.scheduling.racks.session import NOWHERE, Session
from nexusform.scheduling.racks.site import CELLS_BITS, CELLS_MASK, MACHINE_MASK, Site, Steps, ranked_cells
from nexusform.scheduling.racks.vms import (
    DEFAULT_SEED,
    Demand,
    Machine,
    Placement,
    RackSpread,
    StandingVm,
    VmName,
    VmSku,
)


class RackScheduler:
    """Places VMs on the machines of one site, one at a time, by the rule of racks/profile.py.

    Machine names are unique. Handles are numbers, given out in the order in which VMs come; a copy
    knows the handles of its original. Two schedulers that got the same calls give the same answers.
    """

    __slots__ = ("_ledger", "_queues", "_session", "_site", "seed", "spread")

    def __init__(
        self,
        machines: Sequence[Machine],
        spread: RackSpread = RackSpread.POOL,
        seed: int = DEFAULT_SEED,
        *,
        ledger: Ledger | None = None,
    ) -> None:
        self.spread = spread
        self.seed = seed
        # A copy brings its ledger, and with it the site.
        self._ledger = Ledger(Site(machines)) if ledger is None else ledger
        self._site = self._ledger.site
        self._queues = Queues(self._ledger)
        self._session: Session | None = None

    def copy(self, seed: int | None = None) -> RackScheduler:
        """A scheduler in the same situation that goes its own way, with another seed if one is given."""
        self._close_session()
        chosen = self.seed if seed is None else seed
        return RackScheduler(self.machines, self.spread, chosen, ledger=self._ledger.copy())

    def occupy(self, vm: VmName, sku: VmSku, placement: Placement) -> int:
        """A VM stands there already, whether it would fit or not. Gives its handle."""
        self._close_session()
        site = self._site
        machine = site.index[placement.machine]
        cells = site.rooms.cells_id(placement.cells)
        return self._add(Record(site.pool(vm), site.shape(sku).number, machine, cells, vm.number))

    def release(self, handle: int) -> None:
        """The VM leaves."""
        self._close_session()
        self._queues.changed(self._ledger.remove(handle).machine, room_again=True)

    def place(self, demand: Demand) -> tuple[int, Placement] | Shortage:
        """Place one more VM: its handle and where it stands, or why nothing fits."""
        return self.attempt(demand) or self._shortage(demand)

    def attempt(self, demand: Demand) -> tuple[int, Placement] | None:
        """As `place`, but without the reasons: None when nothing fits."""
        session = self._session
        if session is None or not session.takes(demand):
            self._close_session()
            session = self._session = self._open_session(demand)
            if session is None:
                return self._place_by_scan(demand)
        number = demand.vm.number
        packed = session.place(number)
        if packed == NOWHERE:
            return None
        handle = self._ledger.write(packed, number)
        return handle, self._site.placement(packed >> CELLS_BITS & MACHINE_MASK, packed & CELLS_MASK)

    def place_run(self, demands: Iterable[Demand]) -> list[tuple[int, Placement] | Shortage]:
        """Place VMs one after the other; the same as calling `place` for each."""
        return [self.place(demand) for demand in demands]

    def infer_cells(self, sku: VmSku, machine: str) -> tuple[int, ...]:
        """The cells, ascending, that step 5 gives a VM that is known to stand on this machine.

        When it does not fit there: the cells least used (at most as many as the machine has).
        """
        self._close_session()
        number = self._ledger.rooms[self._site.index[machine]]
        cells = ranked_cells(Share.of(sku), self._site.rooms.free(number))
        if len(cells) < sku.numa_cells:
            room = self._site.rooms.room(number)
            cells = sorted(range(len(room.memory)), key=lambda cell: (-room.memory[cell], cell))
        return tuple(sorted(cells[: sku.numa_cells]))

    def count_free(self, demand: Demand) -> int:
        """How many more VMs like this one the site takes, nothing else being placed."""
        return sum(self.free_by_rack(demand).values())

    def free_by_rack(self, demand: Demand) -> Mapping[str, int]:
        """The same for every rack that the demand asks for, by name, in site order."""
        self._close_session()
        usage = self._ledger.usage(demand.vm.owner, demand.vm.pool)
        filters = opened.open_filters(self._ledger, usage, demand)
        chosen = opened.passes_all([refuse for rule, refuse in filters if opened.chooses_racks(rule)])
        racks: Iterable[int] = range(len(self._site.rack_name))
        if chosen is not None:
            racks = list(filter(chosen, racks))
        if any(isinstance(rule, CountFilter) for rule, _ in filters):
            counts = self._count_by_placing(demand)
        else:
            of_machines = [refuse for rule, refuse in filters if rule.item is Item.MACHINE]
            counts = self._count_by_room(demand.sku, opened.passes_all(of_machines))
        return {self._site.rack_name[rack]: counts[rack] for rack in racks}

    def _count_by_room(self, sku: VmSku, passes: Callable[[int], bool] | None) -> Counts:
        """By rack, when VMs hinder one another by the room that they take and by nothing else."""
        steps = self._site.shape(sku).steps
        known: dict[int, int] = {}
        counts = Counts()
        for rack, machines in enumerate(self._site.open_in):
            for machine in machines:
                if passes is not None and not passes(machine):
                    continue
                room = self._ledger.rooms[machine]
                if room not in known:
                    known[room] = _count_steps(steps, room)
                counts[rack] += known[room]
        return counts

    def _count_by_placing(self, demand: Demand) -> Counts:
        """By rack, for filters that look at VMs: place such VMs on a copy until none fits."""
        twin = self.copy()
        counts = Counts()
        number = 0
        while True:
            vm = replace(demand.vm, number=f"{demand.vm.number}+{number}")
            placed = twin.attempt(replace(demand, vm=vm))
            if placed is None:
                return counts
            counts[self._site.rack_index[placed[1].rack]] += 1
            number += 1

    def explain(self, demand: Demand) -> Explanation:
        """Why this VM would go where `place` puts it now, and why not elsewhere. Changes nothing."""
        self._close_session()
        return explain(self._ledger, demand, self.spread, self.seed)

    def refusal(self, machine: str, demand: Demand) -> str:
        """Why a filter refuses this machine for the demand now, "" when none does."""
        self._close_session()
        return first_refusal(self._ledger, demand, self._site.index[machine])

    def refused_for_vms(self, demand: Demand) -> Mapping[str, str]:
        """The machines that filters refuse for the VMs that stand, whatever room is left, and why."""
        self._close_session()
        usage = self._ledger.usage(demand.vm.owner, demand.vm.pool)
        refused: dict[str, str] = {}
        for rule, refuse in opened.refusals_by_machine(self._ledger, usage, demand):
            if refuse is None or not isinstance(rule, CountFilter):
                continue
            for number, machine in enumerate(self.machines):
                reason = refuse(number)
                if reason is not None:
                    refused.setdefault(machine.name, reason)
        return refused

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines, in the order given."""
        return self._site.machines

    @property
    def zones(self) -> tuple[str, ...]:
        """The availability zones of the racks that have machines, in the order of their first machine."""
        return tuple(dict.fromkeys(self._site.rack_zone))

    def machines_of_rack(self, rack: str) -> tuple[str, ...]:
        """The names of a rack's machines, in the order given; empty for an unknown rack."""
        number = self._site.rack_index.get(rack)
        if number is None:
            return ()
        return tuple(self._site.machines[machine].name for machine in self._site.machines_in[number])

    def vm(self, handle: int) -> StandingVm:
        """The VM behind a handle; KeyError when it left or never was."""
        return self._ledger.standing_vm(handle, self._ledger.record(handle))

    def vms(self) -> Iterator[StandingVm]:
        """Every VM, in the order in which they came."""
        for handle, record in self._ledger.vms():
            yield self._ledger.standing_vm(handle, record)

    def _open_session(self, demand: Demand) -> Session | None:
        """None where a look at every machine is needed."""
        if demand.last_resort is not None:
            return None
        usage = self._ledger.live_usage(demand.vm.owner, demand.vm.pool)
        rules = opened.OpenRules(self._ledger, usage, demand, self.spread)
        return Session(self._queues, rules, self.spread, self.seed) if rules.keep_promises() else None

    def _place_by_scan(self, demand: Demand) -> tuple[int, Placement] | None:
        record = opened.choose(self._ledger, demand, self.spread, self.seed)
        if record is None:
            return None
        return self._add(record), self._site.placement(record.machine, record.cells)

    def _shortage(self, demand: Demand) -> Shortage:
        """Why nothing fits; the reasons of a pool's VM hold for the next ones of the pool."""
        session = self._session
        if session is None:
            return find_shortage(self._ledger, demand)
        if session.shortage is None:
            session.shortage = find_shortage(self._ledger, demand)
        return replace(session.shortage, demand=demand)

    def _add(self, record: Record) -> int:
        handle = self._ledger.add(record)
        self._queues.changed(record.machine, room_again=False)
        return handle

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _count_steps(steps: Steps, room: int) -> int:
    count = 0
    step = steps[room]
    while step is not None:
        count += 1
        step = steps[step.room]
    return count
