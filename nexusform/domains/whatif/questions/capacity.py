"""How many more VMs a site holds: by SKU, by zone, with planned racks, without any one rack, and of a mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import floor

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.fragmentation import (
    Fragmentation,
    find_fragmentation,
    largest_sku,
    skus_in_use,
)
from nexusform.plans.room.other_room import OtherRoom
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.layout import Share
from nexusform.scheduling.racks.uncertainty.splits import kept_away
from nexusform.scheduling.racks.vms import (
    Demand,
    Interval,
    Machine,
    Terms,
    VmName,
    VmSku,
    anybodys,
    common_terms,
    total,
)
from nexusform.scheduling.world import RackOffer
from nexusform.worlds.world_view import SiteView

_OWNER = "what-if"
_WITHOUT_BOUND = 1 << 40


class ZoneRoom(Struct, frozen=True):
    """How many more VMs of a SKU the racks of one zone hold; `planned` counts planned racks alone."""

    zone: str
    racks: tuple[str, ...]
    now: Interval
    planned: int


class SkuRoom(Struct, frozen=True):
    """How many more VMs of a SKU fit, nothing else being placed.

    `without_rack` says for each rack how many the other racks hold as they stand: the VMs of the lost
    rack are down and nowhere else. `rest_vcpus` and `rest_memory_gib` are free and unusable once the
    site is filled with this SKU.
    """

    sku: VmSku
    now: Interval
    planned: int
    zones: tuple[ZoneRoom, ...]
    without_rack: Mapping[str, Interval]
    rest_vcpus: Interval
    rest_memory_gib: Interval

    @property
    def with_planned(self) -> Interval:
        """How many more fit with every planned rack active."""
        return self.now + Interval(self.planned, self.planned)

    @property
    def worst_rack(self) -> str:
        """The rack whose loss leaves the least room (the first by name); "" without racks."""
        return min(self.without_rack, key=lambda rack: self.without_rack[rack].least, default="")

    @property
    def with_a_rack_lost(self) -> Interval:
        """How many fit whichever rack is lost."""
        least = min((interval.least for interval in self.without_rack.values()), default=0)
        return Interval(least, min((interval.most for interval in self.without_rack.values()), default=0))


class Figures(Struct, frozen=True):
    """vCPUs and GiB on machines that take new VMs: in all, and free."""

    machines: int
    vcpus: int
    memory_gib: int
    free_vcpus: int
    free_memory_gib: float


class CapacityAnswer(Struct, frozen=True):
    """The room of one site. `zones` None = all. `closed` are machines that take no new VMs, by why.

    `loose` are the machines with VMs whose NUMA cells nobody told: counts hold for all ways in which those
    may lie. On `overfull` ones they cannot lie in any way. `homeless` are VMs that no machine is known of.
    `other` is what is left beside machines.
    """

    site_id: str
    zones: tuple[str, ...] | None
    figures: Figures
    closed: Mapping[str, int]
    planned_racks: tuple[str, ...]
    rooms: tuple[SkuRoom, ...]
    fragmentation: Fragmentation
    mix: MixAnswer | None = None
    asked: bool = False
    loose: tuple[str, ...] = ()
    overfull: tuple[str, ...] = ()
    homeless: tuple[str, ...] = ()
    other: tuple[OtherRoom, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether something that was asked for does not fit."""
        short = self.asked and any(room.now.most == 0 for room in self.rooms)
        return short or (self.mix is not None and self.mix.sets.most == 0)


def find_capacity(
    site: SiteView,
    skus: Sequence[VmSku] = (),
    zones: frozenset[str] | None = None,
    mix: Sequence[MixPart] = (),
) -> CapacityAnswer:
    """Count. Without `skus`: those in use on the site, and the largest that its hardware lists."""

    def is_asked(zone: str) -> bool:
        return zones is None or zone in zones

    machines = [machine for machine in site.machines.values() if is_asked(machine.availability_zone)]
    names = frozenset(machine.name for machine in machines)
    planned = [rack for rack in site.racks if rack.planned and is_asked(rack.availability_zone)]
    fragmentation = find_fragmentation(site, machines, skus[0] if len(skus) == 1 else None)
    figures = _figures(machines, fragmentation)
    counted_skus = tuple(skus) or _usual_skus(site, machines)
    mix_terms = {part.sku.name: replace(_usual_terms(site, part.sku), zones=zones) for part in mix}
    return CapacityAnswer(
        site_id=site.id,
        zones=None if zones is None else tuple(sorted(zones, key=str.encode)),
        figures=figures,
        closed=Counter(machine.refusal for machine in machines if machine.refusal),
        planned_racks=tuple(rack.name for rack in planned),
        rooms=tuple(_room(sku, site, zones, planned, figures) for sku in counted_skus),
        fragmentation=fragmentation,
        mix=fill_with_mix(site.scheduler, mix, mix_terms) if mix else None,
        asked=bool(skus),
        loose=tuple(name for name in site.scheduler.loose_machines() if name in names),
        overfull=tuple(name for name in site.scheduler.overfull_machines() if name in names),
        homeless=site.homeless,
        other=site.other,
    )


