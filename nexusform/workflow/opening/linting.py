"""Lint of a plan, the state or a configuration with the rules of advice."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from nexusform.advice.lint_input import (
    LintInput,
    LintPool,
    LintSite,
    build_fit_counter,
    build_placement_simulator,
)
from nexusform.advice.registry import run_rules
from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import Diagnostic, select_errors
from nexusform.placements.vm_demands import PoolDemand, VmDemand
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.resources.address import Address
from nexusform.scheduling.racks.uncertainty.certainty import PlaceOperation, ReleaseOperation
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

# Site, owner and pool, as used by the placement rule.
_PoolKey: TypeAlias = tuple[str, str, str]


def lint_configuration(result: PlanResult, configuration: Configuration) -> list[Diagnostic]:
    """Lint a plan made without a state, by the rules about arguments.

    Return [] after errors other than of capacity.
    """
    error_ids = {error.id for error in select_errors(result.plan.diagnostics)}
    if not result.objects or error_ids - {"insufficient-capacity"}:
        return []
    return lint_plan(result, configuration, literal_only=True)


def lint_plan(
    result: PlanResult,
    configuration: Configuration,
    *,
    everything: bool = False,
    literal_only: bool = False,
) -> list[Diagnostic]:
    """Return the findings of the lint rules for the objects placed by a plan.

    With `everything`, existing objects are reported, too, and advice without a gain of capacity
    today. With `literal_only`, only rules about arguments run.
    """
    catalogue = CATALOGUES.get(result.plan.catalogue) or CATALOGUES[NEWEST]
    skus = tuple(catalogue.vm_skus.values())
    removed_vms = _index_removed_vms(result.sites.values())
    pools = tuple(_build_lint_pools(result.objects, removed_vms))
    sites = {site_id: _build_lint_site(site) for site_id, site in result.sites.items()}
    # Such rules simulate no placements.
    if literal_only:
        sites = {site_id: LintSite(site.id, site.machines) for site_id, site in sites.items()}
    lint_input = LintInput(
        pools, sites, skus, includes_costless=everything, includes_existing=everything
    )
    return run_rules(lint_input, configuration.settings.ignored_rules, literal_only=literal_only)


def _build_lint_site(site: SitePlan) -> LintSite:
    """Build the facts of a site for the rules, which simulate placements before the plan."""
    return LintSite(
        site.id,
        tuple(site.machines.values()),
        build_placement_simulator(site.base),
        site.scheduler.count_free_slots,
        build_fit_counter(site.scheduler),
    )


def _index_removed_vms(sites: Iterable[SitePlan]) -> dict[_PoolKey, dict[int, list[int]]]:
    """Return the handles of removed VMs by pool, then by the number of its VMs placed before.

    Ids in the scheduler. For example, `{pool: {2: [17]}}`: the VM with handle 17 is removed after
    two VMs of the pool were placed.
    """
    removed_vms: dict[_PoolKey, dict[int, list[int]]] = {}
    for site in sites:
        placed_counts: Counter[_PoolKey] = Counter()
        for operation in site.operations:
            if isinstance(operation, PlaceOperation):
                vm = operation.demand.vm
                placed_counts[site.id, vm.owner, vm.pool] += 1
            elif isinstance(operation, ReleaseOperation):
                vm = site.base.get_vm(operation.handle).vm
                key = (site.id, vm.owner, vm.pool)
                removed_vms.setdefault(key, {}).setdefault(placed_counts[key], []).append(
                    operation.handle
                )
    return removed_vms


def _build_lint_pools(
    objects: Mapping[Address, VmObject], removed_vms: Mapping[_PoolKey, Mapping[int, Sequence[int]]]
) -> Iterable[LintPool]:
    """Yield the pools to lint: those with a configurable count."""
    for address, vm_object in objects.items():
        demand = vm_object.request.demand
        # No VMs are requested.
        if demand is None or vm_object.instance.is_removed:
            continue
        for pool in demand.pools:
            if pool.count_path:
                # A pool may have another name in rules.
                key = demand.site_id, demand.owner, pool.rule_pool or pool.pool
                lint_pool = _build_lint_pool(address, vm_object, demand, pool)
                yield replace(lint_pool, removals=removed_vms.get(key, {}))


def _build_lint_pool(
    address: Address, vm_object: VmObject, demand: VmDemand, pool: PoolDemand
) -> LintPool:
    """Build the facts about a pool for the lint rules.

    A VM is known by its number in the pool. The spans of the pool and of its zones are for the
    findings; an object without configuration has none.
    """
    instance = vm_object.instance
    placements = vm_object.placements
    # placements are by pool and number.
    vm_keys = {number: (pool.pool, number) for number in pool.numbers}
    # keys of the VMs placed by this plan.
    newly_placed = placements.new_handles.keys()
    new_numbers = tuple(number for number, key in vm_keys.items() if key in newly_placed)
    span = zones_span = None
    # The object is configured.
    if instance.prepared is not None:
        span = instance.locate(pool.path)
        zones_span = instance.locate((*pool.path, "availability_zones")) if pool.zones else None
    # By comments above the block, the pool or its zones.
    ignored_rules: set[str] = set()
    if instance.block is not None:
        file = instance.block.span.filename
        for commented in (instance.block.span, span, zones_span):
            # An override file has lines of its own.
            if commented is not None and commented.filename == file:
                ignored_rules |= instance.block.ignored_rules.get(commented.start.line, frozenset())
    return LintPool(
        address=str(address),
        owner=demand.owner,
        cluster=demand.cluster,
        pool=pool.pool,
        site_id=demand.site_id,
        sku=pool.sku,
        numbers=pool.numbers,
        new_numbers=new_numbers,
        constraints=pool.constraints,
        vms={
            number: placements.vms[key] for number, key in vm_keys.items() if key in placements.vms
        },
        surge=pool.surge_size,
        span=span,
        zones_span=zones_span,
        block=instance.block.header if instance.block is not None else "",
        ignored_rules=frozenset(ignored_rules),
    )
