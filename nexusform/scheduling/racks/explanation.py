"""The answers to "why there?" and "why nowhere?", rule by rule: who was refused and why, how the others were
ranked, and which filter refused the last machines when a VM fits nowhere.

It asks the same opened rules as those who place; only the words are added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.racks import opened, profile
from nexusform.scheduling.racks.layout import Room, Share
from nexusform.scheduling.racks.ledger import Ledger
from nexusform.scheduling.racks.opened import OpenKey, without_last_resort
from nexusform.scheduling.racks.rule import Filter, HousedVm, KeyPart, Refuse, RoomFilter
from nexusform.scheduling.racks.rules.tie_break import digest
from nexusform.scheduling.racks.site import Site, ranked_cells
from nexusform.scheduling.racks.vms import Demand, Interval, Placement, RackSpread

NO_MACHINE: Final = "no_machine"


class Shortage(Struct, frozen=True):
    """Why nothing fits: the binding constraint in a word, for programs, and in sentences, for people."""

    binding: str
    reason: str


class _Scene:
    """As rule.Scene says; `machines` shrinks as the filters take their turn."""

    def __init__(self, ledger: Ledger, demand: Demand) -> None:
        self.demand = demand
        self.in_asked_racks = list(range(len(ledger.site.machines)))
        self.machines = self.in_asked_racks
        self._ledger = ledger
        self._steps = ledger.site.shape(demand.sku).steps

    @property
    def layout(self) -> Site:
        return self._ledger.site

    def room(self, machine: int) -> Room:
        return self._ledger.site.rooms.free(self._ledger.rooms[machine])

    def holds_when_empty(self, machine: int) -> bool:
        site = self._ledger.site
        return site.is_open[machine] and self._steps[site.start_rooms[machine]] is not None

    def vms(self) -> Iterator[HousedVm]:
        site = self._ledger.site
        for _, record in self._ledger.vms():
            sku = site.shapes[record.shape].sku
            yield HousedVm(site.pools[record.pool], sku, record.machine, site.rooms.cells(record.cells))


def find_shortage(ledger: Ledger, demand: Demand) -> Shortage:
    """Ask the filters once more and note which of them refused the last machines.

    What the demand says of racks comes first: reasons and figures are about the racks that it asks for.
    """
    scene = _Scene(ledger, demand)
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    filters = opened.refusals_by_machine(ledger, usage, demand)
    of_racks = [(rule, refuse) for rule, refuse in filters if opened.chooses_racks(rule)]
    shortage = _first_short(scene, of_racks)
    if shortage is not None:
        return shortage
    scene.in_asked_racks = scene.machines
    if not scene.in_asked_racks:
        return Shortage(NO_MACHINE, "There is no machine on the site.")
    of_machines = [(rule, refuse) for rule, refuse in filters if not opened.chooses_racks(rule)]
    shortage = _first_short(scene, of_machines)
    assert shortage is not None, "a machine passes every filter"
    return shortage


def _first_short(scene: _Scene, filters: list[tuple[Filter, Refuse | None]]) -> Shortage | None:
    """The first filter that leaves no machine; each takes away what it refuses."""
    for rule, refuse in filters:
        if refuse is None:
            continue
        passing = [machine for machine in scene.machines if refuse(machine) is None]
        if not passing:
            return Shortage(rule.binding or rule.name, rule.sentence(scene))
        scene.machines = passing
    return None


_LAST_RESORT = "last_resort"


class Remaining(Struct, frozen=True):
    """How many machines a filter (its rule's name) left. Where the cells of VMs are not known, `machines` are
    those in the split that was drawn, and `whichever` holds for every legal one.

    `text` says it for people ("" = not worth saying), on the line called `line`; filters that share a
    line stand one after the other.
    """

    rule: str
    machines: int
    whichever: Interval
    line: str = ""
    text: str = ""


class Ranked(Struct, frozen=True):
    """A rack or machine with its keys and, where it ties with the best, its tie-break digest (hex)."""

    name: str
    keys: tuple[KeyPart, ...]
    digest: str = ""


class Explanation(Struct, frozen=True):
    """One decision, step by step.

    `filters` follow the profile's order. `racks` and `machines` (of the chosen rack) are ranked best
    first; those that tie with the best carry a digest. `fitting_cells` are the cells of the
    chosen machine in the order of step 5, none where the cells of its VMs are not known. `refusals` name
    every machine that a filter refused, `rack_machines` all those of the chosen rack. Without a
    candidate `placement` is None, and the rankings are empty.
    """

    demand: Demand
    seed: int
    total_machines: int
    filters: tuple[Remaining, ...]
    racks: tuple[Ranked, ...]
    machines: tuple[Ranked, ...]
    fitting_cells: tuple[int, ...]
    refusals: tuple[Refusal, ...]
    placement: Placement | None
    rack_machines: frozenset[str] = frozenset()

    @property
    def tied_racks(self) -> tuple[Ranked, ...]:
        """The racks among which the tie-break chose; empty when there was no tie."""
        return tuple(rack for rack in self.racks if rack.digest)

    @property
    def tied_machines(self) -> tuple[Ranked, ...]:
        """The machines among which the tie-break chose; empty when there was no tie."""
        return tuple(machine for machine in self.machines if machine.digest)

    @property
    def next_best(self) -> Ranked | None:
        """The machine of the chosen rack that would have been next; None when there is no other."""
        return self.machines[1] if len(self.machines) > 1 else None


def explain(ledger: Ledger, demand: Demand, spread: RackSpread, seed: int) -> Explanation:
    """Every step of one decision; changes nothing."""
    site = ledger.site
    total = len(site.machines)
    candidates, filters, refusals = _filtered(ledger, demand)
    if not candidates:
        return Explanation(
            demand=demand,
            seed=seed,
            total_machines=total,
            filters=filters,
            racks=(),
            machines=(),
            fitting_cells=(),
            refusals=refusals,
            placement=None,
        )
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    rack_numbers = dict.fromkeys(site.rack_of[machine] for machine in candidates)
    rack_keys = opened.open_keys(profile.RACK_KEYS[spread], usage, demand)
    racks = _ranked(rack_numbers, site.rack_name, rack_keys, demand, seed)
    rack = site.rack_index[racks[0].name]
    in_rack = [machine for machine in candidates if site.rack_of[machine] == rack]
    machine_names = [machine.name for machine in site.machines]
    machine_keys = opened.open_keys(profile.MACHINE_KEYS, usage, demand)
    machines = _ranked(in_rack, machine_names, machine_keys, demand, seed)
    chosen = site.index[machines[0].name]
    fitting = ranked_cells(Share.of(demand.sku), site.rooms.free(ledger.rooms[chosen]))
    cells = tuple(sorted(fitting[: demand.sku.numa_cells]))
    if chosen in ledger.loose:
        fitting, cells = [], ()
    placement = site.placement(chosen, site.rooms.cells_id(cells))
    return Explanation(
        demand=demand,
        seed=seed,
        total_machines=total,
        filters=filters,
        racks=racks,
        machines=machines,
        fitting_cells=tuple(fitting),
        refusals=refusals,
        placement=placement,
        rack_machines=frozenset(machine.name for machine in site.machines if machine.rack == racks[0].name),
    )


class BestMachines(Struct, frozen=True):
    """The machines among which tie-breaks alone decide where a VM goes, by name: the best ones of every rack
    that ranks best, none where nothing fits. `in_some` are those that are best in some legal split of the
    machines with VMs whose cells nobody told, `in_all` in every one.
    """

    in_some: frozenset[str]
    in_all: frozenset[str]


class Ranking:
    """How all machines rank for one VM as the site stands: worked out once, and asked for the best ones of
    those that are left when some are out of the question (cordons refuse machines, and rank none).

    The splits of machines do not hang on one another, so that a machine is best in some of them if it fits in
    one, and whoever ranks before it does not fit in another.
    """

    def __init__(self, ledger: Ledger, demand: Demand, spread: RackSpread) -> None:
        self._site = ledger.site
        self._fitting, self._certain = _fitting(ledger, demand)
        usage = ledger.usage(demand.vm.owner, demand.vm.pool)
        self._racks = _Figures(opened.open_keys(profile.RACK_KEYS[spread], usage, demand))
        self._machines = _Figures(opened.open_keys(profile.MACHINE_KEYS, usage, demand))

    def best(self, away: Collection[str] = ()) -> BestMachines:
        """The best machines but for these."""
        fitting = self._without(self._fitting, away)
        if len(self._certain) == len(self._fitting):
            best = self._ranked_first(fitting, fitting)
            return BestMachines(best, best)
        certain = self._without(self._certain, away)
        return BestMachines(self._ranked_first(fitting, certain), self._ranked_first(certain, fitting))

    def _without(self, numbers: Sequence[int], away: Collection[str]) -> Sequence[int]:
        machines = self._site.machines
        return [number for number in numbers if machines[number].name not in away] if away else numbers

    def _ranked_first(self, candidates: Iterable[int], rivals: Iterable[int]) -> frozenset[str]:
        """Those that none of the rivals ranks before."""
        by_rack: dict[int, list[int]] = {}
        for machine in rivals:
            by_rack.setdefault(self._site.rack_of[machine], []).append(machine)
        rack = self._racks.least(by_rack)
        least: dict[int, tuple[int, ...] | None] = {}
        first: set[str] = set()
        for machine in candidates:
            number = self._site.rack_of[machine]
            if not _is_first(self._racks.of(number), rack):
                continue
            if number not in least:
                least[number] = self._machines.least(by_rack.get(number, ()))
            if _is_first(self._machines.of(machine), least[number]):
                first.add(self._site.machines[machine].name)
        return frozenset(first)


def _is_first(figures: tuple[int, ...], least: tuple[int, ...] | None) -> bool:
    return least is None or figures <= least


class _Figures:
    """The figures by which racks or machines are ranked, each worked out once."""

    def __init__(self, keys: Sequence[OpenKey]) -> None:
        self._keys = [figure for _, figure in keys if figure is not None]
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, item: int) -> tuple[int, ...]:
        """The figures of one item."""
        figures = self._known.get(item)
        if figures is None:
            figures = tuple(figure(item) for figure in self._keys)
            self._known[item] = figures
        return figures

    def least(self, items: Iterable[int]) -> tuple[int, ...] | None:
        """The lowest figures; None of no items."""
        return min(map(self.of, items), default=None)


def _fitting(ledger: Ledger, demand: Demand) -> tuple[list[int], list[int]]:
    """The machines that take the VM in some legal split, and those that do in all."""
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    passing = list(range(len(ledger.site.machines)))
    for rule, refuse in opened.refusals_by_machine(ledger, usage, demand):
        if refuse is None:
            continue
        loose = ledger.loose if isinstance(rule, RoomFilter) else ()
        passing = [machine for machine in passing if machine in loose or refuse(machine) is None]
    shape = ledger.site.shape(demand.sku)
    counts = {
        machine: ledger.split_rooms(machine).count(shape) for machine in passing if machine in ledger.loose
    }
    fitting = [machine for machine in passing if machine not in counts or counts[machine].most]
    return fitting, [machine for machine in fitting if machine not in counts or counts[machine].least]


def refusals(ledger: Ledger, demand: Demand, machine: int) -> Iterator[tuple[Filter, str]]:
    """The filters that refuse the machine, and why."""
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    for rule, refuse in opened.refusals_by_machine(ledger, usage, demand):
        reason = refuse(machine) if refuse is not None else None
        if reason is not None:
            yield rule, reason


def _filtered(ledger: Ledger, demand: Demand) -> tuple[list[int], tuple[Remaining, ...], tuple[Refusal, ...]]:
    """The machines that pass all filters, how many each filter left, and who was refused why."""
    machines = ledger.site.machines
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    passing = list(range(len(machines)))
    remaining: list[Remaining] = []
    refusals: list[Refusal] = []
    unknown = _UnknownRooms(ledger)
    before = Interval(len(passing), len(passing))
    for rule, refuse in opened.refusals_by_machine(ledger, usage, demand):
        if refuse is not None:
            reasons = {machine: refuse(machine) for machine in passing}
            refusals += [
                Refusal(machines[machine].name, rule.name, reason)
                for machine, reason in reasons.items()
                if reason is not None
            ]
            passing = [machine for machine in passing if reasons[machine] is None]
            unknown.refuse(rule, refuse, demand)
        whichever = unknown.left(passing)
        text = rule.count(demand, whichever, before)
        remaining.append(Remaining(rule.name, len(passing), whichever, rule.line or f"  {rule.name}", text))
        before = whichever
    candidates = without_last_resort(ledger, demand, passing)
    if len(candidates) < len(passing):
        refusals.append(Refusal(demand.last_resort or "", _LAST_RESORT, "its present machine is tried last"))
        fewer = len(passing) - len(candidates)
        remaining.append(
            Remaining(_LAST_RESORT, len(candidates), Interval(before.least - fewer, before.most - fewer))
        )
    return candidates, tuple(remaining), tuple(refusals)


class _UnknownRooms:
    """The machines with VMs whose cells nobody told: the rooms of theirs that no filter refused so far."""

    def __init__(self, ledger: Ledger) -> None:
        self._rooms = ledger.site.rooms
        self._all = {machine: ledger.split_rooms(machine).possible() for machine in ledger.loose}
        self._left = {machine: list(rooms) for machine, rooms in self._all.items()}

    def refuse(self, rule: Filter, refuse: Refuse, demand: Demand) -> None:
        """One filter more."""
        of_room = rule.opens(demand.sku) if isinstance(rule, RoomFilter) else None
        for machine, rooms in self._left.items():
            if of_room is not None:
                self._left[machine] = [room for room in rooms if of_room(self._rooms.free(room)) is None]
            elif rooms and refuse(machine) is not None:
                self._left[machine] = []

    def left(self, drawn: Iterable[int]) -> Interval:
        """How many machines are left whichever split it is; `drawn` are those of the split that was drawn."""
        with_known_cells = sum(machine not in self._all for machine in drawn)
        sure = sum(len(rooms) == len(self._all[machine]) for machine, rooms in self._left.items())
        possible = sum(bool(rooms) for rooms in self._left.values())
        return Interval(with_known_cells + sure, with_known_cells + possible)


def _ranked(
    numbers: Iterable[int], names: Sequence[str], keys: Sequence[OpenKey], demand: Demand, seed: int
) -> tuple[Ranked, ...]:
    """Best first; whoever ties with the best carries a digest."""
    parts_of = {number: _parts(keys, demand, number) for number in numbers}

    def order(number: int) -> tuple[tuple[float, ...], bytes]:
        return _figures(parts_of[number]), digest(seed, demand.vm, names[number])

    ranked = sorted(parts_of, key=order)
    best = _figures(parts_of[ranked[0]])
    tied = [number for number in ranked if _figures(parts_of[number]) == best]
    digests = (
        {number: digest(seed, demand.vm, names[number]).hex() for number in tied} if len(tied) > 1 else {}
    )
    return tuple(Ranked(names[number], parts_of[number], digests.get(number, "")) for number in ranked)


def _parts(keys: Sequence[OpenKey], demand: Demand, number: int) -> tuple[KeyPart, ...]:
    """Every key of a rack or machine (its number), with words."""
    return tuple(_part(key, demand, number) for key in keys)


def _part(opened_key: OpenKey, demand: Demand, number: int) -> KeyPart:
    """One key of a rack or machine (its number), with words."""
    key, figure = opened_key
    value = figure(number) if figure is not None else 0
    return KeyPart(key.rule, key.figure(value), key.words(demand, value))


def _figures(parts: tuple[KeyPart, ...]) -> tuple[float, ...]:
    """The figures of some keys, by which candidates are compared."""
    return tuple(part.value for part in parts)
