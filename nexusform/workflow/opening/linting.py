"""Lint of a plan, the state or a configuration with the rules of advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nexusform.advice.lint_input import (
    LintInput,
    LintPool,
    LintSite,
    PlanTrial,
    SiteUsage,
    build_fit_counter,
    measure_usage,
)
from nexusform.advice.registry import run_rules
from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import Diagnostic, select_errors
from nexusform.diagnostics.phrases import group_by
from nexusform.placements.vm_demands import PoolDemand, VmDemand
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.resources.address import Address
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

if TYPE_CHECKING:
    from nexusform.planning.edits import Edit


def lint_configuration(result: PlanResult, configuration: Configuration) -> list[Diagnostic]:
    """Lint a plan made without a state, by the rules about arguments.

    Return [] after errors other than of capacity.
    """
    error_ids = {error.id for error in select_errors(result.plan.diagnostics)}
    if not result.objects or error_ids - {"insufficient-capacity"}:
        return []
    return _lint(result, configuration, None)


def lint_plan(
    result: PlanResult, request: PlanRequest, *, everything: bool = False
) -> list[Diagnostic]:
    """Return the findings of the lint rules for the objects placed by the plan of a request.

    With `everything`, existing objects are reported, too, and advice without a gain
    of capacity today.
    """
    return _lint(result, request.configuration, request, everything=everything)


def _lint(
    result: PlanResult,
    configuration: Configuration,
    request: PlanRequest | None,
    *,
    everything: bool = False,
) -> list[Diagnostic]:
    """Return the findings of the lint rules; without a request, those about arguments."""
    catalogue = CATALOGUES.get(result.plan.start.catalogue) or CATALOGUES[NEWEST]
    skus = tuple(catalogue.vm_skus.values())
    pools = tuple(_build_lint_pools(result.objects))
    pools_by_site = group_by(pools, lambda pool: pool.site_id)
    sites = {
        site_id: LintSite(site.id, tuple(site.machines.values()))
        if request is None
        else _build_lint_site(site, pools_by_site.get(site_id, ()))
        for site_id, site in result.sites.items()
    }
    lint_input = LintInput(
        pools,
        sites,
        skus,
        includes_costless=everything,
        includes_existing=everything,
        plan_trial=None if request is None else _build_plan_trial(request, pools_by_site),
    )
    return run_rules(lint_input, configuration.settings.ignored_rules, literal_only=request is None)


def _build_lint_site(site: SitePlan, pools: Sequence[LintPool]) -> LintSite:
    """Build the facts of a site after the plan for the rules."""
    return LintSite(
        site.id,
        tuple(site.machines.values()),
        measure_usage(site.scheduler, pools),
        site.scheduler.count_free_slots,
        build_fit_counter(site.scheduler),
    )


def _build_plan_trial(
    request: PlanRequest, pools_by_site: Mapping[str, Sequence[LintPool]]
) -> PlanTrial:
    """Return a function to make the plan of a request with edits, without certainty.

    Its outputs are left out, because some search all placements.
    """
    configuration = request.configuration
    configuration = replace(configuration, root=replace(configuration.root, outputs={}))
    request = replace(request, configuration=configuration, samples=0, verifies_certainty=False)

    def plan_edits(edits: Sequence[Edit]) -> Mapping[str, SiteUsage] | None:
        from nexusform.planning.replanning.trials import plan_trial

        outcome = plan_trial(request, make_plan, edits)
        if outcome.plan.errored:
            return None
        usages = {
            site_id: measure_usage(outcome.sites[site_id].scheduler, pools)
            for site_id, pools in pools_by_site.items()
        }
        return {site_id: usage for site_id, usage in usages.items() if usage is not None}

    return plan_edits


def _build_lint_pools(objects: Mapping[Address, VmObject]) -> Iterable[LintPool]:
    """Yield the pools to lint: those with a configurable count."""
    for address, vm_object in objects.items():
        demand = vm_object.request.demand
        # No VMs are requested.
        if demand is None or vm_object.instance.is_removed:
            continue
        for pool in demand.pools:
            if pool.count_path:
                yield _build_lint_pool(address, vm_object, demand, pool)


def _build_lint_pool(
    address: Address, vm_object: VmObject, demand: VmDemand, pool: PoolDemand
) -> LintPool:
    """Build the facts about a pool for the lint rules.

    A VM is known by its number in the pool. The spans of the pool and of its zones are for the
    findings; an object without configuration has none.
    """
    instance = vm_object.instance
    placements = vm_object.placements
    # Placements are by pool and number.
    vm_keys = {number: (pool.pool, number) for number in pool.numbers}
    # Keys of the VMs placed by this plan.
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
        path=pool.path,
    )
