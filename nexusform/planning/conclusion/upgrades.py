"""Nodes that a plan makes anew pool by pool: upgrades of Kubernetes batch by batch, other changes at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec.structs import replace

from nexusform.demands import PoolDemand
from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.planning.conclusion.placements import platform_shrinks
from nexusform.planning.vms.sites import SitePlan, vm_name
from nexusform.planning.vms.vm_object import ROLLING, VmKey, VmObject, changed_argument
from nexusform.plans.plan import Disruptions, PoolUpgrade, Upgrade
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.uncertainty.certainty import Token, replay
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import first_of, form

_Pool: TypeAlias = tuple[VmObject, PoolDemand]
_MOST_NAMED: Final = 4
_Name: TypeAlias = tuple[str, str]  # of a pool: the address of its object, and what it is called there


def upgrades_of(
    objects: Iterable[VmObject],
    disruptions: Iterable[Callable[[str, Collection[str]], Disruptions]],
    sites: Mapping[str, SitePlan],
) -> Iterator[Upgrade]:
    """The clusters of which whole pools are made anew, a record for each reason; a separate pool counts with
    its cluster. `disruptions` say what draining such nodes (names) of a cluster (its id) meets; `sites` are
    as the plan leaves them.
    """
    objects, disruptions = list(objects), list(disruptions)
    of_clusters: dict[tuple[str, str], list[tuple[VmObject, PoolDemand]]] = {}
    for vms in objects:
        if vms.asked.demand is None:
            continue
        for pool in vms.pools:
            trigger = _trigger_of(vms, pool)
            if trigger and pool.count_path:  # plain VMs and those of VNFs are no nodes
                of_clusters.setdefault((vms.asked.demand.owner, trigger), []).append((vms, pool))
    scale_ins = _ScaleIns(objects)
    for (owner, trigger), members in of_clusters.items():
        cluster_id = owner.partition(":")[2]
        nodes = frozenset(chain.from_iterable(_names(vms, pool, trigger) for vms, pool in members))
        met = [of_cluster(cluster_id, nodes) for of_cluster in disruptions]
        pools = [
            replace(_pool(vms, pool, trigger), hangs_on=scale_ins.decide(vms, pool, sites))
            if trigger == ROLLING
            else _pool(vms, pool, trigger)
            for vms, pool in members
        ]
        yield _upgrade(members[0][0], trigger, pools, met)


def held_up(upgrades: Iterable[Upgrade], objects: Iterable[VmObject]) -> Iterator[Diagnostic]:
    """A warning for each cluster of which nodes cannot be drained: a budget lets none of their pods go."""
    instances = {vms.instance.address: vms.instance for vms in objects}
    for upgrade in upgrades:
        if not (upgrade.rolls and upgrade.budgets):
            continue
        names = first_of(upgrade.budgets, _MOST_NAMED)
        budgets = f"{form(len(upgrade.budgets), 'PodDisruptionBudget', 'PodDisruptionBudgets')} {names}"
        lets = form(len(upgrade.budgets), "lets", "let")
        detail = (
            f"{budgets} {lets} no pod be evicted as things stand: nodes of {upgrade.cluster} that hold such "
            "pods are not drained in time. Before the upgrade, let one pod go (minAvailable, "
            "maxUnavailable), or run one replica more than the budget asks for. `nexusform simulate "
            f"kubernetes-upgrade {upgrade.address}` shows every batch."
        )
        brief = f"{upgrade.cluster}: {names} {lets} no pod be evicted, so drains time out"
        problem = Problem((), "upgrade-is-held-up", detail, Severity.WARNING, brief=brief)
        yield instances[upgrade.address].problem(problem)


def _trigger_of(vms: VmObject, pool: PoolDemand) -> str:
    """Why a whole pool is made anew: another version, or another argument of it; "" where it is not."""
    keys = _keys(pool)
    triggers = {vms.asked.moves.again[key] for key in keys if key in vms.asked.moves.again}
    if ROLLING in triggers:
        return ROLLING
    of_pool = {name for name, _ in pool.triggers}
    return next((trigger for trigger in sorted(triggers) if trigger in of_pool), "")


def _keys(pool: PoolDemand) -> list[VmKey]:
    return [(pool.pool, number) for number in pool.numbers]


def _names(vms: VmObject, pool: PoolDemand, trigger: str) -> Iterator[str]:
    for key, name in zip(_keys(pool), pool.names, strict=True):
        if vms.asked.moves.again.get(key) == trigger:
            yield name


def _upgrade(
    first: VmObject, trigger: str, pools: Iterable[PoolUpgrade], disruptions: Sequence[Disruptions]
) -> Upgrade:
    assert first.asked.demand is not None
    rolls = trigger == ROLLING
    before = first.before.demand.version if first.before.demand is not None else None
    return Upgrade(
        address=first.instance.address,
        cluster=first.asked.demand.cluster,
        site_id=first.asked.demand.site_id,
        before=(before or "") if rolls else "",
        after=(first.asked.demand.version or "") if rolls else "",
        pools=tuple(pools),
        budgets=tuple(chain.from_iterable(each.budgets for each in disruptions)),
        single_replicas=tuple(chain.from_iterable(each.single_replicas for each in disruptions)),
        trigger=trigger,
        kept_up=tuple(chain.from_iterable(each.kept_up for each in disruptions)),
    )


def _pool(vms: VmObject, pool: PoolDemand, trigger: str) -> PoolUpgrade:
    """How one pool goes: rolling, with surge new VMs come before the old leave, without it after; otherwise
    all of its VMs leave before any comes, as those of a pool that another argument makes anew beside the
    upgrade. VMs that go for a reason of their own (a machine) are away meanwhile.
    """
    keys = _keys(pool)
    again = [key for key in keys if vms.asked.moves.again.get(key) == trigger]
    prior = next((each for each in vms.prior_pools if each.pool == pool.pool), None)
    rolls = trigger == ROLLING and not changed_argument(prior, pool)
    others = sum(vms.asked.moves.again.get(key, trigger) != trigger for key in keys)
    surges = rolls and pool.surge > 0
    batch = pool.batch if rolls else len(again)
    stops_at = next((at // batch + 1 for at, key in enumerate(again) if key in vms.housing.failed), 0)
    failed = next((vms.housing.failed[key] for key in again if key in vms.housing.failed), None)
    in_a_batch = min(batch, len(again))
    away = others + (0 if surges else in_a_batch)
    return PoolUpgrade(
        pool=pool.pool,
        sku=pool.sku.name,
        vms=len(again),
        at_once=away or in_a_batch,
        batches=-(-len(again) // batch),
        surges=surges and not others,
        fewest_up=len(keys) - away,
        stops_at=stops_at,
        reason=failed.reason if failed is not None else "",
        batch=batch,
    )


class _ScaleIns:
    """The pools of which a plan takes VMs that the platform chooses. Where room is left beside all of them,
    any choice will do.
    """

    def __init__(self, objects: Iterable[VmObject]) -> None:
        self._pools: dict[str, list[_Pool]] = {}  # by site id
        self._outcomes: dict[tuple[str, _Name], Mapping[Token, Placement | None]] = {}
        for vms in objects:
            for prior in vms.prior_pools:
                if vms.asked.site is not None and platform_shrinks(vms, prior):
                    self._pools.setdefault(vms.asked.site.id, []).append((vms, prior))

    def decide(self, vms: VmObject, pool: PoolDemand, sites: Mapping[str, SitePlan]) -> tuple[str, ...]:
        """The pools with whose VMs all still there not all of this pool would find room; its own are not
        among them.
        """
        site = sites.get(vms.asked.demand.site_id) if vms.asked.demand is not None else None
        if site is None or site.base is None or site.id not in self._pools:
            return ()
        own = _name(vms, pool)
        others = [each for each in self._pools[site.id] if _name(*each) != own]
        if not others:
            return ()
        left_out = own if len(others) < len(self._pools[site.id]) else ("", "")
        if (site.id, left_out) not in self._outcomes:
            worst = site.base.copy()
            for other, prior in others:
                _stay_there(worst, other, prior)
            self._outcomes[site.id, left_out] = replay(worst, site.operations)
        outcome = self._outcomes[site.id, left_out]
        tokens = [vms.housing.tokens[key] for key in _keys(pool) if key in vms.housing.tokens]
        if all(outcome.get(token) is not None for token in tokens):
            return ()
        return tuple(f"{_cluster_of(other)}/{prior.pool}" for other, prior in others)


def _name(vms: VmObject, pool: PoolDemand) -> _Name:
    return str(vms.instance.address), pool.pool


def _stay_there(scheduler: RackScheduler, vms: VmObject, pool: PoolDemand) -> None:
    """Let the VMs of a pool that a scale-in takes hold their room."""
    owner = vms.before.demand
    assert owner is not None, "what stands was asked for"
    for key, trigger in vms.asked.moves.leave.items():
        if key[0] == pool.pool and trigger == "scale_in" and key in vms.before.standing:
            scheduler.occupy(vm_name(owner, pool, *key), pool.sku, vms.place_before(key))


def _cluster_of(vms: VmObject) -> str:
    return vms.before.demand.cluster if vms.before.demand is not None else ""