def _figures(machines: Iterable[Machine], fragmentation: Fragmentation) -> Figures:
    """The figures of the machines that take VMs."""
    taking = [machine for machine in machines if not machine.refusal]
    return Figures(
        machines=len(taking),
        vcpus=sum(machine.cells * machine.cpus_per_cell for machine in taking),
        memory_gib=sum(machine.cells * machine.memory_gib_per_cell for machine in taking),
        free_vcpus=fragmentation.free_vcpus,
        free_memory_gib=fragmentation.free_memory_gib,
    )


def _room(
    sku: VmSku,
    site: SiteView,
    zones: frozenset[str] | None,
    planned: Sequence[RackOffer],
    figures: Figures,
) -> SkuRoom:
    """How many more VMs of a SKU fit, by zone, and with one rack lost."""
    terms = _usual_terms(site, sku)
    free_on = site.scheduler.free_by_rack(anybodys(sku, replace(terms, zones=zones)))
    planned_on: dict[str, int] = {}
    zone_of: dict[str, str] = {}
    for rack in planned:
        # Nothing stands on planned racks, so their room is known.
        planned_on[rack.name] = RackScheduler(rack.machines).count_free(anybodys(sku, terms)).least
        zone_of[rack.name] = rack.availability_zone
    for machine in site.machines.values():
        if machine.rack in free_on:
            zone_of[machine.rack] = machine.availability_zone
    fitting = total(free_on.values())
    return SkuRoom(
        sku=sku,
        now=fitting,
        planned=sum(planned_on.values()),
        zones=_zones(zone_of, free_on, planned_on),
        without_rack={rack: _without(fitting, free_on[rack]) for rack in sorted(free_on, key=str.encode)},
        rest_vcpus=_left_over(figures.free_vcpus, fitting, sku.cpus_in_cell * sku.numa_cells),
        rest_memory_gib=_left_over(figures.free_memory_gib, fitting, sku.memory_in_cell * sku.numa_cells),
    )


def _usual_terms(site: SiteView, sku: VmSku) -> Terms:
    """What the pools of the site that have this SKU ask of the rule alike."""
    return common_terms(pool.demand.terms for pool in site.pools if pool.sku == sku)


def _without(fitting: Interval, on_rack: Interval) -> Interval:
    """How many VMs fit in all when those that fit on one rack do not."""
    return Interval(fitting.least - on_rack.least, fitting.most - on_rack.most)


def _left_over(free: float, fitting: Interval, of_each: float) -> Interval:
    """What is left of free vCPUs or GiB once the VMs that fit are there, each taking `of_each`."""
    return Interval(floor(free - fitting.most * of_each), floor(free - fitting.least * of_each))


def _zones(
    zone_of: Mapping[str, str], free_on: Mapping[str, Interval], planned_on: Mapping[str, int]
) -> tuple[ZoneRoom, ...]:
    """The room by zone, in byte order. By rack: its zone, how many VMs fit there now, and how many once it
    is there.
    """
    racks: dict[str, list[str]] = {}
    for rack in sorted(zone_of, key=str.encode):
        racks.setdefault(zone_of[rack], []).append(rack)
    rooms: list[ZoneRoom] = []
    for zone in sorted(racks, key=str.encode):
        of_zone = racks[zone]
        free = total(free_on[rack] for rack in of_zone if rack in free_on)
        planned = sum(planned_on.get(rack, 0) for rack in of_zone)
        rooms.append(ZoneRoom(zone, tuple(of_zone), free, planned))
    return tuple(rooms)


def _usual_skus(site: SiteView, machines: Sequence[Machine]) -> tuple[VmSku, ...]:
    """The SKUs of NKS pools and VNFs on the site and the largest one, larger first."""
    skus = {sku for sku in skus_in_use(site) if sku.name in site.skus}
    largest = largest_sku(site, machines)
    if largest is not None:
        skus.add(largest)
    return tuple(sorted(skus, key=_larger_first))


def _larger_first(sku: VmSku) -> tuple[float, int, str]:
    return -sku.memory_gib, -sku.host_vcpus, sku.name


# --- a mix of SKUs -----------------------------------------------------------------------------


class MixPart(Struct, frozen=True):
    """So many VMs of a SKU in every set."""

    count: int
    sku: VmSku


class MixAnswer(Struct, frozen=True):
    """How often the mix fits, placed by the rule.

    `sets` whole sets fit when all VMs are placed at once, larger SKUs first, and `sets` + 1 do not;
    `one_by_one` fit when set follows set. `short` is the SKU of which the next set has too few, with how
    many were `missing`. `left` says how many more VMs of each SKU fit beside the `sets`.

    Where the NUMA cells of VMs are not known all of these are bounds, not exact ones, `left` is beside the
    least sets, and nothing is `short`.
    """

    parts: tuple[MixPart, ...]
    sets: Interval
    one_by_one: Interval
    short: VmSku | None
    missing: int
    left: tuple[tuple[VmSku, Interval], ...]


