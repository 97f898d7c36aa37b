"""What a plan says of its sites, last of all: who stands where, and how much room is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm, PoolDemand, VmDemand, number_order
from nexusform.diagnostics import Severity
from nexusform.planning.conclusion.held_before import with_held_before
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.verdicts.fit import DOES_NOT_FIT
from nexusform.planning.verdicts.separation import BROKEN
from nexusform.planning.verdicts.stranded import LOST_VMS
from nexusform.planning.vms.sites import (
    Ground,
    SitePlan,
    Thing,
    demand_for,
    lay_ground,
    occupy_outsiders,
    sku_of,
    vm_name,
)
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import Action, Change, Plan
from nexusform.plans.room.occupancy import OutsideVm, PoolVms, Room, SiteMachine, SiteRack, SiteRoom, SiteVms
from nexusform.plans.room.other_room import (
    Nodes,
    OtherRoom,
    declared_network,
    nodes_of,
    noted_supplies,
    other_room,
)
from nexusform.ports import Registries, ResourceType
from nexusform.scheduling.catalogue import by_size
from nexusform.scheduling.racks.vms import Interval, VmSku, anybodys, common_terms, total


def with_room(result: PlanResult, registries: Registries) -> PlanResult:
    """The result with `sites` and `room` in its plan, its warnings marked where they held before. A plan
    in error has what stands and no room; and what it would have placed, where places alone are what is wrong
    with it.
    """
    plan = result.plan
    order = {change.address: position for position, change in enumerate(plan.changes)}
    before = occupied_sites(plan, result.objects, registries, Side.BEFORE, result.noted)
    after = before
    if any(change.action is not Action.NO_OP for change in plan.changes) and _was_placed(plan):
        after = occupied_sites(plan, result.objects, registries, Side.AFTER)
    room = () if plan.errored else headroom(before, after)
    other = () if plan.errored else _other_room(result, before, after)
    records = _with_lost(site_records(before, after, order), plan)
    told = with_held_before(replace(plan, sites=records, room=room, room_other=other))
    return replace(result, plan=_with_lacks(told))


def _with_lacks(plan: Plan) -> Plan:
    """The plan with warnings of what does not do beside machines."""
    if not any(row.lacks for row in plan.room_other):
        return plan
    from nexusform.planning.conclusion.running_out import runs_out

    return replace(plan, diagnostics=(*plan.diagnostics, *runs_out(plan)))


def _with_lost(sites: tuple[SiteVms, ...], plan: Plan) -> tuple[SiteVms, ...]:
    """The sites with their forgotten VMs that lose their machine marked."""
    rows = chain.from_iterable(problem.extra.get(LOST_VMS, ()) for problem in plan.diagnostics)
    lost = {tuple(row) for row in rows}
    if not lost:
        return sites
    return tuple(
        replace(
            site,
            outsiders=tuple(
                replace(vm, lost=(site.id, vm.placement.machine, vm.name) in lost) for vm in site.outsiders
            ),
        )
        for site in sites
    )


def _was_placed(plan: Plan) -> bool:
    """Whether nothing is in error but places: then everything else is known."""
    errors = [problem for problem in plan.diagnostics if problem.severity is Severity.ERROR]
    return all(problem.id in (DOES_NOT_FIT, BROKEN) for problem in errors)


def _other_room(
    result: PlanResult, before: Mapping[str, OccupiedSite], after: Mapping[str, OccupiedSite]
) -> tuple[OtherRoom, ...]:
    """What is left beside machines on the sites that a provider looked at, by site id."""
    plan = result.plan
    looked_at = [(change, found) for change in plan.changes if (found := noted_supplies(change.private))]
    if not looked_at:
        return ()
    claimed = dict(chain.from_iterable(each.claimed().items() for each in result.contributions))
    claims = [{cluster: sides[at] for cluster, sides in claimed.items()} for at in (0, 1)]
    declared = {
        str(change.after.get("name")): network
        for change in plan.changes
        if change.after is not None and (network := declared_network(change.after))
    }
    rows: dict[str, tuple[OtherRoom, ...]] = {}
    for change, supplies in looked_at:
        attributes = change.after or change.before
        if attributes is None:
            continue
        site = str(attributes["name"])
        sides = [
            nodes_of(side[site].pools, declared, asked) if site in side else Nodes()
            for side, asked in zip((before, after), claims, strict=True)
        ]
        rows[site] = other_room(site, site, supplies, *sides)
    return tuple(chain.from_iterable(rows[site] for site in sorted(rows)))


def headroom(before: Mapping[str, OccupiedSite], after: Mapping[str, OccupiedSite]) -> tuple[SiteRoom, ...]:
    """The room of every site for every VM SKU in play: by site id, then the largest SKU first.

    In play are the SKUs of the NKS pools on either side; a site without any is left out.
    """
    rooms: list[SiteRoom] = []
    for site_id in sorted({*before, *after}):
        rooms += _rooms(before.get(site_id), after.get(site_id))
    return tuple(rooms)


def _rooms(before: OccupiedSite | None, after: OccupiedSite | None) -> Iterator[SiteRoom]:
    """The room of one site on both sides, for every SKU in play, the largest first."""
    present = after or before
    assert present is not None, "a site stands on one side at least"
    site = present.site
    for sku in sorted({*_skus(before), *_skus(after)}, key=by_size, reverse=True):
        room_before, room_after = _room(before, sku), _room(after, sku)
        yield SiteRoom(site.id, site.name, sku.name, sku.numa_cells, room_before, room_after)


def _skus(occupied: OccupiedSite | None) -> Iterable[VmSku]:
    return (pool.sku for _, pool in occupied.pools) if occupied is not None else ()


def _room(occupied: OccupiedSite | None, sku: VmSku) -> Room | None:
    """The room for one SKU on one side: in all, and with the rack lost that has most of it."""
    if occupied is None:
        return None
    pools = [(owner, pool) for owner, pool in occupied.pools if pool.sku == sku]
    terms = common_terms(pool.terms for _, pool in pools)
    by_rack = occupied.site.scheduler.free_by_rack(anybodys(sku, terms))
    free = total(by_rack.values())
    least = {rack: interval.least for rack, interval in by_rack.items()}
    worst_rack = max(sorted(least), key=lambda rack: least[rack], default="")
    # In every split the rack that holds most is lost: the least and the most of that are those of all racks.
    rack_lost = Interval(
        free.least - least.get(worst_rack, 0),
        free.most - max((interval.most for interval in by_rack.values()), default=0),
    )
    no_surge, unsure_surge = _without_surge(occupied, pools)
    return Room(
        free=free.least,
        rack_lost=rack_lost.least,
        worst_rack=worst_rack if least.get(worst_rack) else "",
        clusters=tuple(dict.fromkeys(owner.cluster for owner, _ in pools)),
        no_surge=no_surge,
        most_free=None if free.exact else free.most,
        most_rack_lost=None if rack_lost.exact else rack_lost.most,
        unsure_surge=unsure_surge,
    )


def _without_surge(
    occupied: OccupiedSite, pools: Iterable[tuple[VmDemand, PoolDemand]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clusters whose pools have no room for the VMs that an upgrade adds first, and those that may have
    none (where the cells of VMs are not known).
    """
    crowded: dict[str, None] = {}
    unsure: dict[str, None] = {}
    for owner, pool in pools:
        room = occupied.site.scheduler.count_free(demand_for(owner, pool, 0))
        if room.most < pool.surge:
            crowded[owner.cluster] = None
        elif room.least < pool.surge:
            unsure[owner.cluster] = None
    return tuple(crowded), tuple(cluster for cluster in unsure if cluster not in crowded)


