"""Lint: the facts of a plan, the state or a configuration, and what the rules of advice say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.advice.facts import Facts, PoolFacts, SiteFacts, rehearsal
from nexusform.advice.registry import advise
from nexusform.configuration.declared.configuration import Configuration
from nexusform.demands import PoolDemand
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmObject
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.uncertainty.certainty import VmPlaced, VmReleased

# Site, owner and pool, as the placement rule counts.
_PoolKey: TypeAlias = tuple[str, str, str]


def with_lint(result: PlanResult, configuration: Configuration) -> PlanResult:
    """The plan with the lint findings among its diagnostics; nothing is said of a plan in error."""
    at_rest = tuple(sorted(configuration.settings.ignored_rules))
    findings = [] if result.plan.errored or not result.objects else lint(result, configuration)
    diagnostics = (*result.plan.diagnostics, *findings)
    return replace(result, plan=replace(result.plan, diagnostics=diagnostics, rules_at_rest=at_rest))


def literal_lint(result: PlanResult, configuration: Configuration) -> list[Diagnostic]:
    """What can be said of a configuration without state: the rules that look at arguments alone."""
    if not result.objects or any(d.id != "does-not-fit" for d in _errors(result)):
        return []
    return lint(result, configuration, literal_only=True)


def _errors(result: PlanResult) -> list[Diagnostic]:
    return [d for d in result.plan.diagnostics if d.severity is Severity.ERROR]


def lint(
    result: PlanResult, configuration: Configuration, *, everything: bool = False, literal_only: bool = False
) -> list[Diagnostic]:
    """What the rules say of what a plan places.

    With `everything` they judge all that stands after it, as if it were created again from the start:
    what stands in the order of its creation, then what the plan adds. With `literal_only` nothing is
    measured, and only the rules that look at arguments speak. Advice that would change nothing today is
    given with `everything` alone.
    """
    catalogue = CATALOGUES.get(result.plan.catalogue) or CATALOGUES[NEWEST]
    skus = tuple(catalogue.vm_skus.values())
    leaving = {} if everything else _leaving(result.sites.values())
    pools = tuple(_pools(result.objects, leaving, everything=everything))
    judged = {(pool.owner, pool.pool) for pool in pools} if everything else set()
    sites = {site_id: _site(site, judged) for site_id, site in result.sites.items()}
    if literal_only:
        sites = {i: SiteFacts(site.id, site.machines) for i, site in sites.items()}
    facts = Facts(pools, sites, skus, costless=everything)
    ignored_at = {
        str(address): vms.instance.block.ignored_rules
        for address, vms in result.objects.items()
        if vms.instance.block is not None
    }
    return advise(facts, configuration.settings.ignored_rules, ignored_at, literal_only=literal_only)


def _site(site: SitePlan, judged: Collection[tuple[str, str]]) -> SiteFacts:
    """A site as the rules see it, with what is judged taken off its machines."""
    before = site.base
    if before is not None and judged:
        before = _emptied(site.scheduler, judged)
    return SiteFacts(
        site.id,
        tuple(site.machines.values()),
        rehearsal(before) if before is not None else None,
        site.scheduler.count_free,
    )


def _emptied(scheduler: RackScheduler, pools: Collection[tuple[str, str]]) -> RackScheduler:
    """The site without the VMs of these pools (owner, pool)."""
    emptied = scheduler.copy()
    for vm in scheduler.vms():
        if (vm.vm.owner, vm.vm.pool) in pools:
            emptied.release(vm.handle)
    return emptied


def _leaving(sites: Iterable[SitePlan]) -> dict[_PoolKey, dict[int, list[int]]]:
    """The VMs that leave while others of their pool are placed already: after how many, who."""
    leaving: dict[_PoolKey, dict[int, list[int]]] = {}
    for site in sites:
        placed: Counter[_PoolKey] = Counter()
        for operation in site.operations:
            if isinstance(operation, VmPlaced):
                vm = operation.demand.vm
                placed[site.id, vm.owner, vm.pool] += 1
            elif isinstance(operation, VmReleased) and operation.handle is not None and site.base is not None:
                vm = site.base.vm(operation.handle).vm
                key = (site.id, vm.owner, vm.pool)
                leaving.setdefault(key, {}).setdefault(placed[key], []).append(operation.handle)
    return leaving


def _pools(
    objects: Mapping[Address, VmObject],
    leaving: Mapping[_PoolKey, Mapping[int, Sequence[int]]],
    *,
    everything: bool,
) -> Iterable[PoolFacts]:
    """The pools with VMs, by the age of their objects where all are judged."""
    in_order = sorted(objects.items(), key=lambda item: _age(item[1])) if everything else objects.items()
    for address, vms in in_order:
        if vms.asked.demand is None or vms.going:
            continue
        for pool in vms.asked.demand.pools:
            if pool.count_path:
                key = vms.asked.demand.site_id, vms.asked.demand.owner, pool.rule_pool or pool.pool
                facts = _pool(address, vms, pool, everything=everything)
                yield replace(facts, leaving=leaving.get(key, {}))


def _age(vms: VmObject) -> tuple[bool, int]:
    """What stands comes first, in the order of creation; a replacement is a new object."""
    prior = vms.instance.prior
    if prior is None or vms.instance.replaced:
        return True, 0
    return False, prior.creation


def _pool(address: Address, vms: VmObject, pool: PoolDemand, *, everything: bool) -> PoolFacts:
    """A pool as the rules see it."""
    assert vms.asked.demand is not None
    keys = {number: (pool.pool, number) for number in pool.numbers}
    new = tuple(number for number, key in keys.items() if everything or key in vms.housing.tokens)
    instance = vms.instance
    located = instance.prepared is not None
    return PoolFacts(
        address=str(address),
        owner=vms.asked.demand.owner,
        cluster=vms.asked.demand.cluster,
        pool=pool.pool,
        site_id=vms.asked.demand.site_id,
        sku=pool.sku,
        numbers=pool.numbers,
        new_numbers=new,
        terms=pool.terms,
        vms={number: vms.housing.placed[key] for number, key in keys.items() if key in vms.housing.placed},
        surge=pool.surge,
        span=instance.locate(pool.path) if located else None,
        zones_span=instance.locate((*pool.path, "availability_zones")) if located and pool.zones else None,
        block=instance.block.header if instance.block is not None else "",
        stands=everything and bool(keys) and vms.housing.tokens.keys().isdisjoint(keys.values()),
    )
