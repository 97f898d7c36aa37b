"""Checks of a state against the rules: placement filters, groups, separation. A site may legally violate them
(a rule moves no existing VM), so all results are warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_first_items, select_word_form
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries, VmHandlers
from nexusform.json_data.plain_data import get_list, get_mapping
from nexusform.placements.vm_demands import PlacedVm, PoolDemand, index_pools
from nexusform.planning.instances.instance import ActionDecision, EvaluatedArguments, Instance
from nexusform.planning.phases import list_workloads
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.verdicts.placement_fit import check_placement_groups
from nexusform.planning.verdicts.separation_rules import SEPARATION_VIOLATED, evaluate_rules, format_violation
from nexusform.planning.verification.state_consistency import build_state_inventory
from nexusform.planning.vm_planning.site_plans import SitePlan, build_demand, build_recorded_context, build_sites
from nexusform.planning.vm_planning.vm_context import HintTargets
from nexusform.planning.vm_planning.vm_object import PlannedVmPlacements, PriorVms, RequestedVms, VmActions, VmObject
from nexusform.resources.address import Address
from nexusform.scheduling.racks.rule import CapacityFilter, MachineFilter
from nexusform.scheduling.racks.vms import Demand
from nexusform.state.objects import State

VIOLATES_RULE: Final = "existing-rule-violation"
_MAXIMUM_NAMED: Final = 5


def check_state_rules(state: State, registries: PluginRegistries) -> list[Diagnostic]:
    """Return a warning for each rule violated by the current state: placement filters, groups and separation."""
    types = registries.resource_types
    instances = []
    objects: dict[Address, VmObject] = {}
    families: dict[Address, VmHandlers] = {}  # functions for the VMs of their types
    for address, current in state.list_current_objects():
        resource_type = types.get(address.type)
        if resource_type is None:  # a type of another version
            continue
        attributes = dict(current.attributes)
        arguments, decision = EvaluatedArguments(attributes), ActionDecision(planned=attributes)
        instance = Instance(address, resource_type, current, arguments=arguments, decision=decision)
        instances.append(instance)
        family = resource_type.vms  # None: a type without VMs
        if family is not None:
            vms_by_key = {(vm.pool, vm.number): vm for vm in family.list_existing_vms(attributes)}
            request = RequestedVms(actions=VmActions(unchanged=list(vms_by_key)))
            vms = VmObject(instance, PriorVms(existing=vms_by_key), request, PlannedVmPlacements(vms=vms_by_key))
            objects[address], families[address] = vms, family
    # Compute the demands; hints see the current locations of their targets.
    prior = PriorState(state, state.instances, by_block={}, previous={}, imports={}, diagnostics=())
    context = build_recorded_context(prior, types)
    targets = HintTargets(build_state_inventory(state, types))
    targets.add_objects(objects.values())
    context.find_targets = targets
    for address, family in families.items():
        vms = objects[address]
        demand, _ = family.build_demand(get_mapping(vms.instance.config), context, address)
        vms.request = replace(vms.request, demand=demand)
    sites, _ = build_sites(build_state_inventory(state, types))
    diagnostics = [*_check_placement_filters(objects.values(), sites), *check_placement_groups(objects.values())]
    diagnostics += chain.from_iterable(_check_affinity_groups(vms) for vms in objects.values())
    return [*diagnostics, *_check_separation(state, instances, objects, registries)]


def _build_rule_violation_warning(vms: VmObject, detail: str) -> Diagnostic:
    return vms.instance.build_diagnostic(Problem((), VIOLATES_RULE, detail, Severity.WARNING))


class _ExistingVm(Struct, frozen=True):
    """Existing VM, its current demand, and its handle on its site."""

    vms: VmObject
    pool: PoolDemand
    vm: PlacedVm
    demand: Demand
    handle: int


def _check_placement_filters(objects: Iterable[VmObject], sites: Mapping[str, SitePlan]) -> Iterator[Diagnostic]:
    """Yield a warning per pool and reason, with the VMs on a machine rejected by a filter of the placement rule."""
    by_site = _place_existing_vms(objects, sites)
    violations: dict[tuple[Address, str, str], list[_ExistingVm]] = {}  # by address, pool and reason
    for site_id, site_vms in by_site.items():
        scheduler = sites[site_id].scheduler
        for existing_vm in site_vms:
            scheduler.release(existing_vm.handle)  # its own capacity and location must not count
            for rule, reason in scheduler.list_rejections(existing_vm.vm.placement.machine, existing_vm.demand):
                # An existing VM has its capacity, and its machine need not accept new VMs: only other filters count.
                if not isinstance(rule, (MachineFilter, CapacityFilter)):
                    key = existing_vm.vms.instance.address, existing_vm.pool.pool, reason
                    violations.setdefault(key, []).append(existing_vm)
            scheduler.add_existing(existing_vm.demand.vm, existing_vm.demand.sku, existing_vm.vm.placement)
    for (address, pool, reason), rejected_vms in violations.items():
        vms = [existing_vm.vm for existing_vm in rejected_vms]
        locations = [f"{vm.name} on {vm.placement.machine} ({vm.placement.rack})" for vm in vms]
        options = [f"-replace='{address}:{vm.name}'" for vm in vms]
        yield _build_rule_violation_warning(
            rejected_vms[0].vms,
            f"{pool} in {address}: {reason}. Violated by {format_first_items(locations, _MAXIMUM_NAMED)}. "
            f"Rules do not move existing VMs. To re-place: {format_first_items(options, _MAXIMUM_NAMED, ' ')}.",
        )


def _place_existing_vms(objects: Iterable[VmObject], sites: Mapping[str, SitePlan]) -> dict[str, list[_ExistingVm]]:
    """Place all VMs with a pool and an existing machine on their sites, and return them by site id."""
    by_site: dict[str, list[_ExistingVm]] = {}
    for vms in objects:
        requested = vms.request.demand
        if requested is None or requested.site_id not in sites:
            continue
        site = sites[requested.site_id]
        pools = index_pools(requested.pools)
        for vm in vms.placements.vms.values():
            pool = pools.get(vm.pool)
            if pool is None or vm.placement.machine not in site.machines:
                continue  # no rule applies to it
            hints = tuple(hint for hint in pool.constraints.hints if hint.racks)  # those with a located target
            constraints = replace(pool.constraints, hints=hints)
            demand = build_demand(requested, replace(pool, constraints=constraints), vm.number)
            handle = site.scheduler.add_existing(demand.vm, demand.sku, vm.placement)
            by_site.setdefault(site.id, []).append(_ExistingVm(vms, pool, vm, demand, handle))
    return by_site


def _check_affinity_groups(vms: VmObject) -> Iterator[Diagnostic]:
    """Yield warnings for hard affinity groups with VMs at several locations."""
    for group in vms.placement_groups:
        if not group.is_affinity or not group.is_hard:  # only hard affinity needs one location
            continue
        placements = [vm.placement for vm in vms.placements.vms.values() if vm.pool in group.pools]
        locations = set(map(group.get_location, placements))
        if len(locations) > 1:
            name = group.name.removeprefix("the other VMs of ")
            location_text = format_first_items(sorted(locations), _MAXIMUM_NAMED)
            yield _build_rule_violation_warning(
                vms,
                f"{name} keeps its VMs on one {group.scope}, but they run on {location_text}. Rules do "
                "not move existing VMs; re-place some with -replace.",
            )


def _check_separation(
    state: State, instances: Sequence[Instance], objects: Mapping[Address, VmObject], registries: PluginRegistries
) -> Iterator[Diagnostic]:
    """Yield a warning per violated separation rule."""
    rule_instances = [instance for instance in instances if instance.type.kind is PlanningKind.SEPARATION_RULE]
    rules = {rule.address: rule for rule in rule_instances}
    if not rules:
        return
    groups = chain.from_iterable(get_list(rule.config, "group") for rule in rules.values())
    selects_pods = any(group.get("workload_selector") for group in groups)
    pods = list_workloads(state, registries) if selects_pods else []
    verdicts = evaluate_rules(rules.values(), objects, sites={}, certainty={}, pods=pods)  # nothing is placed
    for problem in verdicts.diagnostics:
        if problem.id != SEPARATION_VIOLATED:  # violations have another text for a state, below
            yield replace(problem, severity=Severity.WARNING)
    for verdict in verdicts.verdicts:
        if verdict.violations:
            count = len(verdict.violations)
            noun = select_word_form(count, verdict.scope)
            lines = [f"{verdict.address} does not hold now. Its groups share {count} {noun}:"]
            lines += [f" - {format_violation(violation)}" for violation in verdict.violations[:_MAXIMUM_NAMED]]
            if count > _MAXIMUM_NAMED:
                lines.append(f" - and {count - _MAXIMUM_NAMED} more")
            yield rules[verdict.address].build_diagnostic(
                Problem((), SEPARATION_VIOLATED, "\n".join(lines), Severity.WARNING)
            )