def fill_with_mix(
    scheduler: RackScheduler, parts: Sequence[MixPart], terms: Mapping[str, Terms]
) -> MixAnswer:
    """Find how many whole sets fit; `terms` is what VMs of each SKU ask for, by its name. Changes nothing."""
    ordered = sorted(parts, key=lambda part: _larger_first(part.sku))
    if scheduler.loose_machines():
        return _bounded_mix(scheduler, parts, terms)
    sets = _most_sets(scheduler, ordered, terms)
    short, missing = _place_sets(scheduler.copy(), ordered, sets + 1, terms)
    full = scheduler.copy()
    _place_sets(full, ordered, sets, terms)
    return MixAnswer(
        parts=tuple(parts),
        sets=Interval(sets, sets),
        one_by_one=_one_by_one(scheduler.copy(), ordered, terms),
        short=short,
        missing=missing,
        left=tuple((part.sku, _count_free(full, part.sku, terms)) for part in parts),
    )


def _bounded_mix(scheduler: RackScheduler, parts: Sequence[MixPart], terms: Mapping[str, Terms]) -> MixAnswer:
    """Bounds where splits are not known: at most as many sets as fit of any part alone; at least as many as
    fit if every VM keeps as many of the others away as its size can, wherever the rule puts it.
    """
    free = [_count_free(scheduler, part.sku, terms) for part in parts]
    most = min(interval.most // part.count for part, interval in zip(parts, free, strict=True))
    taken = [_taken_by_a_set(scheduler, part, parts) for part in parts]
    surely = [interval.least // by_a_set for interval, by_a_set in zip(free, taken, strict=True)]
    least = min(most, *surely)
    left = [
        (part.sku, Interval(interval.least - least * by_a_set, interval.most - least * part.count))
        for part, interval, by_a_set in zip(parts, free, taken, strict=True)
    ]
    sets = Interval(least, most)
    return MixAnswer(tuple(parts), sets, sets, None, 0, tuple(left))


def _taken_by_a_set(scheduler: RackScheduler, part: MixPart, parts: Iterable[MixPart]) -> int:
    """How much a set lowers the count of one of its SKUs at most; without bound for a SKU of several cells
    on a machine that has more, where the choice of cells matters.
    """
    sku = part.sku
    if sku.numa_cells > 1 and any(machine.cells > sku.numa_cells for machine in scheduler.machines):
        return _WITHOUT_BOUND
    share = Share.of(sku)
    kept_away_by_others = 0
    for other_part in parts:
        if other_part is not part:
            kept_away_by_others += other_part.count * kept_away(Share.of(other_part.sku), share)
    return part.count + kept_away_by_others


def _count_free(scheduler: RackScheduler, sku: VmSku, terms: Mapping[str, Terms]) -> Interval:
    return scheduler.count_free(anybodys(sku, terms[sku.name]))


def _most_sets(scheduler: RackScheduler, parts: Sequence[MixPart], terms: Mapping[str, Terms]) -> int:
    """How many sets fit when all VMs are placed at once: no more than fit of any part alone."""
    fitting = 0
    bound = min(_count_free(scheduler, part.sku, terms).most // part.count for part in parts)
    while fitting < bound:
        middle = (fitting + bound + 1) // 2
        short, _ = _place_sets(scheduler.copy(), parts, middle, terms)
        if short is None:
            fitting = middle
        else:
            bound = middle - 1
    return fitting


def _place_sets(
    scheduler: RackScheduler, parts: Sequence[MixPart], sets: int, terms: Mapping[str, Terms]
) -> tuple[VmSku | None, int]:
    """Place so many sets. Gives the first SKU that falls short and by how many; None and 0 when all fit."""
    for index, part in enumerate(parts):
        count = sets * part.count
        for number in range(count):
            if scheduler.attempt(_demand(index, part, number, terms)) is None:
                return part.sku, count - number
    return None, 0


def _one_by_one(scheduler: RackScheduler, parts: Sequence[MixPart], terms: Mapping[str, Terms]) -> Interval:
    """How many sets fit when each is placed whole before the next."""
    sets = 0
    while True:
        for index, part in enumerate(parts):
            for number in range(sets * part.count, (sets + 1) * part.count):
                if scheduler.attempt(_demand(index, part, number, terms)) is None:
                    return Interval(sets, sets)
        sets += 1


def _demand(index: int, part: MixPart, number: int, terms: Mapping[str, Terms]) -> Demand:
    """VM `number` of the part at `index` of a mix: every part is a pool of its own."""
    name = VmName(_OWNER, _OWNER, f"{index}-{part.sku.name}", number)
    return Demand(name, part.sku, terms[part.sku.name])
