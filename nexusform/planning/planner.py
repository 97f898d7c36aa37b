"""make_plan: configuration + variables + what stands -> a Plan. Start reading here.

The journey of one VM: its block takes its turn (preparation), its arguments get values (names, instances),
its resource type says what it asks for (ports.VmFamily.demand), triggers say why it comes, goes or stays,
the site's scheduler gives it a machine (vms), the difference to what stands becomes a Change, and steps say
in which order apply follows (conclusion).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Refused, has_errors
from nexusform.planning.conclusion import changes, conclusion
from nexusform.planning.conclusion.conclusion import PlannedWorld, causes
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.instances.blocks import Blocks, orphans_of
from nexusform.planning.modules.conditions import check_conditions
from nexusform.planning.modules.outputs import plan_outputs, read_all_data, work_out_all_outputs
from nexusform.planning.modules.validation import problems_of_moves, validate
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.setting import PreparedBodies, setting_for, standing_evaluation
from nexusform.planning.phases import plan_phases, remove_phases, said_by
from nexusform.planning.preparation.order import (
    PLACEMENT_PHASE,
    VM_PHASE,
    Order,
    brought_forward,
    planning_order,
)
from nexusform.planning.preparation.prior import Prior, prior_of, selected
from nexusform.planning.preparation.selection import Selection, moved_without_selection, select, unmatched
from nexusform.planning.request import PlanRequest
from nexusform.planning.verdicts.draws import fitting_draws, roomiest
from nexusform.planning.verdicts.stranded import SELECTION
from nexusform.planning.vms.vm_walk import destroy, plan_vms
from nexusform.planning.vms.vm_world import vm_world
from nexusform.plans.plan import Mode


def make_plan(request: PlanRequest) -> PlanResult:
    """Plan. Never raises for what the user wrote: errors are in the plan's diagnostics, and a plan
    with errors is `errored`.
    """
    try:
        result = _planned(request)
        if result.unplaced:
            result = _in_a_fitting_draw(request, result)
    except Refused as refused:
        return conclusion.without_changes(request, refused.diagnostics)
    if request.ways_out and result.unplaced:
        from nexusform.planning.replanning.remedies import with_ways_out

        return with_ways_out(request, result, make_plan)
    if request.ways_out and any(SELECTION in problem.extra for problem in result.plan.diagnostics):
        from nexusform.planning.replanning.selections import tried

        return tried(request, result, make_plan)
    if request.ways_out and result.separations:
        from nexusform.planning.replanning.zone_sets import with_zone_sets

        return with_zone_sets(request, result, make_plan)
    return result


def _in_a_fitting_draw(request: PlanRequest, result: PlanResult) -> PlanResult:
    """Where NUMA cells are not known: the plan in the first way in which VMs may lie so that everything fits.
    Where there is none, the one in which most does: what it says of the others then holds for every way.
    """
    for way in fitting_draws(result.sites, result.unplaced, request.tie_breaks):
        again = _planned(replace(request, split_seed=way))
        if not again.unplaced:
            return again
    if not request.ways_out:
        return result  # it is a trial: that it does not fit is all that is asked
    tried = [result, *(_planned(replace(request, split_seed=way)) for way in roomiest(result.sites))]
    return min(tried, key=lambda each: sum(pool.missing for pool in each.unplaced))


def _planned(request: PlanRequest) -> PlanResult:
    """The stages in their order."""
    start = _prepared(request, prior_of(request))
    if start.stopped:
        return conclusion.without_changes(request, start.diagnostics)
    if request.mode is Mode.REFRESH_ONLY:
        return _refreshed_only(request, start)
    prior = start.prior
    bodies = PreparedBodies(request.registries.schemas)
    evaluation = Evaluation(setting_for(request, bodies, prior.state))
    blocks = Blocks(request, start.prior, start.order, start.selection, bodies)
    world = _removed(blocks, evaluation) if request.mode is Mode.DESTROY else _walked(blocks, evaluation)
    standing = [*prior.instances, *prior.previous.values()]
    names_before = {address: vms.names_before() for address, vms in world.vms.items()}
    checked = check_conditions(request, world.evaluation, start.selection)
    outputs = plan_outputs(request, world.evaluation, start.selection)
    walked = [*world.walked, *blocks.diagnostics, *bodies.diagnostics]
    walked += problems_of_moves(request, world.evaluation)
    walked += [*world.evaluation.diagnostics, *outputs.diagnostics]
    diagnostics = [
        *start.diagnostics,
        *world.diagnostics,
        *changes.missing_targets(blocks),
        *unmatched(start.selection, start.order, blocks.instances, standing, names_before),
        *checked.problems,
        *causes(walked, start.order, flawed=start.flawed),
    ]
    return conclusion.conclude(blocks, world, checked.checks, outputs, diagnostics)


def _refreshed_only(request: PlanRequest, start: _Start) -> PlanResult:
    """What was found and what follows from it; of what the selection leaves out nothing is taken over."""
    prior = start.prior
    if start.selection.partial:
        renamed = {old: new for new, old in prior.previous.items()}
        taken = {
            address: found
            for address, found in request.refreshed.items()
            if start.selection.has(renamed.get(address, address))
        }
        request = replace(request, refreshed=taken)
        prior = prior_of(request)
    standing = replace(prior.state, instances=prior.instances)
    evaluation = standing_evaluation(replace(request, state=standing))
    return conclusion.refreshed_only(request, prior, start.diagnostics, evaluation)


class _Start(Struct, frozen=True):
    # Where planning starts from. `flawed`: something is wrong with the configuration itself; `stopped`: so
    # much that nothing can be planned.
    prior: Prior
    order: Order
    selection: Selection
    diagnostics: list[Diagnostic]
    flawed: bool
    stopped: bool


def _prepared(request: PlanRequest, prior: Prior) -> _Start:
    """Everything that holds for all blocks: what stands, in which order they come, which are selected."""
    order, cycles = planning_order(request.configuration, request.registries.resource_types)
    diagnostics = validate(request)
    flawed = has_errors(diagnostics)
    if not flawed:
        # What became of statements that cannot be followed is a mere consequence.
        diagnostics += prior.diagnostics
    if cycles:
        return _Start(prior, order, Selection(), diagnostics, flawed, stopped=True)
    selection, problems = select(request.targets, request.excludes, request.replaces, order)
    problems += moved_without_selection(selection, prior.previous)
    diagnostics += problems
    order = brought_forward(order, [address.config for address in request.first])
    return _Start(selected(prior, selection), order, selection, diagnostics, flawed, has_errors(problems))


def _walked(blocks: Blocks, evaluation: Evaluation) -> PlannedWorld:
    """Phase by phase, each on what those before it have made: racks and machines, VMs on them, fleet
    objects and the pods that they bring, placements.
    """
    order = blocks.order
    orphans = orphans_of(blocks)
    for block in order.before(VM_PHASE):
        blocks.plan_ordinary(block, evaluation)
    for instance in orphans.others:
        blocks.keep(instance, evaluation)
    if any(instance.going or instance.replaced for instance in blocks.instances.values()):
        from nexusform.planning.vms.successors import hand_on

        hand_on(blocks)
    ground = vm_world(blocks)
    vms = plan_vms(order.of(VM_PHASE), orphans.with_vms, ground, blocks, evaluation)
    placed = vms.evaluation  # in which placements are known
    contributions = plan_phases(blocks, vms.objects.values(), placed)
    for block in order.after(PLACEMENT_PHASE):
        blocks.plan_ordinary(block, placed)
    read_all_data(blocks.request.configuration, placed)
    if not blocks.selection.partial:
        work_out_all_outputs(blocks.request.configuration, placed)
    return PlannedWorld(
        placed,
        ground.sites,
        vms.objects,
        ground.before,
        contributions,
        diagnostics=(*orphans.diagnostics, *ground.diagnostics),
        walked=(*vms.diagnostics, *said_by(contributions)),
    )


def _removed(blocks: Blocks, evaluation: Evaluation) -> PlannedWorld:
    """Nothing is planned: what is selected goes, with all that depends on it."""
    vms, before = destroy(blocks)
    contributions = remove_phases(blocks, vms.values())
    walked = tuple(said_by(contributions))
    return PlannedWorld(evaluation, {}, vms, before, contributions, walked=walked)
