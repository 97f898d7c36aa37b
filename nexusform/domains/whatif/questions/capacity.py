"""Spare capacity of a site: by SKU and zone, with one rack down, and for a mix.

Planned racks count. The mix is one of SKUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import floor

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.whatif.questions.cell_fragmentation import (
    FragmentationCounts,
    compute_cell_fragmentation,
    find_largest_sku,
)
from nexusform.interfaces.plugins import PlanningKind
from nexusform.planning.hypothesis.start_points import StartPoint
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.plans.site_capacity.site_resource_capacity import SiteResourceCapacity
from nexusform.scheduling.racks.layout import Share
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.splits import count_blocked_vms
from nexusform.scheduling.racks.vms import (
    Demand,
    Interval,
    Machine,
    PlacementConstraints,
    VmName,
    VmSku,
    build_standalone_demand,
    convert_to_gib,
    find_common_constraints,
    sum_count_intervals,
)
from nexusform.scheduling.site_inventory import InventoryRack
from nexusform.snapshots.snapshot import SiteSnapshot

_OWNER = "what-if"
_UNBOUNDED = 1 << 40


class ZoneCapacity(Struct, frozen=True):
    """Number of additional VMs of a SKU in one zone; `planned` counts planned racks only."""

    zone: str
    current: Interval
    planned: int


class SkuCapacity(Struct, frozen=True):
    """Number of additional VMs of a SKU if nothing else is placed.

    `without_rack` has the capacity of the other racks by lost rack; VMs of the lost rack are down
    and not re-created. `unusable_vcpus` and `unusable_memory_gib` are free but unusable after
    filling the site with this SKU.
    """

    sku: VmSku
    current: Interval
    planned: int
    zones: tuple[ZoneCapacity, ...]
    without_rack: Mapping[str, Interval]
    unusable_vcpus: Interval
    unusable_memory_gib: Interval

    @property
    def with_planned(self) -> Interval:
        """Number of additional VMs with every planned rack active."""
        return self.current + Interval(self.planned, self.planned)

    @property
    def worst_rack(self) -> str:
        """Name of the worst rack to lose: the fewest VMs fit on the others.

        Of several such racks it is the first one by name. It is "" without racks.
        """
        return min(self.without_rack, key=lambda rack: self.without_rack[rack].minimum, default="")

    @property
    def with_one_rack_down(self) -> Interval:
        """Number of additional VMs after the loss of one rack, the worst one; 0 without racks."""
        minimum = min((interval.minimum for interval in self.without_rack.values()), default=0)
        return Interval(
            minimum, min((interval.maximum for interval in self.without_rack.values()), default=0)
        )


class Totals(Struct, frozen=True):
    """Total and free vCPUs and GiB of the machines open to new VMs."""

    machines: int
    vcpus: int
    memory_gib: float
    free_vcpus: int
    free_memory_gib: float


class CapacityAnswer(Struct, frozen=True):
    """Capacity of one site.

    `zones` None means all. `closed` is the number of machines closed to new VMs by reason. Counts
    hold for every legal split of the VMs of `machines_with_unknown_cells` over NUMA cells;
    `overfull` machines have no legal split. `unplaced` are VMs without a known machine.
    `other_capacities` are capacities besides machines.
    """

    site_id: str
    zones: tuple[str, ...] | None
    totals: Totals
    closed: Mapping[str, int]
    planned_racks: tuple[str, ...]
    sku_capacities: tuple[SkuCapacity, ...]
    fragmentation: FragmentationCounts
    mix: MixAnswer | None = None
    has_requested_skus: bool = False
    machines_with_unknown_cells: tuple[str, ...] = ()
    overfull: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    other_capacities: tuple[SiteResourceCapacity, ...] = ()

    @property
    def has_findings(self) -> bool:
        """Whether a requested SKU or mix does not fit."""
        # Not even one complete set fits.
        if self.mix is not None and self.mix.sets.maximum == 0:
            return True
        return self.has_requested_skus and any(
            capacity.current.maximum == 0 for capacity in self.sku_capacities
        )


def compute_site_capacity(
    site: SiteSnapshot,
    skus: Sequence[VmSku] = (),
    zones: frozenset[str] | None = None,
    mix: Sequence[SkuCount] = (),
    start: StartPoint | None = None,
) -> CapacityAnswer:
    """Compute how many further VMs of each SKU a site can hold.

    The result also has the limits of its free capacity.

    Without `skus`, count those in use and the largest supported one. `zones` None means all. `mix`
    has SKUs with counts in one set, such as 3 VMs of one and 1 of another: the number of complete
    sets is computed. `start` has the objects of the site, to count planned racks: they are active
    in a hypothetical plan. Raises DiagnosticsError if that cannot be made.
    """

    def is_requested(zone: str) -> bool:
        return zones is None or zone in zones

    machines = [
        machine for machine in site.machines.values() if is_requested(machine.availability_zone)
    ]
    requested_names = frozenset(machine.name for machine in machines)
    planned = [
        rack for rack in site.racks if rack.is_planned and is_requested(rack.availability_zone)
    ]
    active_scheduler: RackScheduler | None = None
    if planned:
        assert start is not None, "planned racks count in a plan"
        active_scheduler = _activate_planned_racks(start, site.id)
    # A cell is usable if a VM of this SKU fits (None: the largest).
    measured_sku = skus[0] if len(skus) == 1 else None
    fragmentation = compute_cell_fragmentation(site, machines, measured_sku)
    # Machines closed to new VMs, by reason.
    closed = Counter(machine.unschedulable_reason for machine in machines)
    # Machines without a reason are open to new VMs.
    del closed[""]
    totals = _compute_totals(machines, fragmentation)
    counted_skus = tuple(skus) or _select_default_skus(site, machines)
    unknown_cells = site.scheduler.list_machines_with_unknown_cells()
    mix_constraints = {
        part.sku.name: replace(_find_common_constraints(site, part.sku), zones=zones)
        for part in mix
    }
    return CapacityAnswer(
        site_id=site.id,
        zones=None if zones is None else tuple(sorted(zones, key=str.encode)),
        totals=totals,
        closed=closed,
        planned_racks=tuple(rack.name for rack in planned),
        sku_capacities=tuple(
            _compute_sku_capacity(sku, site, zones, planned, active_scheduler, totals)
            for sku in counted_skus
        ),
        fragmentation=fragmentation,
        mix=count_complete_sets(site.scheduler, mix, mix_constraints) if mix else None,
        has_requested_skus=bool(skus),
        machines_with_unknown_cells=tuple(
            name for name in unknown_cells if name in requested_names
        ),
        overfull=tuple(
            name for name in site.scheduler.list_overfull_machines() if name in requested_names
        ),
        unplaced=site.vms_without_machine,
        other_capacities=site.other_capacity,
    )


def _compute_totals(machines: Sequence[Machine], fragmentation: FragmentationCounts) -> Totals:
    """Sum the vCPUs and memory of the machines open to new VMs.

    Their free part is counted by `fragmentation`.
    """
    open_machines = [machine for machine in machines if not machine.unschedulable_reason]
    return Totals(
        machines=len(open_machines),
        vcpus=sum(machine.cells * machine.cpus_per_cell for machine in open_machines),
        memory_gib=convert_to_gib(
            sum(machine.cells * machine.memory_mib_per_cell for machine in open_machines)
        ),
        free_vcpus=fragmentation.free_vcpus,
        free_memory_gib=fragmentation.free_memory_gib,
    )


def _compute_sku_capacity(
    sku: VmSku,
    site: SiteSnapshot,
    zones: frozenset[str] | None,
    planned: Sequence[InventoryRack],
    active_scheduler: RackScheduler | None,
    totals: Totals,
) -> SkuCapacity:
    """Compute the capacity for a SKU alone.

    It has the capacity in total, by zone (None: all zones), in the `planned` racks, and with each
    rack lost. In `active_scheduler` the planned racks are active (None: there is none). `totals`
    has the free vCPUs and GiB: some of them stay unusable.
    """
    constraints = _find_common_constraints(site, sku)
    demand = build_standalone_demand(sku, replace(constraints, zones=zones))
    free_by_rack = site.scheduler.count_free_slots_by_rack(demand)
    # Number of VMs.
    planned_by_rack: dict[str, int] = {}
    zone_by_rack: dict[str, str] = {}
    if active_scheduler is not None:
        slots_by_rack = active_scheduler.count_free_slots_by_rack(demand)
        for rack in planned:
            # A rack without an open machine has no slots.
            slots = slots_by_rack.get(rack.name, Interval(0, 0))
            planned_by_rack[rack.name] = slots.minimum
            zone_by_rack[rack.name] = rack.availability_zone
    for machine in site.machines.values():
        if machine.rack in free_by_rack:
            zone_by_rack[machine.rack] = machine.availability_zone
    total_free = sum_count_intervals(free_by_rack.values())
    # Capacity of the other racks, in byte order of the lost rack.
    without_rack: dict[str, Interval] = {}
    for rack_name in sorted(free_by_rack, key=str.encode):
        free = free_by_rack[rack_name]
        without_rack[rack_name] = Interval(
            total_free.minimum - free.minimum, total_free.maximum - free.maximum
        )
    # After filling the site, free vCPUs and GiB are left: the fewest if the most VMs fit.
    # Of one VM.
    vcpus = sku.cpus_in_cell * sku.numa_cells
    memory = sku.memory_in_cell * sku.numa_cells
    unusable_vcpus = Interval(
        floor(totals.free_vcpus - total_free.maximum * vcpus),
        floor(totals.free_vcpus - total_free.minimum * vcpus),
    )
    unusable_memory = Interval(
        floor(totals.free_memory_gib - total_free.maximum * memory),
        floor(totals.free_memory_gib - total_free.minimum * memory),
    )
    return SkuCapacity(
        sku=sku,
        current=total_free,
        planned=sum(planned_by_rack.values()),
        zones=_group_by_zone(zone_by_rack, free_by_rack, planned_by_rack),
        without_rack=without_rack,
        unusable_vcpus=unusable_vcpus,
        unusable_memory_gib=unusable_memory,
    )


def _activate_planned_racks(start: StartPoint, site_id: str) -> RackScheduler:
    """Return the scheduler of a site in the hypothetical plan with its planned racks active."""
    edits = [
        ArgumentAdjustment(change.address, ("status",), "active")
        for change in start.before.plan.changes
        if change.after is not None
        and start.request.registries.get_kind(change.address.type) is PlanningKind.RACK
        and (change.after.get("site_id"), change.after.get("status")) == (site_id, "planned")
    ]
    return start.plan_site(site_id, edits).sites[site_id].scheduler


def _find_common_constraints(site: SiteSnapshot, sku: VmSku) -> PlacementConstraints:
    """Find the placement constraints common to all pools of a SKU on the site."""
    return find_common_constraints(
        pool.demand.constraints for pool in site.pools if pool.sku == sku
    )


def _group_by_zone(
    zone_by_rack: Mapping[str, str],
    free_by_rack: Mapping[str, Interval],
    planned_by_rack: Mapping[str, int],
) -> tuple[ZoneCapacity, ...]:
    """Group the capacity of racks by zone, in byte order.

    `zone_by_rack` has all racks. `free_by_rack` has the number of further VMs in existing racks,
    and `planned_by_rack` the number in planned ones.
    """
    # Names by zone.
    racks = group_by(sorted(zone_by_rack, key=str.encode), lambda rack: zone_by_rack[rack])
    capacities: list[ZoneCapacity] = []
    for zone in sorted(racks, key=str.encode):
        zone_racks = racks[zone]
        # Planned racks have no free capacity now.
        free = sum_count_intervals(
            free_by_rack[rack] for rack in zone_racks if rack in free_by_rack
        )
        planned = sum(planned_by_rack.get(rack, 0) for rack in zone_racks)
        capacities.append(ZoneCapacity(zone, free, planned))
    return tuple(capacities)


def _select_default_skus(site: SiteSnapshot, machines: Sequence[Machine]) -> tuple[VmSku, ...]:
    """Select the SKUs of NKS pools and VNFs on the site and the largest one, largest first."""
    skus = {pool.sku for pool in site.pools if pool.sku.name in site.skus}
    largest = find_largest_sku(site, machines)
    if largest is not None:
        skus.add(largest)
    return tuple(sorted(skus, key=_build_size_key))


def _build_size_key(sku: VmSku) -> tuple[float, int, str]:
    """Build the sort key of a SKU: largest memory first, then most vCPUs, then the name."""
    return -sku.memory_gib, -sku.host_vcpus, sku.name


class SkuCount(Struct, frozen=True):
    """Number of VMs of one SKU in every set."""

    count: int
    sku: VmSku


class MixAnswer(Struct, frozen=True):
    """Number of complete sets of a mix.

    `sets` fit if all VMs are placed at once, larger SKUs first, and `sets` + 1 do not;
    `sequential_sets` fit if set follows set. `short` is the SKU the next set lacks, by `missing`
    VMs. `remaining` are additional VMs of each SKU next to the `sets`. With unknown NUMA cells all
    are bounds, `remaining` applies to the minimum of sets, and `short` is None.
    """

    parts: tuple[SkuCount, ...]
    sets: Interval
    sequential_sets: Interval
    short: VmSku | None
    missing: int
    remaining: tuple[tuple[VmSku, Interval], ...]


def count_complete_sets(
    scheduler: RackScheduler,
    parts: Sequence[SkuCount],
    constraints: Mapping[str, PlacementConstraints],
) -> MixAnswer:
    """Compute the number of complete sets of the mix, each with the VMs of all `parts`.

    `constraints` are by SKU name. They are placed part by part, the largest SKU first.
    `sequential_sets` are those of a placement set by set.
    """
    # The largest SKU comes first.
    ordered = sorted(parts, key=lambda part: _build_size_key(part.sku))
    # Only bounds: another layout may have capacity for fewer sets.
    if scheduler.list_machines_with_unknown_cells():
        return _compute_mix_bounds(scheduler, parts, constraints)
    # Find the number of sets by bisection: at most as many as any part alone allows.
    sets = 0
    bound = min(
        _count_fitting(scheduler, part.sku, constraints).maximum // part.count for part in ordered
    )
    while sets < bound:
        middle = (sets + bound + 1) // 2
        missing_sku, _ = _try_to_place_sets(scheduler.copy(), ordered, middle, constraints)
        if missing_sku is None:
            sets = middle
        else:
            bound = middle - 1
    # One more set shows the first SKU without capacity (`short`), and how many of its VMs
    # do not fit.
    short, missing_count = _try_to_place_sets(scheduler.copy(), ordered, sets + 1, constraints)
    # The scheduler of the caller stays unchanged.
    filled = scheduler.copy()
    _try_to_place_sets(filled, ordered, sets, constraints)
    return MixAnswer(
        parts=tuple(parts),
        sets=Interval(sets, sets),
        sequential_sets=_count_sequential_sets(scheduler.copy(), ordered, constraints),
        short=short,
        missing=missing_count,
        remaining=tuple(
            (part.sku, _count_fitting(filled, part.sku, constraints)) for part in parts
        ),
    )


def _compute_mix_bounds(
    scheduler: RackScheduler,
    parts: Sequence[SkuCount],
    constraints: Mapping[str, PlacementConstraints],
) -> MixAnswer:
    """Compute bounds of the number of sets while NUMA cells are unknown.

    The maximum is that of the scarcest part, as if alone on the site. The minimum assumes the worst
    place for each VM: there it blocks the most VMs of other parts.
    """
    # VMs of each part alone.
    free = [_count_fitting(scheduler, part.sku, constraints) for part in parts]
    maximum = min(
        interval.maximum // part.count for part, interval in zip(parts, free, strict=True)
    )
    # By how much a set reduces `free`.
    reductions = [_compute_reduction(scheduler, part, parts) for part in parts]
    certain_sets = [
        interval.minimum // reduction for interval, reduction in zip(free, reductions, strict=True)
    ]
    minimum = min(maximum, *certain_sets)
    remaining = [
        (
            part.sku,
            Interval(
                interval.minimum - minimum * reduction, interval.maximum - minimum * part.count
            ),
        )
        for part, interval, reduction in zip(parts, free, reductions, strict=True)
    ]
    sets = Interval(minimum, maximum)
    return MixAnswer(
        tuple(parts), sets, sequential_sets=sets, short=None, missing=0, remaining=tuple(remaining)
    )


def _compute_reduction(scheduler: RackScheduler, part: SkuCount, parts: Sequence[SkuCount]) -> int:
    """Return how many VMs of `part` a set of the mix takes at most.

    Its own ones, and those blocked by other parts.
    """
    sku = part.sku
    share = Share.compute(part.sku)
    # A VM of several cells can choose among more cells of a machine: no number is certain.
    if sku.numa_cells > 1 and any(machine.cells > sku.numa_cells for machine in scheduler.machines):
        return _UNBOUNDED
    blocked_count = sum(
        other.count * count_blocked_vms(Share.compute(other.sku), share)
        for other in parts
        if other is not part
    )
    return part.count + blocked_count


def _count_fitting(
    scheduler: RackScheduler, sku: VmSku, constraints: Mapping[str, PlacementConstraints]
) -> Interval:
    """Count how many VMs of a SKU fit if nothing else is added.

    `constraints` are by name of the SKU.
    """
    return scheduler.count_free_slots(build_standalone_demand(sku, constraints[sku.name]))


def _try_to_place_sets(
    scheduler: RackScheduler,
    parts: Sequence[SkuCount],
    sets: int,
    constraints: Mapping[str, PlacementConstraints],
) -> tuple[VmSku | None, int]:
    """Place this many sets of the mix in `scheduler`, part by part.

    Return the first SKU without capacity, and the number of its VMs without a place. Return (None,
    0) if all fit.
    """
    for index, part in enumerate(parts):
        count = sets * part.count
        for number in range(count):
            if scheduler.try_place(_build_demand(index, part, number, constraints)) is None:
                return part.sku, count - number
    return None, 0


def _count_sequential_sets(
    scheduler: RackScheduler,
    parts: Sequence[SkuCount],
    constraints: Mapping[str, PlacementConstraints],
) -> Interval:
    """Place complete sets in `scheduler`, set after set, until a VM does not fit.

    Return their exact number.
    """
    sets = 0
    while True:
        for index, part in enumerate(parts):
            for number in range(sets * part.count, (sets + 1) * part.count):
                if scheduler.try_place(_build_demand(index, part, number, constraints)) is None:
                    return Interval(sets, sets)
        sets += 1


def _build_demand(
    index: int, part: SkuCount, number: int, constraints: Mapping[str, PlacementConstraints]
) -> Demand:
    """Build the demand of one VM of a mix.

    Each part (at `index`) counts as a pool of its own.
    """
    name = VmName(_OWNER, _OWNER, f"{index}-{part.sku.name}", number)
    return Demand(name, part.sku, constraints[part.sku.name])