# --- the sites on each side --------------------------------------------------------------------


class Side(Enum):
    """Before the plan, or after it."""

    BEFORE = "before"
    AFTER = "after"


class VmOnSite(Struct, frozen=True):
    """A VM on its machine, and whose it is."""

    address: Address
    cluster: str
    sku: VmSku
    vm: PlacedVm


class OccupiedSite(Struct):
    """One site on one side: its scheduler with everybody in it, and who they are.

    `pools` are the pools of NKS clusters, each with its demand, in the plan's order.
    """

    site: SitePlan
    vms: list[VmOnSite] = field(default_factory=list)
    outsiders: list[OutsideVm] = field(default_factory=list)
    pools: list[tuple[VmDemand, PoolDemand]] = field(default_factory=list)


def occupied_sites(
    plan: Plan,
    objects: Mapping[Address, VmObject],
    registries: Registries,
    side: Side,
    noted: Mapping[Address, Mapping[str, Any]] | None = None,
) -> dict[str, OccupiedSite]:
    """The sites on one side of a plan, by id. `objects` are the VMs that it read and decided, `noted` the
    notes of that side where they are not those that the plan leaves.
    """
    noted = noted or {}
    things = [
        _thing(change, side, registries, noted.get(change.address, change.private))
        for change in plan.changes
        if not change.deposed
    ]
    present = [thing for thing in things if thing is not None]
    ground = lay_ground(present, registries, plan.catalogue)
    sites = {site_id: OccupiedSite(site) for site_id, site in ground.sites.items()}
    for kind, thing in ground.things:
        planned = objects.get(thing.address)
        # What was refused may lack what it needs to say which VMs it asks for.
        refused = side is Side.AFTER and planned is not None and planned.instance.broken
        if kind.vms is not None and not refused:
            managed = side is Side.BEFORE or planned is None or not planned.asked.moves.forgotten
            _house(kind, thing, _vms(planned, side), ground, sites, managed=managed)
    # A VM that comes under the name of one that nobody manages is another one.
    standing = set(chain.from_iterable(vms.standing_names for vms in objects.values()))
    for occupied in sites.values():
        occupied.outsiders = occupy_outsiders(occupied.site, standing)
    return sites


