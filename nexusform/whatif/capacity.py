"""How many more VMs a site holds: by SKU, by zone, with planned racks, without any one rack, and of a mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Machine, Terms, VmName, VmSku, anybodys, common_terms
from nexusform.scheduling.world import RackOffer
from nexusform.whatif.fragmentation import Fragmentation, find_fragmentation, largest_sku, skus_in_use
from nexusform.whatif.world_view import SiteView

_OWNER = "what-if"


class ZoneRoom(Struct, frozen=True):
    """How many more VMs of a SKU the racks of one zone hold; `planned` counts planned racks alone."""

    zone: str
    racks: tuple[str, ...]
    now: int
    planned: int


class SkuRoom(Struct, frozen=True):
    """How many more VMs of a SKU fit, nothing else being placed.

    `without_rack` says for each rack how many the other racks hold as they stand: the VMs of the lost
    rack are down and nowhere else. `rest_vcpus` and `rest_memory_gib` are free and unusable once the
    site is filled with this SKU.
    """

    sku: VmSku
    now: int
    planned: int
    zones: tuple[ZoneRoom, ...]
    without_rack: Mapping[str, int]
    rest_vcpus: int
    rest_memory_gib: int

    @property
    def with_planned(self) -> int:
        """With every planned rack active."""
        return self.now + self.planned

    @property
    def worst_rack(self) -> str:
        """The rack whose loss leaves the least room (the first by name); "" without racks."""
        return min(self.without_rack, key=lambda rack: self.without_rack[rack], default="")

    @property
    def with_a_rack_lost(self) -> int:
        """How many fit whichever rack is lost."""
        return min(self.without_rack.values(), default=0)


class Figures(Struct, frozen=True):
    """vCPUs and GiB on machines that take new VMs: in all, and free."""

    machines: int
    vcpus: int
    memory_gib: int
    free_vcpus: int
    free_memory_gib: int


class CapacityAnswer(Struct, frozen=True):
    """The room of one site. `zones` None = all. `closed` are machines that take no new VMs, by why."""

    site_id: str
    zones: tuple[str, ...] | None
    figures: Figures
    closed: Mapping[str, int]
    planned_racks: tuple[str, ...]
    rooms: tuple[SkuRoom, ...]
    fragmentation: Fragmentation
    mix: MixAnswer | None = None
    asked: bool = False

    @property
    def bad(self) -> bool:
        """Whether something that was asked for does not fit."""
        short = self.asked and any(room.now == 0 for room in self.rooms)
        return short or (self.mix is not None and self.mix.sets == 0)


def find_capacity(
    site: SiteView,
    skus: Sequence[VmSku] = (),
    zones: frozenset[str] | None = None,
    mix: Sequence[MixPart] = (),
) -> CapacityAnswer:
    """Count. Without `skus`: those in use on the site, and the largest that its hardware lists."""
    machines = [
        machine for machine in site.machines.values() if zones is None or machine.availability_zone in zones
    ]
    racks = [rack for rack in site.racks if zones is None or rack.availability_zone in zones]
    planned = [rack for rack in racks if rack.planned]
    fragmentation = find_fragmentation(site, machines, skus[0] if len(skus) == 1 else None)
    figures = _figures(machines, fragmentation)
    asked = tuple(skus) or _usual_skus(site, machines)
    return CapacityAnswer(
        site.id,
        None if zones is None else tuple(sorted(zones, key=str.encode)),
        figures,
        Counter(machine.refusal for machine in machines if machine.refusal),
        tuple(rack.name for rack in planned),
        tuple(_room(sku, site, zones, planned, figures) for sku in asked),
        fragmentation,
        fill_with_mix(site.scheduler, mix, zones) if mix else None,
        bool(skus),
    )


def _figures(machines: Iterable[Machine], fragmentation: Fragmentation) -> Figures:
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
    terms = common_terms(pool.demand.terms for pool in site.pools if pool.sku == sku)
    now = site.scheduler.free_by_rack(anybodys(sku, replace(terms, zones=zones)))
    coming = {rack.name: RackScheduler(rack.machines).count_free(anybodys(sku, terms)) for rack in planned}
    zone_of = {rack.name: rack.availability_zone for rack in planned}
    zone_of |= {
        machine.rack: machine.availability_zone for machine in site.machines.values() if machine.rack in now
    }
    fitting = sum(now.values())
    return SkuRoom(
        sku,
        fitting,
        sum(coming.values()),
        _zones(zone_of, now, coming),
        {rack: fitting - now[rack] for rack in sorted(now, key=str.encode)},
        figures.free_vcpus - fitting * sku.cpus_in_cell * sku.numa_cells,
        figures.free_memory_gib - fitting * sku.memory_in_cell * sku.numa_cells,
    )


def _zones(
    zone_of: Mapping[str, str], now: Mapping[str, int], coming: Mapping[str, int]
) -> tuple[ZoneRoom, ...]:
    """The room by zone, in byte order. `zone_of`, `now` and `coming` are by rack."""
    racks: dict[str, list[str]] = {}
    for rack in sorted(zone_of, key=str.encode):
        racks.setdefault(zone_of[rack], []).append(rack)
    rooms: list[ZoneRoom] = []
    for zone in sorted(racks, key=str.encode):
        of_zone = racks[zone]
        free = sum(now.get(rack, 0) for rack in of_zone)
        planned = sum(coming.get(rack, 0) for rack in of_zone)
        rooms.append(ZoneRoom(zone, tuple(of_zone), free, planned))
    return tuple(rooms)


def _usual_skus(site: SiteView, machines: Sequence[Machine]) -> tuple[VmSku, ...]:
    """The SKUs of NKS pools and VNFs on the site and the largest one, larger first."""
    skus = {sku for sku in skus_in_use(site) if sku.name in site.skus}
    largest = largest_sku(site, machines)
    if largest is not None:
        skus.add(largest)
    return tuple(sorted(skus, key=_larger_first))


def _larger_first(sku: VmSku) -> tuple[int, int, str]:
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
    """

    parts: tuple[MixPart, ...]
    sets: int
    one_by_one: int
    short: VmSku | None
    missing: int
    left: tuple[tuple[VmSku, int], ...]


