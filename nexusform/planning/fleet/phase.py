"""Phase 6 of a plan: all placements as one batch, over the members and hub objects of phase 5.

A batch goes in rounds: every queued placement runs its chain of scheduling cycles on the same member
figures, the pods that come are predicted, members whose figures changed queue placements by the
watcher's table, until no binding changes. Then evictions, rollouts and staged runs say what becomes of the
bindings, and everything is concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nexusform.address import Address, ConfigAddress
from nexusform.configuration.model import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, has_errors
from nexusform.importers.fleet_model import EXTERNAL, FleetPlacement, FleetRun
from nexusform.plain_data import Path
from nexusform.planning.fleet.hub import (
    Hub,
    availability_tracked,
    note_members,
    note_resources,
    prepare_resources,
    read_hub,
    read_members,
)
from nexusform.planning.fleet.outcome import FleetOutcome, conclude_placement, placement_warnings
from nexusform.planning.fleet.placement import PlacementPlan, begin
from nexusform.planning.fleet.rounds import place_pods, run_rounds
from nexusform.planning.fleet.rows import binding_rows, removed_rows
from nexusform.planning.fleet.world import FleetMemberState, Pods
from nexusform.planning.instances.arguments import undecided, undecided_error
from nexusform.planning.instances.blocks import Blocks, show
from nexusform.planning.instances.difference import planned_attributes
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.plan import PlacementChange
from nexusform.planning.preparation.order import PLACEMENT_PHASE
from nexusform.planning.vms.nodes import NodeCluster
from nexusform.ports import Kind
from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.fleet.changes import check_budget, check_policy_change, check_strategy_change
from nexusform.scheduling.fleet.eviction import Target, after, evict
from nexusform.scheduling.fleet.model import BindingState, PlacementType
from nexusform.scheduling.fleet.rollout import Readiness, roll_out, target_of
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.fleet.staged import RunProblem, RunState, StepKind, execute, initialize
from nexusform.scheduling.fleet.validation import sentence


def plan_placements(
    blocks: Blocks, evaluation: Evaluation, clusters: Mapping[str, NodeCluster], pods: Pods
) -> FleetOutcome:
    """Plan all placements. `clusters` are those that members may stand for, by id."""
    members, diagnostics = read_members(blocks.instances.values(), clusters, pods)
    hub = read_hub(blocks.instances.values())
    diagnostics += hub.diagnostics
    instances: list[Instance] = []
    for block in blocks.order.of(PLACEMENT_PHASE):
        evaluated, problems = _evaluated(block, blocks, evaluation)
        instances += evaluated
        diagnostics += problems
    placements: list[PlacementPlan] = []
    for instance in instances:
        placement, problems = _begun(instance, blocks, evaluation)
        placements += [placement] if placement is not None else []
        diagnostics += problems
    diagnostics += evict_once({placement.written.key: placement for placement in placements}, hub)
    labels = {name: member.now.labels for name, member in members.items() if member.now is not None}
    for placement in placements:
        prepare_resources(placement, hub, labels)
    rounds = run_rounds(placements, members, pods)
    diagnostics += roll_out_all(placements, hub, rounds.roster)
    place_pods(placements, members, pods, rounds.placed)  # what a staged run brought
    by_address = {placement.instance.address: placement for placement in placements}
    for instance in instances:
        _conclude(instance, by_address.get(instance.address), blocks, evaluation)
    note_members(members.values(), blocks.instances)
    diagnostics += placement_warnings(placements, members, rounds)
    refusals = rounds.refusals(placements) if blocks.request.want_rejected else {}
    rows = _rows(blocks.instances.values(), by_address, members, refusals)
    return FleetOutcome(tuple(rows), by_address, rounds.roster, tuple(diagnostics))


def _evaluated(
    block: ResourceBlock, blocks: Blocks, evaluation: Evaluation
) -> tuple[Sequence[Instance], list[Diagnostic]]:
    """The instances of a block with their arguments; their computed values are not known yet."""
    expanded = blocks.expanded(block, evaluation)
    assert expanded is not None
    blocks.diagnostics += expanded.diagnostics
    needs = blocks.order.direct_needs(block.address)
    others = [need for need in needs if blocks.order.phases[need] == PLACEMENT_PHASE]
    diagnostics: list[Diagnostic] = []
    for instance in expanded.instances:
        if not instance.configured:
            continue
        diagnostics += blocks.evaluate(instance, evaluation)
        for path in undecided(instance):
            instance.broken = True
            problem = _circle(instance, path, others[0]) if others else undecided_error(instance, path)
            diagnostics.append(problem)
        assert instance.config is not None
        known = {} if instance.broken else {"id": instance.type.identify(instance.config)}
        instance.planned = planned_attributes(instance.type.schema, instance.config, None, known)
        show(instance, evaluation)
    return expanded.instances, diagnostics


def _begun(
    instance: Instance, blocks: Blocks, evaluation: Evaluation
) -> tuple[PlacementPlan | None, list[Diagnostic]]:
    """The placement of an instance before its first round; None when it goes or is in error."""
    if not instance.configured or instance.broken or instance.config is None:
        return None, []
    assert instance.type.fleet is not None
    written = instance.type.fleet(instance.config)
    if not isinstance(written, FleetPlacement):
        return None, []
    blocks.preview(instance, evaluation)
    placement = begin(instance, written)
    problems = list(_forbidden_changes(placement))
    if has_errors(problems):
        instance.broken = True
        return None, problems
    return placement, problems


def _forbidden_changes(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """What may not change about an object that stands."""
    before, now, instance = placement.before, placement.written, placement.instance
    if before is None:
        return
    changes = check_policy_change(before.policy, now.policy)
    changes += check_strategy_change(before.strategy, now.strategy)
    in_manifest = bool(instance.config and instance.config.get("manifest"))
    for change in changes:
        path: Path = ("manifest",) if in_manifest else change.path
        if path == ("policy",) and now.policy is None:
            path = ()
        detail = (
            f"{sentence(change.detail)} To make the placement anew, and with it every "
            f"binding, plan with -replace='{instance.address}'."
        )
        yield instance.problem(Problem(path, "change-not-allowed", detail))


def _conclude(
    instance: Instance, placement: PlacementPlan | None, blocks: Blocks, evaluation: Evaluation
) -> None:
    if placement is not None:
        note_resources(placement, blocks.request.state.serial + 1)
        blocks.conclude(instance, conclude_placement(placement), evaluation)
    elif instance.configured:
        blocks.conclude(instance, {}, evaluation)
    blocks.keep(instance, evaluation)


def _rows(
    instances: Iterable[Instance],
    placements: Mapping[Address, PlacementPlan],
    members: Mapping[str, FleetMemberState],
    refusals: Mapping[Address, tuple[Refusal, ...]],
) -> Iterator[PlacementChange]:
    """What happens to every binding; `refusals` are the members that were not picked."""
    for instance in instances:
        if instance.type.kind is not Kind.PLACEMENT:
            continue
        if instance.going or instance.replaced:
            yield from removed_rows(instance)
        placement = placements.get(instance.address)
        if placement is not None:
            yield from binding_rows(placement, members, refusals.get(instance.address, ()))


def _circle(instance: Instance, path: Path, other: ConfigAddress) -> Diagnostic:
    return instance.error(
        "placement-depends-on-another-placement",
        f"All placements are decided together, so an argument of {instance.address} cannot depend on what "
        f"is decided for {other}. Write the value out, or derive both from the same variable.",
        path,
    )


def evict_once(placements: Mapping[str, PlacementPlan], hub: Hub) -> list[Diagnostic]:
    """Carry out the evictions that this plan makes, in planning order."""
    problems = [*_budget_problems(placements, hub)]
    for instance, eviction in hub.evictions:
        placement = placements.get(eviction.placement)
        target = _target(placement) if placement is not None else None
        _, budget = hub.budgets.get(eviction.placement, (None, None))
        result = evict(eviction.cluster, target, budget.budget if budget is not None else None)
        if placement is not None:
            placement.evictions.append((eviction.name, result))
        if not result.executed:
            text = f"{result.message} (placement {eviction.placement}, cluster {eviction.cluster})."
            kind = "eviction-is-not-executed" if result.valid else "invalid-eviction"
            problems.append(instance.problem(Problem((), kind, text, Severity.WARNING)))
    return problems


def _target(placement: PlacementPlan) -> Target:
    bindings = placement.held
    for _, eviction in placement.evictions:
        bindings = after(eviction, bindings)
    up = frozenset(
        binding.cluster
        for binding in bindings
        if binding.state is BindingState.BOUND and not binding.deleting
    )
    return Target(placement.written.kind, bindings, placement.written.number, up)


def _budget_problems(placements: Mapping[str, PlacementPlan], hub: Hub) -> Iterator[Diagnostic]:
    for name, (instance, budget) in hub.budgets.items():
        placement = placements.get(name)
        if placement is None or placement.written.kind is not PlacementType.PICK_ALL:
            continue
        already = check_budget(budget.budget, None)
        for problem in check_budget(budget.budget, PlacementType.PICK_ALL):
            if problem not in already:
                text = sentence(problem.detail)
                yield instance.problem(Problem(problem.path, "invalid-disruption-budget", text))


def roll_out_all(placements: Sequence[PlacementPlan], hub: Hub, roster: Roster) -> Iterator[Diagnostic]:
    """Roll every placement out: wave by wave, or as staged runs say."""
    by_key = {placement.written.key: placement for placement in placements}
    for placement in placements:
        if placement.written.strategy != EXTERNAL:
            yield from _roll(placement)
    for instance, run in hub.runs:
        yield from _staged_run(instance, run, by_key.get(run.placement), hub, roster)


def _roll(placement: PlacementPlan) -> Iterator[Diagnostic]:
    written = placement.written
    readiness = Readiness(outdated=placement.outdated, trackable=availability_tracked(placement.selected))
    target = target_of(written.policy, placement.snapshot.number_of_clusters, placement.held)
    outcome = roll_out(placement.held, written.rolling, target, placement.resource_index, readiness)
    placement.held, placement.waves, placement.stalled = outcome.bindings, outcome.waves, outcome.stalled
    for wave in outcome.waves:
        placement.rolled |= {*wave.updated, *wave.bound}
    if outcome.stalled:
        text = (
            f"The rollout of {written.key} stops before {', '.join(outcome.stalled)}: with max_unavailable = "
            f"{written.rolling.max_unavailable} and max_surge = {written.rolling.max_surge} nothing more may "
            "be taken down or added. Raise one of them."
        )
        config = placement.instance.config
        path = ("strategy",) if config and not config.get("manifest") else ()
        yield placement.instance.problem(Problem(path, "rollout-does-not-complete", text, Severity.WARNING))


def _values_begun(instance: Instance) -> Mapping[str, Any]:
    """What the run fixed when it began; empty for a run that has not begun."""
    prior = None if instance.replaced else instance.prior
    return (prior.private if prior is not None else None) or {}


def _cluster_count(placement: PlacementPlan) -> int | None:
    """How many clusters the placement asks for; None: all."""
    if placement.written.kind is PlacementType.PICK_N:
        return placement.snapshot.number_of_clusters
    if placement.written.kind is PlacementType.PICK_FIXED:
        return len(placement.written.policy.cluster_names) if placement.written.policy else 0
    return None


def _staged_run(
    instance: Instance, run: FleetRun, placement: PlacementPlan | None, hub: Hub, roster: Roster
) -> Iterator[Diagnostic]:
    def warned(kind: str, text: str) -> Diagnostic:
        return instance.problem(Problem((), kind, text, Severity.WARNING))

    if placement is None or placement.written.strategy != EXTERNAL:
        what = "no such placement" if placement is None else "its strategy is not External"
        yield warned("staged-run-has-nothing-to-do", f"{run.placement}: {what}.")
        return
    strategy = hub.strategies.get(run.strategy)
    if strategy is None:
        yield warned("staged-run-has-no-strategy", f'There is no staged update strategy "{run.strategy}".')
        return
    count = _cluster_count(placement)
    plan = initialize(
        placement.held, placement.snapshot, count, placement.fulfilled, roster.members, strategy.stages
    )
    if isinstance(plan, RunProblem):
        yield warned("staged-run-cannot-begin", f"{plan.message}.")
        return
    terms = {"policy_snapshot": plan.policy_snapshot, "cluster_count": plan.cluster_count}
    first_terms = _values_begun(instance) or terms
    if first_terms != terms:
        text = (
            f"{run.name} began under policy snapshot {first_terms['policy_snapshot']} with"
            f" {first_terms['cluster_count']} cluster(s); now it is {terms['policy_snapshot']} with"
            f" {terms['cluster_count']}. Make another run, or replace it with -replace."
        )
        yield warned("staged-run-is-aborted", text)
        return
    instance.private = first_terms
    if run.state is not RunState.RUN:
        return
    index = placement.resource_index if run.resource_index is None else run.resource_index
    outcome = execute(plan, run.name, placement.held, index, approved=run.approvals)
    placement.held = outcome.bindings
    placement.run_caused = f"staged run {run.name}"
    for step in outcome.steps:
        if step.kind is StepKind.UPDATE:
            placement.rolled |= {*step.clusters}
    if outcome.waits_for:
        yield warned(
            "staged-run-waits-for-an-approval",
            f'The run stops before {outcome.waits_for}; add "{outcome.waits_for}" to its approvals to go on.',
        )
