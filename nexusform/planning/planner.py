"""make_plan: configuration + variables + prior state -> a Plan.

Start reading here. The path of one VM: its block is ordered (preparation), its arguments are
evaluated (names, instances), its resource type computes its demand
(interfaces.VmHandlers.build_demand), triggers decide its action, the site's scheduler selects
a machine (vms), the difference to the prior state becomes a Change, and steps define the order
of apply (conclusion).
"""

from __future__ import annotations

from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, DiagnosticsError, has_errors
from nexusform.planning.conclusion import changes, plan_assembly
from nexusform.planning.conclusion.plan_assembly import (
    PlacementPhasesResult,
    remove_consequential_errors,
)
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.instances.block_planner import BlockPlanner, find_instances_without_block
from nexusform.planning.modules.configuration_validation import (
    check_move_blocks,
    remove_errors_of_rejected_references,
    validate_configuration,
)
from nexusform.planning.modules.root_outputs import (
    iterate_module_instances,
    plan_outputs,
    read_all_data,
)
from nexusform.planning.name_resolution.evaluation_settings import (
    PreparedBodyCache,
    build_evaluation_settings,
    build_state_evaluation,
)
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.phases import load_used_phases
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation import planning_order, target_selection
from nexusform.planning.preparation.prior_state import (
    PriorState,
    build_prior_state,
    exclude_unselected_imports,
)
from nexusform.planning.vm_planning.vm_context import build_vm_context
from nexusform.planning.vm_planning.vm_object import SELECTION_KEY
from nexusform.planning.vm_planning.vm_passes import plan_destroy, plan_vms
from nexusform.plans.maintenance import ACTION_WITH_WORKLOADS
from nexusform.plans.plan import CheckResult, Mode


def make_plan(request: PlanRequest) -> PlanResult:
    """Make a plan, and if requested add remedies: suggested fixes, tested by further plans.

    User errors are diagnostics of the plan (it is `errored`), never exceptions.
    """
    try:
        result = _run_planning_stages_once(request)
        if result.unplaced and not request.is_layout_fixed:
            result = _plan_in_fitting_sample(request, result)
    except DiagnosticsError as rejection:
        return plan_assembly.build_unchanged_plan(request, rejection.diagnostics)
    if not request.includes_remedies:
        return result
    # VMs without capacity.
    if result.unplaced:
        from nexusform.planning.replanning.capacity_remedies import add_remedies

        return add_remedies(request, result, make_plan)
    # VMs in the way of a machine action.
    if any(problem.id == ACTION_WITH_WORKLOADS for problem in result.plan.errors):
        from nexusform.planning.replanning.machine_evacuations import add_evacuation_targets

        return add_evacuation_targets(request, result, make_plan)
    # Other -target options may help.
    if any(SELECTION_KEY in problem.extra for problem in result.plan.diagnostics):
        from nexusform.planning.replanning.waiting_pod_remedies import verify_suggested_selection

        return verify_suggested_selection(request, result, make_plan)
    # Unsatisfied separation rules.
    if result.open_rules:
        from nexusform.planning.replanning.zone_remedies import add_zone_remedies

        result = add_zone_remedies(request, result, make_plan)
    if any(row.is_waiting for row in result.plan.workloads.feasibility):
        from nexusform.planning.replanning.waiting_pod_remedies import add_feasibility_remedies

        return add_feasibility_remedies(request, result, make_plan)
    return result


def _plan_in_fitting_sample(request: PlanRequest, result: PlanResult) -> PlanResult:
    """Return the plan of the first sample of unknown NUMA cells with capacity for everything.

    Without one, return the plan with the fewest unplaced VMs, or in a trial of a remedy
    the given plan.
    """
    from nexusform.planning.verdicts.numa_samples import (
        iterate_fitting_samples,
        list_maximum_capacity_samples,
    )

    for split_choice in iterate_fitting_samples(result.sites, result.unplaced, request.samples):
        new_result = _run_planning_stages_once(replace(request, split_choice=split_choice))
        if not new_result.unplaced:
            return new_result
    if not request.includes_remedies:
        # A trial only needs to know that it does not fit.
        return result
    samples = list_maximum_capacity_samples(result.sites)
    results = [
        _run_planning_stages_once(replace(request, split_choice=sample)) for sample in samples
    ]
    return min(
        [result, *results],
        key=lambda candidate: sum(pool.missing_count for pool in candidate.unplaced),
    )