def _thing(
    change: Change, side: Side, registries: Registries, private: Mapping[str, Any] | None
) -> Thing | None:
    """The object of a change on one side; None where there is none. VMs that are forgotten run on."""
    kind = registries.resource_types.get(change.address.type)
    runs_on = change.action is Action.FORGET and kind is not None and kind.vms is not None
    attributes = change.before if side is Side.BEFORE or runs_on else change.after
    return None if attributes is None else Thing(change.address, attributes, change.creation, private)


def _vms(planned: VmObject | None, side: Side) -> Sequence[PlacedVm]:
    """The VMs of an object on one side; none of one that has no VMs. Forgotten ones run on."""
    if planned is None:
        return ()
    if side is Side.BEFORE or planned.asked.moves.forgotten:
        return tuple(planned.before.standing.values())
    return planned.vms_after()


def _house(
    kind: ResourceType,
    thing: Thing,
    vms: Sequence[PlacedVm],
    ground: Ground,
    sites: Mapping[str, OccupiedSite],
    *,
    managed: bool,
) -> None:
    """Put the VMs of one object on their machines, one side's, pool by pool. What is not `managed` takes room
    and asks for none.
    """
    assert kind.vms is not None
    demand, _ = kind.vms.demand(thing.attributes, ground.surroundings, thing.address)
    occupied = sites.get(demand.site_id) if demand is not None else None
    if demand is None or occupied is None:
        return
    pools = {pool.pool: pool for pool in demand.pools}
    if managed:
        occupied.pools += [(demand, pool) for pool in demand.pools if pool.count_path]
    position_of = {name: position for position, name in enumerate(pools)}

    def order(vm: PlacedVm) -> tuple[object, ...]:
        return position_of.get(vm.pool, len(pools)), number_order(vm.number)

    for vm in sorted(vms, key=order):
        pool = pools.get(vm.pool)
        sku = sku_of(vm, pool, ground.skus)
        housed = occupied.site.house(vm_name(demand, pool, vm.pool, vm.number), sku, vm.placement)
        if housed is None:
            continue
        _, place = housed
        placed = vm if place == vm.placement else replace(vm, placement=place)
        occupied.vms.append(VmOnSite(thing.address, demand.cluster, sku, placed))


