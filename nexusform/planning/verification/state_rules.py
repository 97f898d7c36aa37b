"""Checks of a state against the rules: placement filters, groups, separation.

A site may legally violate them (a rule moves no existing VM), so all results are warnings.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import select_word_form
from nexusform.doubts.ledger import DoubtLedger, build_ledger
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries, ResourceType
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.vm_demands import NO_DEMAND, index_pools, index_vms
from nexusform.planning.instances.instance import ActionDecision, EvaluatedArguments, Instance
from nexusform.planning.phases import list_workloads
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.verdicts.placement_fit import check_placement_groups
from nexusform.planning.verdicts.rule_violations import check_existing_vms
from nexusform.planning.verdicts.separation_rules import (
    SEPARATION_VIOLATED,
    evaluate_rules,
    format_violation,
)
from nexusform.planning.verification.state_consistency import build_state_inventory
from nexusform.planning.vm_planning.site_plans import (
    SitePlan,
    build_recorded_context,
    build_sites,
    build_vm_name,
)
from nexusform.planning.vm_planning.vm_context import HintTargets
from nexusform.planning.vm_planning.vm_object import (
    PlannedVmPlacements,
    PriorVms,
    RequestedVms,
    VmActions,
    VmObject,
)
from nexusform.planning.vm_planning.vm_placement_steps import reserve_vm_capacity
from nexusform.resources.address import Address
from nexusform.state.objects import State

_MAXIMUM_NAMED: Final = 5


def check_state_rules(state: State, registries: PluginRegistries) -> list[Diagnostic]:
    """Return a warning for each rule violated by the current state.

    Placement filters, groups and separation.
    """
    types = registries.resource_types
    instances = []
    objects: dict[Address, VmObject] = {}
    for address, current in state.list_current_objects():
        resource_type = types.get(address.type)
        # A type of another version.
        if resource_type is None:
            continue
        attributes = dict(current.attributes)
        arguments = EvaluatedArguments(attributes)
        decision = ActionDecision(planned=attributes)
        instance = Instance(address, resource_type, current, arguments=arguments, decision=decision)
        instances.append(instance)
        # All VMs stay, as in a plan without changes.
        if resource_type.vms is not None:
            vms_by_key = index_vms(resource_type.vms.list_existing_vms(attributes))
            request = RequestedVms(actions=VmActions(unchanged=list(vms_by_key)))
            prior = PriorVms(existing=vms_by_key)
            placements = PlannedVmPlacements(vms=vms_by_key)
            objects[address] = VmObject(instance, prior, request, placements)
    _set_demands(objects, state, types)
    sites, _ = build_sites(build_state_inventory(state, types))
    for vm_object in objects.values():
        _place_existing_vms(vm_object, sites)
    diagnostics = [*check_existing_vms(objects.values()), *check_placement_groups(objects.values())]
    facts_of_sites = chain.from_iterable(site.unread for site in sites.values())
    ledger = build_ledger([*facts_of_sites, *state.unread], pools=())
    return [*diagnostics, *_check_separation(state, instances, objects, registries, ledger)]


def _set_demands(
    objects: Mapping[Address, VmObject], state: State, types: Mapping[str, ResourceType]
) -> None:
    """Set the demand of each object.

    Its placement hints refer to the current locations of their targets.
    """
    prior = PriorState(state, state.instances, by_block={}, previous={}, imports={}, diagnostics=())
    context = build_recorded_context(prior, types)
    targets = HintTargets(build_state_inventory(state, types))
    targets.add_objects(objects.values())
    context.find_targets = targets
    for address, vm_object in objects.items():
        handlers = vm_object.instance.type.vms
        assert handlers is not None
        demand, _ = handlers.build_demand(get_mapping(vm_object.instance.config), context, address)
        vm_object.request = replace(vm_object.request, demand=demand or NO_DEMAND)


def _place_existing_vms(vm_object: VmObject, sites: Mapping[str, SitePlan]) -> None:
    """Place the VMs of an object on their machines.

    Those without a pool or an existing machine follow no rule.
    """
    demand = vm_object.request.demand
    if demand.site_id not in sites:
        return
    site = sites[demand.site_id]
    pools = index_pools(vm_object.pools)
    for key, vm in vm_object.placements.vms.items():
        if vm.pool in pools:
            reserve_vm_capacity(
                vm_object,
                key,
                site,
                build_vm_name(demand, pools[vm.pool], *key),
                pools[vm.pool].sku,
            )


def _check_separation(
    state: State,
    instances: Sequence[Instance],
    objects: Mapping[Address, VmObject],
    registries: PluginRegistries,
    ledger: DoubtLedger,
) -> Iterator[Diagnostic]:
    """Yield a warning per violated or unknown separation rule, and per problem of a rule.

    The VMs and pods in state violate the rule. `ledger` has the unread facts of the state.
    """
    rules = {
        instance.address: instance
        for instance in instances
        if instance.type.kind is PlanningKind.SEPARATION_RULE
    }
    pods = partial(list_workloads, state, registries)
    # Nothing is placed.
    verdicts = evaluate_rules(
        rules.values(), objects, sites={}, certainty={}, list_pods=pods, ledger=ledger
    )
    for problem in verdicts.diagnostics:
        # Violations have another text for a state, below.
        if problem.id != SEPARATION_VIOLATED:
            yield replace(problem, severity=Severity.WARNING)
    for verdict in verdicts.verdicts:
        if verdict.violations:
            count = len(verdict.violations)
            noun = select_word_form(count, verdict.scope)
            lines = [f"{verdict.address} does not hold now. Its groups share {count} {noun}:"]
            lines += [
                f" - {format_violation(violation)}"
                for violation in verdict.violations[:_MAXIMUM_NAMED]
            ]
            if count > _MAXIMUM_NAMED:
                lines.append(f" - and {count - _MAXIMUM_NAMED} more")
            violation_warning = Problem(
                (), SEPARATION_VIOLATED, "\n".join(lines), Severity.WARNING, is_multiline=True
            )
            yield rules[verdict.address].build_diagnostic(violation_warning)
