"""How much room a plan leaves: the figures that a reviewer asks for first.

Free cells are counted for the largest VM SKU in play, nothing else being placed. With a rack lost,
what is free on the others counts; the VMs of the lost rack are not created again elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from nexusform.demands import PoolDemand
from nexusform.planning.plan import Plan
from nexusform.planning.vms.triggers import batch_size
from nexusform.ports import Registries
from nexusform.scheduling.catalogue import largest_sku
from nexusform.scheduling.racks.model import CONTROL_PLANE, VmSku
from nexusform.whatif.plan_sites import PlanSite, sites_after, sites_before


class Room(Struct, frozen=True):
    """What is free on a site at one moment.

    `free` VMs of the SKU fit; `rack_lost` of them are left when the rack that holds most of them is
    lost (`worst_rack`, "" when no rack holds any). `no_surge` names the clusters of which a pool
    would not find room for the VMs that an upgrade adds first; `clusters` is how many there are.
    """

    free: int
    rack_lost: int
    worst_rack: str
    no_surge: tuple[str, ...]
    clusters: int


class Headroom(Struct, frozen=True):
    """The room of one site for the largest SKU in play, which spans `cells` NUMA cells; None where
    the site does not stand.
    """

    site_id: str
    site: str
    sku: str
    cells: int
    before: Room | None
    after: Room | None


def headroom(plan: Plan, registries: Registries) -> tuple[Headroom, ...]:
    """The room of every site before and after the plan, by site id; none for a plan in error.

    A site on which no NKS pool stands on either side is left out: there is no SKU to count.
    """
    if plan.errored:
        return ()
    return headroom_of(sites_before(plan, registries), sites_after(plan, registries))


def headroom_of(before: dict[str, PlanSite], after: dict[str, PlanSite]) -> tuple[Headroom, ...]:
    """The same from the sites."""
    found = []
    for site_id in sorted({*before, *after}):
        old, new = before.get(site_id), after.get(site_id)
        largest = largest_sku([*_skus(old), *_skus(new)])
        if largest is None:
            continue
        name = (new or old or after[site_id]).site.name
        found.append(
            Headroom(
                site_id, name, largest.name, largest.numa_cells, _room(old, largest), _room(new, largest)
            )
        )
    return tuple(found)


def _skus(place: PlanSite | None) -> Iterable[VmSku]:
    return (pool.sku for _, pool in place.pools) if place is not None else ()


def _room(place: PlanSite | None, sku: VmSku) -> Room | None:
    if place is None:
        return None
    by_rack = place.site.scheduler.free_by_rack(sku)
    free = sum(by_rack.values())
    worst = max(sorted(by_rack), key=lambda rack: by_rack[rack], default="")
    most = by_rack.get(worst, 0)
    clusters = dict.fromkeys(cluster for cluster, _ in place.pools)
    return Room(free, free - most, worst if most else "", _no_surge(place), len(clusters))


def _no_surge(place: PlanSite) -> tuple[str, ...]:
    known: dict[tuple[str, frozenset[str] | None], int] = {}
    crowded: dict[str, None] = {}
    for cluster, pool in place.pools:
        key = (pool.sku.name, pool.zones)
        if key not in known:
            known[key] = place.site.scheduler.count_free(pool.sku, pool.zones)
        if known[key] < _surge(pool):
            crowded[cluster] = None
    return tuple(crowded)


def _surge(pool: PoolDemand) -> int:
    """How many VMs a Kubernetes upgrade adds before it removes any."""
    size = len(pool.numbers)
    return min(1 if pool.pool == CONTROL_PLANE else batch_size(pool.max_surge, size), size)