def fill_with_mix(
    scheduler: RackScheduler, parts: Sequence[MixPart], zones: frozenset[str] | None = None
) -> MixAnswer:
    """Find how many whole sets fit. Changes nothing."""
    ordered = sorted(parts, key=lambda part: _larger_first(part.sku))
    sets = _most_sets(scheduler, ordered, zones)
    short, missing = _place_sets(scheduler.copy(), ordered, sets + 1, zones)
    full = scheduler.copy()
    _place_sets(full, ordered, sets, zones)
    return MixAnswer(
        tuple(parts),
        sets,
        _one_by_one(scheduler.copy(), ordered, zones),
        short,
        missing,
        tuple((part.sku, _count_free(full, part.sku, zones)) for part in parts),
    )


def _count_free(scheduler: RackScheduler, sku: VmSku, zones: frozenset[str] | None) -> int:
    return scheduler.count_free(anybodys(sku, Terms(zones)))


def _most_sets(scheduler: RackScheduler, parts: Sequence[MixPart], zones: frozenset[str] | None) -> int:
    """How many sets fit when all VMs are placed at once: no more than fit of any part alone."""
    fitting = 0
    bound = min(_count_free(scheduler, part.sku, zones) // part.count for part in parts)
    while fitting < bound:
        middle = (fitting + bound + 1) // 2
        short, _ = _place_sets(scheduler.copy(), parts, middle, zones)
        if short is None:
            fitting = middle
        else:
            bound = middle - 1
    return fitting


def _place_sets(
    scheduler: RackScheduler, parts: Sequence[MixPart], sets: int, zones: frozenset[str] | None
) -> tuple[VmSku | None, int]:
    """Place so many sets. Gives the first SKU that falls short and by how many; None and 0 when all fit."""
    for index, part in enumerate(parts):
        count = sets * part.count
        for number in range(count):
            if scheduler.attempt(_demand(index, part, number, zones)) is None:
                return part.sku, count - number
    return None, 0


def _one_by_one(scheduler: RackScheduler, parts: Sequence[MixPart], zones: frozenset[str] | None) -> int:
    """How many sets fit when each is placed whole before the next."""
    sets = 0
    while True:
        for index, part in enumerate(parts):
            for number in range(sets * part.count, (sets + 1) * part.count):
                if scheduler.attempt(_demand(index, part, number, zones)) is None:
                    return sets
        sets += 1


def _demand(index: int, part: MixPart, number: int, zones: frozenset[str] | None) -> Demand:
    return Demand(VmName(_OWNER, _OWNER, f"{index}-{part.sku.name}", number), part.sku, Terms(zones))
