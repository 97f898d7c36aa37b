"""The sites of a plan with their VMs on each side of it, and as its records tell both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm, PoolDemand, VmDemand, by_number
from nexusform.planning.occupancy import OutsideVm, PoolVms, SiteMachine, SiteRack, SiteVms
from nexusform.planning.plan import Change, Plan
from nexusform.planning.room.ground import Ground, Thing, lay_ground
from nexusform.planning.vms.sites import SitePlan, occupy_outsiders, sku_of, vm_name
from nexusform.planning.vms.vm_object import VmObject
from nexusform.ports import Registries, ResourceType
from nexusform.scheduling.racks.model import VmSku


class Side(Enum):
    """Before the plan, or after it."""

    BEFORE = "before"
    AFTER = "after"


class HousedVm(Struct, frozen=True):
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
    vms: list[HousedVm] = field(default_factory=list)
    outsiders: list[OutsideVm] = field(default_factory=list)
    pools: list[tuple[VmDemand, PoolDemand]] = field(default_factory=list)


def occupied_sites(
    plan: Plan, objects: Mapping[Address, VmObject], registries: Registries, side: Side
) -> dict[str, OccupiedSite]:
    """The sites on one side of a plan, by id. `objects` are the VMs that it read and decided."""
    changes = [change for change in plan.changes if not change.deposed]
    things = [thing for change in changes if (thing := _thing(change, side)) is not None]
    ground = lay_ground(things, registries, plan.catalogue)
    sites = {site_id: OccupiedSite(site) for site_id, site in ground.sites.items()}
    for kind, thing in ground.things:
        if kind.vms is not None:
            vms = _vms(objects.get(thing.address), side)
            _house(kind, thing, vms, ground, sites)
    for occupied in sites.values():
        occupied.outsiders = occupy_outsiders(occupied.site)
    return sites


def _thing(change: Change, side: Side) -> Thing | None:
    attributes = change.before if side is Side.BEFORE else change.after
    return None if attributes is None else Thing(change.address, attributes, change.creation)


def _vms(planned: VmObject | None, side: Side) -> Sequence[PlacedVm]:
    if planned is None:
        return ()
    return tuple(planned.standing.values()) if side is Side.BEFORE else planned.vms_after()


def _house(
    kind: ResourceType,
    thing: Thing,
    vms: Sequence[PlacedVm],
    ground: Ground,
    sites: Mapping[str, OccupiedSite],
) -> None:
    assert kind.vms is not None
    demand, _ = kind.vms.demand(thing.attributes, ground.surroundings, thing.address)
    occupied = sites.get(demand.site_id) if demand is not None else None
    if demand is None or occupied is None:
        return
    pools = {pool.pool: pool for pool in demand.pools}
    occupied.pools += [(demand, pool) for pool in demand.pools if pool.count_path]
    order = {name: at for at, name in enumerate(pools)}
    for vm in sorted(vms, key=lambda vm: (order.get(vm.pool, len(order)), by_number(vm))):
        pool = pools.get(vm.pool)
        sku = sku_of(vm, pool, ground.skus)
        housed = occupied.site.house(vm_name(demand, pool, vm.pool, vm.number), sku, vm.placement)
        if housed is not None:
            here = vm if housed[1] == vm.placement else replace(vm, placement=housed[1])
            occupied.vms.append(HousedVm(thing.address, demand.cluster, sku, here))


# --- both sides together -----------------------------------------------------------------------


def site_records(
    before: Mapping[str, OccupiedSite],
    after: Mapping[str, OccupiedSite],
    order: Mapping[Address, int],
) -> tuple[SiteVms, ...]:
    """What a plan says of its sites, by id. `order` is that of the objects in the plan."""
    return tuple(_site(before.get(i), after.get(i), order) for i in sorted({*before, *after}))


def _site(old: OccupiedSite | None, new: OccupiedSite | None, order: Mapping[Address, int]) -> SiteVms:
    present = new or old
    assert present is not None, "a site stands on one side at least"
    outsiders = {(vm.placement.machine, vm.name): vm for side in (old, new) if side for vm in side.outsiders}
    return SiteVms(
        present.site.id,
        present.site.name,
        _racks(old, new),
        _machines(old, new),
        _pools(old.vms if old else (), new.vms if new else (), order),
        tuple(outsiders.values()),
    )


def _racks(old: OccupiedSite | None, new: OccupiedSite | None) -> tuple[SiteRack, ...]:
    racks = {rack.name: rack for side in (old, new) if side for rack in side.site.racks}
    return tuple(SiteRack(rack.name, rack.availability_zone, rack.planned) for rack in racks.values())


def _machines(old: OccupiedSite | None, new: OccupiedSite | None) -> tuple[SiteMachine, ...]:
    before = old.site.machines if old else {}
    after = new.site.machines if new else {}
    names = dict.fromkeys((*before, *after))
    return tuple(SiteMachine(after.get(n) or before[n], n in before, n in after) for n in names)


_PoolKey: TypeAlias = tuple[Address, str, VmSku]


def _pools(
    before: Iterable[HousedVm], after: Iterable[HousedVm], order: Mapping[Address, int]
) -> tuple[PoolVms, ...]:
    """By resource in the plan's order; in a resource the pools that stand after it, then those that leave."""
    old, new = _by_pool(before), _by_pool(after)
    keys = sorted(dict.fromkeys((*new, *old)), key=lambda key: order[key[0]])
    return tuple(_pool(old.get(key, []), new.get(key, [])) for key in keys)


def _by_pool(vms: Iterable[HousedVm]) -> dict[_PoolKey, list[HousedVm]]:
    pools: dict[_PoolKey, list[HousedVm]] = {}
    for housed in vms:
        pools.setdefault((housed.address, housed.vm.pool, housed.sku), []).append(housed)
    return pools


def _pool(before: Sequence[HousedVm], after: Sequence[HousedVm]) -> PoolVms:
    first = (after or before)[0]
    old = {housed.vm.name: housed.vm for housed in before}
    new = {housed.vm.name: housed.vm for housed in after}
    return PoolVms(
        first.address,
        first.cluster,
        first.vm.pool,
        first.sku,
        kept=tuple(vm for name, vm in new.items() if old.get(name) == vm),
        left=tuple(vm for name, vm in old.items() if new.get(name) != vm),
        came=tuple(vm for name, vm in new.items() if old.get(name) != vm),
    )
