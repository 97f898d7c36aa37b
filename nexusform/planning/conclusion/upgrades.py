"""Upgrades of Kubernetes as a plan carries them out: pool by pool, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nexusform.demands import PoolDemand
from nexusform.planning.plan import PoolUpgrade, Upgrade
from nexusform.planning.vms.vm_object import ROLLING, VmObject, batch_size, surge_of

if TYPE_CHECKING:  # loaded where there is a fleet
    from nexusform.domains.pods.planning.phase import PodPhase


def upgrades_of(objects: Iterable[VmObject], pods: PodPhase | None) -> Iterator[Upgrade]:
    """The upgrades of a plan, cluster by cluster; a separate pool is upgraded with its cluster."""
    of_clusters: dict[str, list[VmObject]] = {}
    for vms in objects:
        if vms.demand is not None and ROLLING in vms.moves.again.values():
            of_clusters.setdefault(vms.demand.owner, []).append(vms)
    for owner, members in of_clusters.items():
        yield _upgrade(owner, members, pods)


def _upgrade(owner: str, members: list[VmObject], pods: PodPhase | None) -> Upgrade:
    first = members[0]
    assert first.demand is not None
    before = first.prior_demand.version if first.prior_demand is not None else None
    budgets: tuple[str, ...] = ()
    singles: tuple[str, ...] = ()
    if pods is not None:
        budgets, singles = pods.disruptions(owner.partition(":")[2])
    return Upgrade(
        address=first.instance.address,
        cluster=first.demand.cluster,
        site_id=first.demand.site_id,
        before=before or "",
        after=first.demand.version or "",
        pools=tuple(_pool(vms, pool) for vms in members for pool in _rolling_pools(vms)),
        budgets=budgets,
        single_replicas=singles,
    )


def _rolling_pools(vms: VmObject) -> Iterator[PoolDemand]:
    for pool in vms.pools:
        if any(vms.moves.again.get((pool.pool, number)) == ROLLING for number in pool.numbers):
            yield pool


def _pool(vms: VmObject, pool: PoolDemand) -> PoolUpgrade:
    """How one pool goes: with surge new VMs come before the old leave, without it after."""
    keys = [(pool.pool, number) for number in pool.numbers]
    rolling = [key for key in keys if vms.moves.again.get(key) == ROLLING]
    surge = surge_of(pool)
    size = surge or max(batch_size(pool.max_unavailable, len(keys)), 1)
    stops_at = next((at // size + 1 for at, key in enumerate(rolling) if key in vms.failed), 0)
    failed = next((vms.failed[key] for key in rolling if key in vms.failed), None)
    at_once = min(size, len(rolling))
    return PoolUpgrade(
        pool=pool.pool,
        sku=pool.sku.name,
        vms=len(rolling),
        at_once=at_once,
        batches=-(-len(rolling) // size),
        surges=surge > 0,
        fewest_up=len(keys) if surge else len(keys) - at_once,
        stops_at=stops_at,
        reason=failed.reason if failed is not None else "",
    )
