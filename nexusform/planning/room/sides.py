"""The sites of a plan as they stand on one side of it: before it, or after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm, PoolDemand, VmDemand, by_number
from nexusform.planning.occupancy import OutsideVm
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
    for site in sites.values():
        _house_outsiders(site)
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


def _house_outsiders(occupied: OccupiedSite) -> None:
    scheduler = occupied.site.scheduler
    managed = {vm.handle for vm in scheduler.vms()}
    occupy_outsiders(occupied.site)
    occupied.outsiders = [
        OutsideVm(vm.sku.name, vm.sku, vm.placement) for vm in scheduler.vms() if vm.handle not in managed
    ]
