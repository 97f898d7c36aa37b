"""The sites of a plan, as they stand before it and after it, put together from the plan alone.

A saved plan holds every object on both sides, so its sites can be looked at long after it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.demands import PoolDemand, StandingVm, VmDemand
from nexusform.planning.plan import Change, Plan
from nexusform.planning.vms.sites import SitePlan, occupy_outsiders
from nexusform.ports import Registries, VmFamily
from nexusform.scheduling.racks.model import Placement, VmSku
from nexusform.whatif.standing import Ground, Thing, lay_ground, stand

Attributes = Mapping[str, Any]


class HousedVm(Struct, frozen=True):
    """One VM of a resource where it stands; `sku` has zeros when nothing is known of it."""

    address: Address
    owner: str
    cluster: str
    pool: str
    number: int | str
    name: str
    sku: VmSku
    placement: Placement
    provenance: str


class OutsideVm(Struct, frozen=True):
    """A VM that nexusform does not manage: capacity that an `occupied` block holds."""

    name: str
    sku: VmSku
    placement: Placement


class PlanSite(Struct):
    """One site at one moment: its scheduler with everybody in it, and who they are.

    `pools` are the pools of NKS clusters with the name of their cluster, in the plan's order.
    """

    site: SitePlan
    vms: list[HousedVm] = field(default_factory=list)
    outsiders: list[OutsideVm] = field(default_factory=list)
    pools: list[tuple[str, PoolDemand]] = field(default_factory=list)


def sites_before(plan: Plan, registries: Registries) -> dict[str, PlanSite]:
    """The sites as the plan found them, by id."""
    return _sites(plan, registries, ((c, c.before) for c in plan.changes if not c.deposed))


def sites_after(plan: Plan, registries: Registries) -> dict[str, PlanSite]:
    """The sites as the plan leaves them, by id."""
    return _sites(plan, registries, ((c, c.after) for c in plan.changes if not c.deposed))


def _sites(
    plan: Plan, registries: Registries, sides: Iterable[tuple[Change, Attributes | None]]
) -> dict[str, PlanSite]:
    things = (Thing(change.address, side, change.creation) for change, side in sides if side is not None)
    ground = lay_ground(things, registries, plan.catalogue)
    found = {site_id: PlanSite(site) for site_id, site in ground.sites.items()}
    for kind, thing in ground.things:
        if kind.vms is not None:
            _house(kind.vms, thing, ground, found)
    for place in found.values():
        managed = {vm.handle for vm in place.site.scheduler.vms()}
        occupy_outsiders(place.site)
        place.outsiders = [
            OutsideVm(vm.sku.name, vm.sku, vm.placement)
            for vm in place.site.scheduler.vms()
            if vm.handle not in managed
        ]
    return found


def _house(vms: VmFamily, thing: Thing, ground: Ground, sites: Mapping[str, PlanSite]) -> None:
    demand, _ = vms.demand(thing.attributes, ground.surroundings, thing.address)
    place = sites.get(demand.site_id) if demand is not None else None
    if demand is None or place is None:
        return
    pools = {pool.pool: pool for pool in demand.pools}
    place.pools += [(demand.cluster, pool) for pool in demand.pools if pool.count_path]
    for vm in sorted(vms.standing(thing.attributes), key=lambda vm: _order(vm, list(pools))):
        pool = pools.get(vm.pool)
        sku = _sku(vm, pool, ground.skus)
        stood = stand(place.site, demand, pool, vm, sku)
        if stood is not None:
            place.vms.append(_housed(thing.address, demand, vm, sku, stood[1]))


def _order(vm: StandingVm, pools: list[str]) -> tuple[int, bool, int, str]:
    at = pools.index(vm.pool) if vm.pool in pools else len(pools)
    whole = isinstance(vm.number, int)
    return at, not whole, int(vm.number) if whole else 0, str(vm.number)


def _sku(vm: StandingVm, pool: PoolDemand | None, skus: Mapping[str, VmSku]) -> VmSku:
    if pool is not None and pool.sku.name == vm.sku_name:
        return pool.sku
    unknown = VmSku(vm.sku_name, 0, 0, 0, 0, max(len(vm.placement.cells), 1))
    return skus.get(vm.sku_name, unknown)


def _housed(address: Address, demand: VmDemand, vm: StandingVm, sku: VmSku, placement: Placement) -> HousedVm:
    return HousedVm(
        address,
        demand.owner,
        demand.cluster,
        vm.pool,
        vm.number,
        vm.name,
        sku,
        placement,
        vm.provenance,
    )
