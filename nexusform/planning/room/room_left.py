"""What a plan says of its sites, last of all: who stands where, and how much room is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from nexusform.demands import PoolDemand, VmDemand
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.occupancy import Room, SiteRoom
from nexusform.planning.plan import Action
from nexusform.planning.room.sides import OccupiedSite, Side, occupied_sites, site_records
from nexusform.planning.vms.sites import demand_for
from nexusform.planning.vms.triggers import batch_size
from nexusform.ports import Registries
from nexusform.scheduling.catalogue import by_size
from nexusform.scheduling.racks.model import CONTROL_PLANE, VmSku, anybodys, common_terms


def with_room(result: PlanResult, registries: Registries) -> PlanResult:
    """The result with `sites` and `room` in its plan. A plan in error has what stands, and no room."""
    plan = result.plan
    order = {change.address: position for position, change in enumerate(plan.changes)}
    before = occupied_sites(plan, result.objects, registries, Side.BEFORE)
    if plan.errored:
        return replace(result, plan=replace(plan, sites=site_records(before, before, order)))
    after = before
    if any(change.action is not Action.NO_OP for change in plan.changes):
        after = occupied_sites(plan, result.objects, registries, Side.AFTER)
    room = headroom(before, after)
    return replace(result, plan=replace(plan, sites=site_records(before, after, order), room=room))


def headroom(before: Mapping[str, OccupiedSite], after: Mapping[str, OccupiedSite]) -> tuple[SiteRoom, ...]:
    """The room of every site for every VM SKU in play: by site id, then the largest SKU first.

    In play are the SKUs of the NKS pools on either side; a site without any is left out.
    """
    sites = sorted({*before, *after})
    return tuple(room for site_id in sites for room in _rooms(before.get(site_id), after.get(site_id)))


def _rooms(old: OccupiedSite | None, new: OccupiedSite | None) -> Iterator[SiteRoom]:
    present = new or old
    assert present is not None, "a site stands on one side at least"
    site = present.site
    for sku in sorted({*_skus(old), *_skus(new)}, key=by_size, reverse=True):
        yield SiteRoom(site.id, site.name, sku.name, sku.numa_cells, _room(old, sku), _room(new, sku))


def _skus(occupied: OccupiedSite | None) -> Iterable[VmSku]:
    return (pool.sku for _, pool in occupied.pools) if occupied is not None else ()


def _room(occupied: OccupiedSite | None, sku: VmSku) -> Room | None:
    if occupied is None:
        return None
    pools = [(owner, pool) for owner, pool in occupied.pools if pool.sku == sku]
    terms = common_terms(pool.terms for _, pool in pools)
    by_rack = occupied.site.scheduler.free_by_rack(anybodys(sku, terms))
    free = sum(by_rack.values())
    worst = max(sorted(by_rack), key=lambda rack: by_rack[rack], default="")
    most = by_rack.get(worst, 0)
    crowded = [owner.cluster for owner, pool in pools if _is_crowded(occupied, owner, pool)]
    return Room(
        free,
        free - most,
        worst if most else "",
        tuple(dict.fromkeys(owner.cluster for owner, _ in pools)),
        tuple(dict.fromkeys(crowded)),
    )


def _is_crowded(occupied: OccupiedSite, owner: VmDemand, pool: PoolDemand) -> bool:
    demand = demand_for(owner, pool, 0)
    return occupied.site.scheduler.count_free(demand) < surge_size(pool)


def surge_size(pool: PoolDemand) -> int:
    """How many VMs a Kubernetes upgrade adds before it removes any."""
    size = len(pool.numbers)
    surge = 1 if pool.pool == CONTROL_PLANE else batch_size(pool.max_surge, size)
    return min(surge, size)