def _run_planning_stages_once(request: PlanRequest) -> PlanResult:
    """Plan once: prepare, validate, run the phases, and assemble the plan.

    The caller adds remedies.
    """
    start = _prepare_planning_start(request, build_prior_state(request))
    # By cycles of references, or invalid options.
    if start.is_stopped:
        return plan_assembly.build_unchanged_plan(request, start.diagnostics)
    if request.mode is Mode.REFRESH_ONLY:
        return _plan_refresh_only(request, start)
    prior = start.prior
    bodies = PreparedBodyCache(request.registries.schemas)
    evaluation = Evaluation(build_evaluation_settings(request, bodies, prior.state))
    blocks = BlockPlanner(request, start.prior, start.order, start.selection, bodies)
    outcome = (
        _plan_destroy(blocks, evaluation)
        if request.mode is Mode.DESTROY
        else _run_phases(blocks, evaluation)
    )
    # After and before `moved` blocks.
    prior_addresses = [*prior.instances, *prior.previous.values()]
    prior_names = {
        address: vm_object.list_prior_names() for address, vm_object in outcome.objects.items()
    }
    condition_problems, checks = _check_conditions_outside_resources(
        request, outcome.evaluation, start.selection
    )
    output_changes = plan_outputs(request, outcome.evaluation, start.selection)
    phase_diagnostics = [*outcome.phase_diagnostics, *blocks.diagnostics, *bodies.diagnostics]
    phase_diagnostics += check_move_blocks(request, outcome.evaluation)
    phase_diagnostics += [*outcome.evaluation.diagnostics, *output_changes.diagnostics]
    diagnostics = [
        *start.diagnostics,
        *outcome.diagnostics,
        *changes.check_import_targets(blocks, outcome.evaluation),
        *target_selection.check_unmatched_options(
            start.selection,
            start.order,
            blocks.instances,
            # With new objects outside of the selection.
            [*prior_addresses, *blocks.unselected_addresses],
            prior_names,
        ),
        *condition_problems,
        *remove_consequential_errors(
            remove_errors_of_rejected_references(phase_diagnostics, start.diagnostics),
            start.order,
            has_earlier_errors=start.is_flawed or has_errors(outcome.evaluation.diagnostics),
            has_rejected_values=bool(outcome.evaluation.rejected_values)
            or any(instance.is_rejected for instance in blocks.instances.values()),
        ),
    ]
    return plan_assembly.build_plan(blocks, outcome, checks, output_changes, diagnostics)


def _check_conditions_outside_resources(
    request: PlanRequest, evaluation: Evaluation, selection: target_selection.Selection
) -> tuple[list[Diagnostic], list[CheckResult]]:
    """Check the conditions outside of managed resources.

    These are the conditions of variables, outputs, modules, checks and data sources.
    """
    root = request.configuration.root
    has_data = any(mode == "data" for mode, _, _ in root.resources)
    if not (root.variables or root.outputs or root.calls or root.checks or has_data):
        # Nothing to check, so no module is loaded.
        return [], []
    from nexusform.planning.modules.module_conditions import check_all_conditions

    results = check_all_conditions(request, evaluation, selection)
    return results.problems, results.checks


def _plan_refresh_only(request: PlanRequest, start: _PlanningStart) -> PlanResult:
    """Plan a refresh; objects outside the selection are not refreshed."""
    prior = start.prior
    if start.selection.is_partial:
        # Refreshed objects have their old addresses.
        renamed = {old: new for new, old in prior.previous.items()}
        selected_objects = {
            address: observed
            for address, observed in request.refreshed_objects.items()
            if start.selection.has(renamed.get(address, address))
        }
        request = replace(request, refreshed_objects=selected_objects)
        prior = build_prior_state(request)
    current_state = replace(prior.state, instances=prior.instances)
    evaluation = build_state_evaluation(replace(request, state=current_state))
    diagnostics = [
        *start.diagnostics,
        *target_selection.check_unmatched_options(
            start.selection, start.order, prior.instances, request.state.instances, vms={}
        ),
    ]
    return plan_assembly.build_refresh_plan(request, prior, diagnostics, evaluation)


