"""The rack scheduler: who is where on one site, and where the next VM goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from nexusform.scheduling.racks import hinted
from nexusform.scheduling.racks.explanation import Explanation
from nexusform.scheduling.racks.ledger import Ledger, Record, Tally
from nexusform.scheduling.racks.model import (
    DEFAULT_SEED,
    Demand,
    Machine,
    Placement,
    RackSpread,
    VmName,
    VmSku,
)
from nexusform.scheduling.racks.profile import FILTERS
from nexusform.scheduling.racks.queues import Queues
from nexusform.scheduling.racks.reference import explain, host_of
from nexusform.scheduling.racks.session import NOWHERE, Session
from nexusform.scheduling.racks.shortage import Shortage, find_shortage
from nexusform.scheduling.racks.site import CELLS_BITS, CELLS_MASK, MACHINE_MASK, Site, Steps, fitting_cells
from nexusform.scheduling.racks.standing import StandingVm, standing


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
        self._queues.lowered(self._ledger.remove(handle).machine)

    def place(self, demand: Demand) -> tuple[int, Placement] | Shortage:
        """Place one more VM: its handle and where it stands, or why nothing fits."""
        return self.attempt(demand) or self._shortage(demand)

    def attempt(self, demand: Demand) -> tuple[int, Placement] | None:
        """As `place`, but without the reasons: None when nothing fits."""
        if demand.hints or demand.last_resort is not None:
            return self._place_hinted(demand)
        session = self._session
        if session is None or not session.takes(demand):
            self._close_session()
            session = self._session = Session(self._queues, demand, self.spread, self.seed)
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
        room = self._site.rooms.room(self._ledger.rooms[self._site.index[machine]])
        cells = fitting_cells(room, sku)
        if len(cells) < sku.numa_cells:
            cells = sorted(range((len(room) - 2) // 2), key=lambda cell: (-room[3 + 2 * cell], cell))
        return tuple(sorted(cells[: sku.numa_cells]))

    def count_free(self, sku: VmSku, zones: frozenset[str] | None = None) -> int:
        """How many more VMs of this SKU the machines in the zones hold, nothing else being placed."""
        return sum(self.free_by_rack(sku, zones).values())

    def free_by_rack(self, sku: VmSku, zones: frozenset[str] | None = None) -> Mapping[str, int]:
        """The same for every rack in the zones, by name, in site order."""
        self._close_session()
        site, steps = self._site, self._site.shape(sku).steps
        known: dict[int, int] = {}
        found: dict[str, int] = {}
        for rack in site.racks_in(zones):
            total = 0
            for machine in site.schedulable_in[rack]:
                room = self._ledger.rooms[machine]
                if room not in known:
                    known[room] = _count_steps(steps, room)
                total += known[room]
            found[site.rack_name[rack]] = total
        return found

    def explain(self, demand: Demand) -> Explanation:
        """Why this VM would go where `place` puts it now, and why not elsewhere. Changes nothing."""
        self._close_session()
        return explain(self._ledger, demand, self.spread, self.seed)

    def refusal(self, machine: str, demand: Demand) -> str:
        """Why a filter refuses this machine for the demand now, "" when none does."""
        self._close_session()
        host = host_of(self._ledger, demand, self._site.index[machine])
        return next((reason for _, refuse in FILTERS if (reason := refuse(demand, host))), "")

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
        return standing(self._ledger, handle, self._ledger.record(handle))

    def vms(self) -> Iterator[StandingVm]:
        """Every VM, in the order in which they came."""
        for handle, record in self._ledger.vms():
            yield standing(self._ledger, handle, record)

    def vms_on(self, machine: str) -> tuple[StandingVm, ...]:
        """The VMs on a machine, in the order in which they came. Looks at every VM of the site."""
        number = self._site.index[machine]
        return tuple(
            standing(self._ledger, handle, record)
            for handle, record in self._ledger.vms()
            if record.machine == number
        )

    def racks_of_pool(self, owner: str, pool: str) -> Mapping[str, int]:
        """VMs of the pool by rack name, in site order; racks without one are left out."""
        return self._by_name(self._ledger.pools.get((owner, pool)))

    def memory_used(self, machine: str) -> int:
        """GiB taken on a machine: the sum of its VMs' SKUs."""
        return self._ledger.memory[self._site.index[machine]]

    def _by_name(self, tally: Tally | None) -> dict[str, int]:
        return (
            {self._site.rack_name[rack]: tally.racks[rack] for rack in sorted(tally.racks)} if tally else {}
        )

    def _place_hinted(self, demand: Demand) -> tuple[int, Placement] | None:
        self._close_session()
        record = hinted.choose(self._ledger, demand, self.spread, self.seed)
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
        ledger = self._ledger
        handle = ledger.add(record)
        if ledger.extra_large[record.machine] == 1 and self._site.shapes[record.shape].extra_large:
            self._queues.extra_large_arrived(record.machine)
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
