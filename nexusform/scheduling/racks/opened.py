"""The profile's rules opened for one demand, as every way of placing and explaining asks them; and the
plain way to place one VM, a look at every machine, rule by rule (`choose`).

The plain way is for demands with a machine of last resort and those of which some rule keeps no promise
(rule.py); explanations and shortages are made from it. It costs time in proportion to the machines of the
site.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from nexusform.scheduling.racks import profile
from nexusform.scheduling.racks.layout import NO_COUNTS, Counts, Figure, Figures, Usage
from nexusform.scheduling.racks.ledger import Ledger, Record
from nexusform.scheduling.racks.rule import (
    CountFilter,
    DemandFilter,
    Differs,
    Filter,
    Item,
    Key,
    MachineFilter,
    Refuse,
    RoomFilter,
)
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.vms import Demand, RackSpread

Passes = Callable[[int], bool]


OpenKey = tuple[Key, Figure | None]  # None: 0 everywhere
OpenFilter = tuple[DemandFilter | CountFilter, Refuse]


class Packed(NamedTuple):
    """Keys in one whole number, the first uppermost.

    `differs` is the widest of theirs; `which` tells those that bear on the demand from those that do not.
    """

    figure: Figure
    differs: Differs
    which: int

    def counted(self, cluster: Counts, pool: Counts) -> Counts:
        """Where these keys may differ from everybody's."""
        if self.differs is Differs.NOWHERE:
            return NO_COUNTS
        return pool if self.differs is Differs.WHERE_POOL_STANDS else cluster


def open_keys(keys: Iterable[Key], usage: Usage, demand: Demand) -> list[OpenKey]:
    """The keys, opened."""
    opened = [(key, key.opens(usage, demand)) for key in keys]
    return [(key, None if figures is None else _function(figures)) for key, figures in opened]


def pack(keys: Iterable[Key], usage: Usage, demand: Demand) -> Packed:
    """Open the keys and put them into one whole number, so that numbers compare as the keys do."""
    columns: list[Figures] = []
    shifts: list[int] = []  # how far each figure moves up for the next one
    which = 0  # of the keys bear on the demand: a bit each
    differs = Differs.NOWHERE
    for key in keys:
        figures = key.opens(usage, demand)
        which <<= 1
        if shifts:
            shifts[-1] += key.bits
        if figures is not None and figures is not NO_COUNTS:
            which |= 1
            columns.append(figures)
            shifts.append(0)
            differs = max(differs, key.differs)
    return Packed(_side_by_side(columns, shifts), differs, which)


def _side_by_side(columns: list[Figures], shifts: list[int]) -> Figure:
    """The keys packed into one whole number, the first of them in its highest bits."""
    # This is asked several times for every VM: one function call for the usual numbers of keys, and none
    # for lists and counts.
    if len(columns) == 3:
        first, second, third = columns
        up, up_2, up_3 = shifts
        if not (callable(first) or callable(second) or callable(third)):
            return lambda item: ((first[item] << up | second[item]) << up_2 | third[item]) << up_3
    if not columns:
        return lambda _item: 0
    packed, shift = _function(columns[0]), shifts[0]
    for figures, next_shift in zip(columns[1:], shifts[1:], strict=True):
        packed, shift = _beside(packed, shift, _function(figures)), next_shift
    return _shifted(packed, shift) if shift else packed


def _function(figures: Figures) -> Figure:
    """Figures by number as a function, whether they are one, a list or counts."""
    return figures if callable(figures) else figures.__getitem__


def _beside(upper: Figure, shift: int, lower: Figure) -> Figure:
    """Two figures in one number, the lower one in the lowest `shift` bits."""
    return lambda item: upper(item) << shift | lower(item)


def _shifted(figure: Figure, shift: int) -> Figure:
    """A figure moved up by so many bits."""
    return lambda item: figure(item) << shift


def open_filters(ledger: Ledger, usage: Usage, demand: Demand) -> list[OpenFilter]:
    """The filters that have something to say to this demand beyond machines and rooms, in their order."""
    opened: list[OpenFilter] = []
    for rule in ledger.site.demand_filters:
        if isinstance(rule, DemandFilter):
            if rule.reads(demand) is not None:
                opened.append((rule, rule.opens(usage.layout, demand)))
        else:
            refuse = rule.opens(usage, demand)
            if refuse is not None:
                opened.append((rule, refuse))
    return opened


def chooses_racks(rule: Filter) -> bool:
    """Whether the filter says, once and for all, which racks the demand asks for."""
    return isinstance(rule, DemandFilter) and rule.item is Item.RACK


def refusals_by_machine(ledger: Ledger, usage: Usage, demand: Demand) -> list[tuple[Filter, Refuse | None]]:
    """Every filter of the profile in its order, asked about machines; None where it refuses none."""
    by_rule = {id(rule): refuse for rule, refuse in open_filters(ledger, usage, demand)}
    filters: list[tuple[Filter, Refuse | None]] = []
    for rule in profile.FILTERS:
        refuse: Refuse | None = None
        if isinstance(rule, MachineFilter):
            refuse = _about_machine(ledger, rule)
        elif isinstance(rule, RoomFilter):
            refuse = _about_room(ledger, rule, demand)
        elif isinstance(rule, DemandFilter | CountFilter) and id(rule) in by_rule:
            refuse = by_rule[id(rule)]
            if rule.item is Item.RACK:
                refuse = _about_rack(ledger, refuse)
        filters.append((rule, refuse))
    return filters


