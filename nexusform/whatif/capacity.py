"""How many more VMs a site holds: by SKU, by zone, with planned racks, with any one rack lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.model import Machine, VmSku, anybodys, common_terms
from nexusform.scheduling.world import RackOffer
from nexusform.whatif.fragmentation import Fragmentation, find_fragmentation, largest_sku
from nexusform.whatif.mix import MixAnswer, MixPart, fill_with_mix
from nexusform.whatif.world_view import SiteView


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
    here = [m for m in site.machines.values() if zones is None or m.availability_zone in zones]
    planned = [r for r in site.racks if r.planned and (zones is None or r.availability_zone in zones)]
    fragmentation = find_fragmentation(site, here, skus[0] if len(skus) == 1 else None)
    taking = [m for m in here if not m.refusal]
    figures = Figures(
        machines=len(taking),
        vcpus=sum(m.cells * m.cpus_per_cell for m in taking),
        memory_gib=sum(m.cells * m.memory_gib_per_cell for m in taking),
        free_vcpus=fragmentation.free_vcpus,
        free_memory_gib=fragmentation.free_memory_gib,
    )
    asked = tuple(skus) or _usual_skus(site, here)
    return CapacityAnswer(
        site.id,
        None if zones is None else tuple(sorted(zones, key=str.encode)),
        figures,
        Counter(m.refusal for m in here if m.refusal),
        tuple(rack.name for rack in planned),
        tuple(_room(sku, site, zones, planned, figures) for sku in asked),
        fragmentation,
        fill_with_mix(site.scheduler, mix, zones) if mix else None,
        bool(skus),
    )


def _room(
    sku: VmSku,
    site: SiteView,
    zones: frozenset[str] | None,
    planned: Sequence[RackOffer],
    figures: Figures,
) -> SkuRoom:
    pools = [pool for cluster in site.clusters for pool in cluster.pools if pool.sku == sku]
    terms = common_terms(pool.demand.terms for pool in pools)
    by_rack = site.scheduler.free_by_rack(anybodys(sku, replace(terms, zones=zones)))
    coming = {rack.name: RackScheduler(rack.machines).count_free(anybodys(sku, terms)) for rack in planned}
    now = sum(by_rack.values())
    zone_of = {rack.name: rack.availability_zone for rack in planned}
    zone_of |= {m.rack: m.availability_zone for m in site.machines.values() if m.rack in by_rack}
    return SkuRoom(
        sku,
        now,
        sum(coming.values()),
        tuple(
            _zone(zone, zone_of, by_rack, coming) for zone in sorted(set(zone_of.values()), key=str.encode)
        ),
        {name: now - by_rack[name] for name in sorted(by_rack, key=str.encode)},
        figures.free_vcpus - now * sku.cpus_in_cell * sku.numa_cells,
        figures.free_memory_gib - now * sku.memory_in_cell * sku.numa_cells,
    )


def _zone(
    zone: str, zone_of: Mapping[str, str], by_rack: Mapping[str, int], coming: Mapping[str, int]
) -> ZoneRoom:
    racks = sorted((rack for rack, its in zone_of.items() if its == zone), key=str.encode)
    return ZoneRoom(
        zone,
        tuple(racks),
        sum(by_rack.get(rack, 0) for rack in racks),
        sum(coming.get(rack, 0) for rack in racks),
    )


def _usual_skus(site: SiteView, here: Sequence[Machine]) -> tuple[VmSku, ...]:
    """The SKUs of NKS pools and VNFs on the site and the largest one, larger first."""
    used = {pool.sku for cluster in site.clusters for pool in cluster.pools if pool.sku.name in site.skus}
    largest = largest_sku(site, here)
    if largest is not None:
        used.add(largest)
    return tuple(sorted(used, key=lambda s: (-s.memory_gib, -s.host_vcpus, s.name)))