class _PlanningStart(Struct, frozen=True):
    # Start of planning. `is_flawed`: the configuration itself has errors; `is_stopped`:
    # planning is impossible.
    prior: PriorState
    order: planning_order.PlanningOrder
    selection: target_selection.Selection
    diagnostics: list[Diagnostic]
    is_flawed: bool
    is_stopped: bool


def _prepare_planning_start(request: PlanRequest, prior: PriorState) -> _PlanningStart:
    """Prepare the parts common to all blocks: prior state, planning order, selection.

    Invalid options stop the plan.
    """
    order, cycles = planning_order.compute_planning_order(
        request.configuration, request.registries.resource_types
    )
    diagnostics = validate_configuration(request)
    is_flawed = has_errors(diagnostics)
    # Otherwise problems of moves may be consequences.
    if not is_flawed:
        diagnostics += prior.diagnostics
    # Without an order nothing can be planned.
    if cycles:
        return _PlanningStart(
            prior, order, target_selection.Selection(), diagnostics, is_flawed, is_stopped=True
        )
    selection, problems = target_selection.build_selection(
        request.targets, request.excludes, request.replaces, order
    )
    problems += target_selection.check_moved_selection(selection, prior.previous)
    diagnostics += problems
    order = planning_order.move_blocks_to_front(
        order, [address.config_address for address in request.first_addresses]
    )
    return _PlanningStart(
        exclude_unselected_imports(prior, selection),
        order,
        selection,
        diagnostics,
        is_flawed,
        has_errors(problems),
    )


def _run_phases(blocks: BlockPlanner, evaluation: Evaluation) -> PlacementPhasesResult:
    """Run phase by phase: sites and machines, VMs, placements, and other blocks.

    Domains have placements.
    """
    order = blocks.order
    orphans = find_instances_without_block(blocks)
    for block in order.list_phases(planning_order.PHASES_BEFORE_VMS):
        blocks.plan_block(block, evaluation)
    for instance in orphans.without_vms:
        blocks.add_instance(instance, evaluation)
    # A replaced rack or machine may run unmanaged VMs.
    if any(instance.loses_prior_object for instance in blocks.instances.values()):
        from nexusform.planning.vm_planning.machine_recreation import transfer_unmanaged_vms

        transfer_unmanaged_vms(blocks)
    context = build_vm_context(blocks)
    planned_vms = plan_vms(
        order.list_phase(planning_order.VM_PHASE), orphans.with_vms, context, blocks, evaluation
    )
    # With known placements.
    placed_evaluation = planned_vms.evaluation
    used_phases = load_used_phases([*order.blocks, *blocks.prior.instances])  # of domains
    objects = planned_vms.objects.values()
    contributions = tuple(
        [phases.plan(blocks, objects, placed_evaluation) for phases in used_phases]
    )
    domain_diagnostics = chain.from_iterable(result.diagnostics for result in contributions)
    for block in order.list_phases(planning_order.PHASES_AFTER_PLACEMENTS):
        blocks.plan_block(block, placed_evaluation)
    read_all_data(blocks.request.configuration, placed_evaluation)
    # The outputs of a partial plan may refer to missing objects.
    if not blocks.selection.is_partial:
        for module_instance in iterate_module_instances(
            blocks.request.configuration, placed_evaluation
        ):
            # Without references, too, so that problems are reported.
            for name in module_instance.module.outputs:
                placed_evaluation.get_output(module_instance, name)
    return PlacementPhasesResult(
        evaluation=placed_evaluation,
        sites=context.sites,
        objects=planned_vms.objects,
        prior_context=context.prior_context,
        contributions=contributions,
        diagnostics=(*orphans.diagnostics, *context.diagnostics),
        phase_diagnostics=(*planned_vms.diagnostics, *domain_diagnostics),
    )


def _plan_destroy(blocks: BlockPlanner, evaluation: Evaluation) -> PlacementPhasesResult:
    """Destroy the selection and its dependents: nothing is evaluated or placed."""
    objects, prior_context = plan_destroy(blocks)
    used_phases = load_used_phases([*blocks.order.blocks, *blocks.prior.instances])  # of domains
    contributions = tuple([phases.remove(blocks, objects.values()) for phases in used_phases])
    return PlacementPhasesResult(
        evaluation=evaluation,
        sites={},
        objects=objects,
        prior_context=prior_context,
        contributions=contributions,
        phase_diagnostics=tuple(
            problem for domain in contributions for problem in domain.diagnostics
        ),
    )