# --- both sides together -----------------------------------------------------------------------


def site_records(
    before: Mapping[str, OccupiedSite],
    after: Mapping[str, OccupiedSite],
    order: Mapping[Address, int],
) -> tuple[SiteVms, ...]:
    """What a plan says of its sites, by id. `order` is that of the objects in the plan."""
    site_ids = sorted({*before, *after})
    return tuple(_site(before.get(site_id), after.get(site_id), order) for site_id in site_ids)


def _site(before: OccupiedSite | None, after: OccupiedSite | None, order: Mapping[Address, int]) -> SiteVms:
    """A site with its racks, machines and VMs on both sides."""
    present = after or before
    assert present is not None, "a site stands on one side at least"
    outsiders = [*(before.outsiders if before else ()), *(after.outsiders if after else ())]
    each_once = {(vm.placement.machine, vm.name): vm for vm in outsiders}
    return SiteVms(
        present.site.id,
        present.site.name,
        _racks(before, after),
        _machines(before, after),
        _pools(before.vms if before else (), after.vms if after else (), order),
        tuple(each_once.values()),
    )


def _racks(before: OccupiedSite | None, after: OccupiedSite | None) -> tuple[SiteRack, ...]:
    """The racks on either side; one on both as it is after the plan."""
    both_sides = [*(before.site.racks if before else ()), *(after.site.racks if after else ())]
    racks = {rack.name: rack for rack in both_sides}
    return tuple(SiteRack(rack.name, rack.availability_zone, rack.planned) for rack in racks.values())


def _machines(before: OccupiedSite | None, after: OccupiedSite | None) -> tuple[SiteMachine, ...]:
    """The machines on either side; one on both as it is after the plan."""
    machines_before = before.site.machines if before else {}
    machines_after = after.site.machines if after else {}
    machines = {**machines_before, **machines_after}
    return tuple(
        SiteMachine(machine, name in machines_before, name in machines_after)
        for name, machine in machines.items()
    )


_PoolKey: TypeAlias = tuple[Address, str, VmSku]


def _pools(
    before: Iterable[VmOnSite], after: Iterable[VmOnSite], order: Mapping[Address, int]
) -> tuple[PoolVms, ...]:
    """The pools by resource in the plan's order; in each those that stand afterwards come first."""
    pools_before, pools_after = _by_pool(before), _by_pool(after)
    keys = sorted(dict.fromkeys((*pools_after, *pools_before)), key=lambda key: order[key[0]])
    return tuple(_pool(pools_before.get(key, []), pools_after.get(key, [])) for key in keys)


def _by_pool(vms: Iterable[VmOnSite]) -> dict[_PoolKey, list[VmOnSite]]:
    pools: dict[_PoolKey, list[VmOnSite]] = {}
    for housed in vms:
        pools.setdefault((housed.address, housed.vm.pool, housed.sku), []).append(housed)
    return pools


def _pool(before: Sequence[VmOnSite], after: Sequence[VmOnSite]) -> PoolVms:
    """The VMs of one pool on both sides."""
    first = (after or before)[0]
    vms_before = {housed.vm.name: housed.vm for housed in before}
    vms_after = {housed.vm.name: housed.vm for housed in after}
    return PoolVms(
        first.address,
        first.cluster,
        first.vm.pool,
        first.sku,
        kept=tuple(vm for name, vm in vms_after.items() if vms_before.get(name) == vm),
        left=tuple(vm for name, vm in vms_before.items() if vms_after.get(name) != vm),
        came=tuple(vm for name, vm in vms_after.items() if vms_before.get(name) != vm),
    )