def _about_machine(ledger: Ledger, rule: MachineFilter) -> Refuse:
    """A filter that reads the description of a machine, asked by its number."""
    machines = ledger.site.machines
    return lambda number: rule.refuse(machines[number])


def _about_room(ledger: Ledger, rule: RoomFilter, demand: Demand) -> Refuse:
    """The filter asked per machine, once per room that occurs."""
    reasons: dict[int, str | None] = {}
    rooms, refuse_room = ledger.site.rooms, rule.opens(demand.sku)

    def refuse(number: int) -> str | None:
        room = ledger.rooms[number]
        if room not in reasons:
            reasons[room] = refuse_room(rooms.free(room))
        return reasons[room]

    return refuse


def _about_rack(ledger: Ledger, refuse: Refuse) -> Refuse:
    """A refusal of racks, asked about machines."""
    rack_of = ledger.site.rack_of
    return lambda number: refuse(rack_of[number])


class OpenRules:
    """What the profile says of one demand, beyond machines and rooms. Live as long as `usage` is."""

    __slots__ = ("demand", "filters", "machine_keys", "rack_keys", "usage")

    def __init__(self, ledger: Ledger, usage: Usage, demand: Demand, spread: RackSpread) -> None:
        self.demand = demand
        self.usage = usage
        self.filters = open_filters(ledger, usage, demand)
        self.rack_keys = pack(profile.RACK_KEYS[spread], usage, demand)
        self.machine_keys = pack(profile.MACHINE_KEYS, usage, demand)

    def keep_promises(self) -> bool:
        """Whether all of them promise what a session needs (CountFilter, Differs)."""
        for rule, _ in self.filters:
            if isinstance(rule, CountFilter) and not rule.closing:
                return False
        return max(self.rack_keys.differs, self.machine_keys.differs) is not Differs.ANYWHERE


def split(filters: Sequence[OpenFilter]) -> tuple[list[OpenFilter], list[Refuse], list[Refuse]]:
    """Filters that choose the racks, refusals of other racks, and refusals of machines."""
    chosen: list[OpenFilter] = []
    of_racks: list[Refuse] = []
    of_machines: list[Refuse] = []
    for rule, refuse in filters:
        if chooses_racks(rule):
            chosen.append((rule, refuse))
        else:
            (of_racks if rule.item is Item.RACK else of_machines).append(refuse)
    return chosen, of_racks, of_machines


def what_is_read(filters: Iterable[OpenFilter], demand: Demand) -> Hashable:
    """What these filters read of a demand: their answers are the same for all that say the same."""
    return tuple((rule.name, rule.reads(demand)) for rule, _ in filters if isinstance(rule, DemandFilter))


def passes_all(refusals: Sequence[Refuse]) -> Passes | None:
    """Whether none of them refuses; None when there is none to ask."""
    if not refusals:
        return None
    return lambda item: all(refuse(item) is None for refuse in refusals)


def candidates(ledger: Ledger, demand: Demand) -> list[int]:
    """The machines that no filter refuses; the last resort only when it is alone."""
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    passing: list[int] = list(range(len(ledger.site.machines)))
    for _, refuse in refusals_by_machine(ledger, usage, demand):
        if refuse is not None:
            passing = [machine for machine in passing if refuse(machine) is None]
    return without_last_resort(ledger, demand, passing)


def without_last_resort(ledger: Ledger, demand: Demand, machines: list[int]) -> list[int]:
    """The machines but for the last resort; all of them when there is no other."""
    if demand.last_resort is None:
        return machines
    last_resort = ledger.site.index.get(demand.last_resort)
    return [machine for machine in machines if machine != last_resort] or machines


def choose(ledger: Ledger, demand: Demand, spread: RackSpread, seed: int) -> Record | None:
    """Where the VM goes; None when nothing fits. Counts nothing."""
    site = ledger.site
    passing = candidates(ledger, demand)
    if not passing:
        return None
    usage = ledger.usage(demand.vm.owner, demand.vm.pool)
    rack_key = pack(profile.RACK_KEYS[spread], usage, demand).figure
    machine_key = pack(profile.MACHINE_KEYS, usage, demand).figure
    vm_text = tie_break.of_vm(seed, demand.vm)
    racks = dict.fromkeys(site.rack_of[machine] for machine in passing)
    rack = _best(racks, rack_key, vm_text, site.rack_names)
    machines = [machine for machine in passing if site.rack_of[machine] == rack]
    machine = _best(machines, machine_key, vm_text, site.machine_names)
    shape = site.shape(demand.sku)
    step = shape.steps[ledger.rooms[machine]]
    assert step is not None
    return Record(site.pool(demand.vm), shape.number, machine, step.cells, demand.vm.number)


def _best(items: Iterable[int], key_of: Figure, vm_text: blake2b, names: Sequence[bytes]) -> int:
    """The item of the lowest key; among several the tie-break chooses."""
    keys = {item: key_of(item) for item in items}
    lowest = min(keys.values())
    tied = [item for item, key in keys.items() if key == lowest]
    return tied[tie_break.lowest(vm_text, names, tied)] if len(tied) > 1 else tied[0]
