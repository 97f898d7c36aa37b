"""The rack scheduler: who is where on one site, and where the next VM goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from nexusform.scheduling.racks import opened
from nexusform.scheduling.racks.explanation import (
    BestMachines,
    Explanation,
    Ranking,
    Shortage,
    explain,
    find_shortage,
    refusals,
)
from nexusform.scheduling.racks.layout import UNKNOWN_CELLS, Counts, Share
from nexusform.scheduling.racks.ledger import Ledger, Record
from nexusform.scheduling.racks.queues import Queues
from nexusform.scheduling.racks.rule import CountFilter, Filter, Item
from nexusform.scheduling.racks.session import NOWHERE, PoolSession
from nexusform.scheduling.racks.site import CELLS_BITS, CELLS_MASK, MACHINE_MASK, Site, ranked_cells
from nexusform.scheduling.racks.uncertainty.splits import Way
from nexusform.scheduling.racks.vms import (
    DEFAULT_SEED,
    NONE_FITS,
    Demand,
    Interval,
    Machine,
    Placement,
    RackSpread,
    StandingVm,
    VmName,
    VmSku,
    total,
)


class RackScheduler:
    """Places VMs on the machines of one site, one at a time, by the rule of racks/profile.py.

    Machine names are unique. Handles are numbers, given out in the order in which VMs come; a copy
    knows the handles of its original. Two schedulers that got the same calls give the same answers.

    A VM may stand on cells that nobody told. Whoever places, or asks where a VM would go, sees one legal
    split of each such machine, the one that `split_seed` draws or names (splits.py); counts hold for all of
    them.
    """

    __slots__ = ("_ledger", "_queues", "_session", "_site", "seed", "split_seed", "spread")

    def __init__(
        self,
        machines: Sequence[Machine],
        spread: RackSpread = RackSpread.POOL,
        seed: int = DEFAULT_SEED,
        *,
        split_seed: Way = 0,
        ledger: Ledger | None = None,
    ) -> None:
        self.spread = spread
        self.seed = seed
        self.split_seed = split_seed
        # A copy brings its ledger, and with it the site.
        self._ledger = Ledger(Site(machines)) if ledger is None else ledger
        self._site = self._ledger.site
        self._queues = Queues(self._ledger)
        self._session: PoolSession | None = None

    def copy(self, seed: int | None = None, split_seed: Way | None = None) -> RackScheduler:
        """A scheduler in the same situation that goes its own way, with other seeds if some are given."""
        self._close_session()
        ledger = self._ledger.copy()
        if split_seed is not None and split_seed != self.split_seed:
            ledger.draw_anew()
        return RackScheduler(
            self.machines,
            self.spread,
            self.seed if seed is None else seed,
            split_seed=self.split_seed if split_seed is None else split_seed,
            ledger=ledger,
        )

    def occupy(self, vm: VmName, sku: VmSku, placement: Placement) -> int:
        """A VM stands there already, whether it would fit or not. Gives its handle.

        A placement without cells: nobody told them.
        """
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
            self._look()
            session = self._session = self._open_session(demand)
            if session is None:
                return self._place_by_scan(demand)
        number = demand.vm.number
        packed = session.place(number)
        if packed == NOWHERE:
            return None
        machine = packed >> CELLS_BITS & MACHINE_MASK
        if machine in self._ledger.loose:
            return self._ledger.write_loose(packed, number), self._site.placement(machine, UNKNOWN_CELLS)
        return self._ledger.write(packed, number), self._site.placement(machine, packed & CELLS_MASK)

    def place_run(self, demands: Iterable[Demand]) -> list[tuple[int, Placement] | Shortage]:
        """Place VMs one after the other; the same as calling `place` for each."""
        return [self.place(demand) for demand in demands]

    def cells_for(self, sku: VmSku, machine: str) -> tuple[int, ...]:
        """The cells, ascending, that step 5 gives a VM that is put on this machine; () where VMs stand there
        whose cells nobody told.

        When it does not fit there: the cells least used (at most as many as the machine has).
        """
        self._look()
        if self._site.index[machine] in self._ledger.loose:
            return ()
        number = self._ledger.rooms[self._site.index[machine]]
        cells = ranked_cells(Share.of(sku), self._site.rooms.free(number))
        if len(cells) < sku.numa_cells:
            room = self._site.rooms.room(number)
            cells = sorted(range(len(room.memory)), key=lambda cell: (-room.memory[cell], cell))
        return tuple(sorted(cells[: sku.numa_cells]))

    def count_free(self, demand: Demand) -> Interval:
        """How many more VMs like this one the site takes, nothing else being placed, whichever legal split
        it is where cells are not known.
        """
        return total(self.free_by_rack(demand).values())

    def free_by_rack(self, demand: Demand) -> Mapping[str, Interval]:
        """How many more VMs like this one each rack takes, nothing else being placed: the racks that the
        demand asks for, by name, in site order.
        """
        self._look()
        usage = self._ledger.usage(demand.vm.owner, demand.vm.pool)
        filters = opened.open_filters(self._ledger, usage, demand)
        chosen = opened.passes_all([refuse for rule, refuse in filters if opened.chooses_racks(rule)])
        racks: Iterable[int] = range(len(self._site.rack_name))
        if chosen is not None:
            racks = list(filter(chosen, racks))
        if any(isinstance(rule, CountFilter) for rule, _ in filters):
            fewest, most = (_fill(twin, demand) for twin in self._extremes(demand.sku))
            intervals = {rack: Interval(min(fewest[rack], most[rack]), most[rack]) for rack in racks}
        else:
            of_machines = [refuse for rule, refuse in filters if rule.item is Item.MACHINE]
            intervals = self._count_by_room(demand.sku, opened.passes_all(of_machines))
        return {self._site.rack_name[rack]: intervals.get(rack, NONE_FITS) for rack in racks}

    def _count_by_room(self, sku: VmSku, passes: Callable[[int], bool] | None) -> dict[int, Interval]:
        """By rack, when VMs hinder one another by the room that they take and by nothing else."""
        ledger, shape = self._ledger, self._site.shape(sku)
        known: dict[int, int] = {}
        counts: dict[int, Interval] = {}
        for rack, machines in enumerate(self._site.open_in):
            least = most = 0
            for machine in machines:
                if passes is not None and not passes(machine):
                    continue
                if machine in ledger.loose:
                    interval = ledger.split_rooms(machine).count(shape)
                    least += interval.least
                    most += interval.most
                    continue
                room = ledger.rooms[machine]
                if room not in known:
                    known[room] = shape.steps.count(room)
                least += known[room]
                most += known[room]
            counts[rack] = Interval(least, most)
        return counts

    def _extremes(self, sku: VmSku) -> tuple[RackScheduler, RackScheduler]:
        """Copies in which every machine has the split that takes the fewest VMs of a SKU, and the most."""
        shape = self._site.shape(sku)
        rooms = {machine: self._ledger.split_rooms(machine).extremes(shape) for machine in self._ledger.loose}
        fewest = {machine: of_machine[0] for machine, of_machine in rooms.items()}
        most = {machine: of_machine[1] for machine, of_machine in rooms.items()}
        return self._with_rooms(fewest), self._with_rooms(most)

    def _with_rooms(self, rooms: Mapping[int, int]) -> RackScheduler:
        """A copy in which machines whose cells are not known have these rooms, and keep them."""
        ledger = self._ledger.copy()
        ledger.fix(rooms)
        return RackScheduler(self.machines, self.spread, self.seed, ledger=ledger)

    def explain(self, demand: Demand) -> Explanation:
        """Why this VM would go where `place` puts it now, and why not elsewhere. Changes nothing."""
        self._look()
        return explain(self._ledger, demand, self.spread, self.seed)

    def best_machines(self, demand: Demand) -> BestMachines:
        """The machines among which tie-breaks alone decide where the VM goes, whichever legal split it is."""
        return self.ranking(demand).best()

    def ranking(self, demand: Demand) -> Ranking:
        """How the machines rank for the VM now, with some of them out of the question or none."""
        self._close_session()
        return Ranking(self._ledger, demand, self.spread)

    def refusal(self, machine: str, demand: Demand) -> str:
        """Why a filter refuses this machine for the demand now, "" when none does."""
        return next((reason for _, reason in self.refusals(machine, demand)), "")

    def refusals(self, machine: str, demand: Demand) -> Iterator[tuple[Filter, str]]:
        """Every filter that refuses this machine for the demand now, and why."""
        self._look()
        return refusals(self._ledger, demand, self._site.index[machine])

    def refused_for_vms(self, demand: Demand) -> Mapping[str, str]:
        """The machines that filters refuse for the VMs that stand, whatever room is left, and why."""
        self._look()
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
    def is_drawn(self) -> bool:
        """Whether there are such machines, so that what is placed hangs on a split that was drawn."""
        return bool(self._ledger.loose)

    def loose_machines(self) -> tuple[str, ...]:
        """The machines with VMs whose cells nobody told, by name, in site order."""
        return tuple(self.machines[machine].name for machine in sorted(self._ledger.loose))

    def always_fits(self, machine: str, sku: VmSku, coming: Sequence[VmSku]) -> bool:
        """Whether a VM finds its cells on a machine of `loose_machines` in every legal split, with these
        others there as well, wherever they lie.
        """
        site, loose = self._site, self._ledger.loose[self._site.index[machine]]
        shares = [site.shapes[shape].share for shape in loose.shapes.values()]
        shares += [site.shape(each).share for each in coming]
        return site.splits(loose.known_room, tuple(sorted(shares))).count(site.shape(sku)).least > 0

    def never_fits(self, machine: str, sku: VmSku) -> bool:
        """Whether a VM finds no cells on a machine of `loose_machines` now, in no legal split."""
        split_rooms = self._ledger.split_rooms(self._site.index[machine])
        return split_rooms.count(self._site.shape(sku)).most == 0

    def overfull_machines(self) -> tuple[str, ...]:
        """Those of them on which these VMs cannot lie in any way: they count as full."""
        rooms = {machine: self._ledger.split_rooms(machine) for machine in sorted(self._ledger.loose)}
        return tuple(
            self.machines[machine].name
            for machine, split in rooms.items()
            if split.splits.known and not split.rooms
        )

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines, in the order given."""
        return self._site.machines

    @property
    def racks(self) -> tuple[str, ...]:
        """The names of the racks that have machines, in the order of their first machine."""
        return tuple(self._site.rack_name)

    @property
    def zones(self) -> tuple[str, ...]:
        """The availability zones of the racks that have machines, in the order of their first machine."""
        return tuple(dict.fromkeys(self._site.rack_zone))

    def vm(self, handle: int) -> StandingVm:
        """The VM behind a handle; KeyError when it left or never was."""
        return self._ledger.standing_vm(handle, self._ledger.record(handle))

    def drawn_vms(self) -> Iterator[StandingVm]:
        """Every VM as it lies in the splits that are drawn; without cells where no split is legal."""
        self._look()
        for vm in self.vms():
            loose = self._ledger.loose.get(self._site.index[vm.placement.machine])
            cells = loose.cells.get(vm.handle) if loose is not None and loose.cells is not None else None
            yield vm if cells is None else replace(vm, placement=replace(vm.placement, cells=cells))

    def vms(self) -> Iterator[StandingVm]:
        """Every VM, in the order in which they came."""
        for handle, record in self._ledger.vms():
            yield self._ledger.standing_vm(handle, record)

    def _open_session(self, demand: Demand) -> PoolSession | None:
        """None where a look at every machine is needed."""
        if demand.last_resort is not None:
            return None
        usage = self._ledger.live_usage(demand.vm.owner, demand.vm.pool)
        rules = opened.OpenRules(self._ledger, usage, demand, self.spread)
        return PoolSession(self._queues, rules, self.spread, self.seed) if rules.keep_promises() else None

    def _place_by_scan(self, demand: Demand) -> tuple[int, Placement] | None:
        """Place by a look at every machine: its handle and its place; None when it fits nowhere."""
        record = opened.choose(self._ledger, demand, self.spread, self.seed)
        if record is None:
            return None
        if record.machine not in self._ledger.loose:
            return self._add(record), self._site.placement(record.machine, record.cells)
        handle = self._ledger.add_drawn(record)
        self._queues.changed(record.machine, room_again=False)
        return handle, self._site.placement(record.machine, UNKNOWN_CELLS)

    def _shortage(self, demand: Demand) -> Shortage:
        """Why nothing fits; the reasons of a pool's VM hold for the next ones of the pool."""
        session = self._session
        if session is None:
            return find_shortage(self._ledger, demand)
        if session.shortage is None:
            session.shortage = find_shortage(self._ledger, demand)
        return session.shortage

    def _add(self, record: Record) -> int:
        """Note a VM whose room is known; its handle."""
        handle = self._ledger.add(record)
        self._queues.changed(record.machine, room_again=False)
        return handle

    def _look(self) -> None:
        """Before rooms are read: no session is open, and every machine has one."""
        self._close_session()
        for machine in self._ledger.draw(self.split_seed):
            self._queues.changed(machine, room_again=True)

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _fill(scheduler: RackScheduler, demand: Demand) -> Counts:
    """How many VMs like this one fit, by the number of their rack: placed until none does."""
    racks = {name: number for number, name in enumerate(scheduler.racks)}
    counts = Counts()
    number = 0
    while True:
        vm = replace(demand.vm, number=f"{demand.vm.number}+{number}")
        answer = scheduler.attempt(replace(demand, vm=vm))
        if answer is None:
            return counts
        counts[racks[answer[1].rack]] += 1
        number += 1
