"""Upgrades of Kubernetes as a plan carries them out: pool by pool, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from nexusform.demands import PoolDemand
from nexusform.planning.plan import Disruptions, PoolUpgrade, Upgrade
from nexusform.planning.vms.vm_object import ROLLING, VmObject


def upgrades_of(
    objects: Iterable[VmObject], disruptions: Iterable[Callable[[str], Disruptions]]
) -> Iterator[Upgrade]:
    """The upgrades of a plan, cluster by cluster; a separate pool is upgraded with its cluster. `disruptions`
    say what draining the nodes of a cluster (its id) meets.
    """
    disruptions = list(disruptions)
    of_clusters: dict[str, list[VmObject]] = {}
    for vms in objects:
        if vms.demand is not None and ROLLING in vms.moves.again.values():
            of_clusters.setdefault(vms.demand.owner, []).append(vms)
    for owner, members in of_clusters.items():
        cluster_id = owner.partition(":")[2]
        yield _upgrade(members, [of_cluster(cluster_id) for of_cluster in disruptions])


def _upgrade(members: Sequence[VmObject], disruptions: Sequence[Disruptions]) -> Upgrade:
    first = members[0]
    assert first.demand is not None
    before = first.prior_demand.version if first.prior_demand is not None else None
    return Upgrade(
        address=first.instance.address,
        cluster=first.demand.cluster,
        site_id=first.demand.site_id,
        before=before or "",
        after=first.demand.version or "",
        pools=tuple(_pool(vms, pool) for vms in members for pool in _rolling_pools(vms)),
        budgets=tuple(chain.from_iterable(each.budgets for each in disruptions)),
        single_replicas=tuple(chain.from_iterable(each.single_replicas for each in disruptions)),
    )


def _rolling_pools(vms: VmObject) -> Iterator[PoolDemand]:
    for pool in vms.pools:
        if any(vms.moves.again.get((pool.pool, number)) == ROLLING for number in pool.numbers):
            yield pool


def _pool(vms: VmObject, pool: PoolDemand) -> PoolUpgrade:
    """How one pool goes: with surge new VMs come before the old leave, without it after."""
    keys = [(pool.pool, number) for number in pool.numbers]
    rolling = [key for key in keys if vms.moves.again.get(key) == ROLLING]
    stops_at = next((at // pool.batch + 1 for at, key in enumerate(rolling) if key in vms.failed), 0)
    failed = next((vms.failed[key] for key in rolling if key in vms.failed), None)
    at_once = min(pool.batch, len(rolling))
    return PoolUpgrade(
        pool=pool.pool,
        sku=pool.sku.name,
        vms=len(rolling),
        at_once=at_once,
        batches=-(-len(rolling) // pool.batch),
        surges=pool.surge > 0,
        fewest_up=len(keys) if pool.surge else len(keys) - at_once,
        stops_at=stops_at,
        reason=failed.reason if failed is not None else "",
    )
