"""Phase 6 of a plan: all placements as one batch, over the members and hub objects of phase 5.

A batch goes in rounds: every queued placement runs its chain of scheduling cycles on the same member
figures, the pods that come are predicted, members whose figures changed queue placements by the
watcher's table, until no binding changes. Then evictions, rollouts and staged runs say what becomes of the
bindings, and everything is concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress
from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, has_errors
from nexusform.domains.fleet.planning.asked import Asked, asked_of
from nexusform.domains.fleet.planning.beside_others import TOLERATIONS, owner_of, placement_beside_others
from nexusform.domains.fleet.planning.brought import note_resources, prepare_resources
from nexusform.domains.fleet.planning.hub import Hub, read_hub
from nexusform.domains.fleet.planning.left_out import members_found_gone
from nexusform.domains.fleet.planning.members_on_hub import note_members, read_members
from nexusform.domains.fleet.planning.outcome import (
    FleetOutcome,
    conclude_placement,
    not_abandoned,
    passed_over,
    placement_warnings,
    shown_bindings,
)
from nexusform.domains.fleet.planning.placement import PlacementPlan, begin
from nexusform.domains.fleet.planning.rounds import after_runs, run_rounds
from nexusform.domains.fleet.planning.rows import binding_rows, removed_rows, rolling_timeline
from nexusform.domains.fleet.planning.runs import carry_out_runs
from nexusform.domains.fleet.planning.world import FleetMemberState, Pods, ShownHub, clusters_of, shown_hub
from nexusform.domains.fleet.scheduling.bindings import BindingState, PlacementType
from nexusform.domains.fleet.scheduling.changes import (
    check_budget,
    check_policy_change,
    check_strategy_change,
)
from nexusform.domains.fleet.scheduling.eviction import Target, after, evict
from nexusform.domains.fleet.scheduling.rollout import Stop
from nexusform.domains.fleet.scheduling.validation import invalid, sentence
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.plain_data import Path
from nexusform.planning.instances.argument_evaluation import undecided, undecided_error
from nexusform.planning.instances.blocks import Blocks, show
from nexusform.planning.instances.difference import planned_attributes
from nexusform.planning.instances.instance import Decision, Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.preparation.order import PLACEMENT_PHASE
from nexusform.plans.plan import PlacementChange
from nexusform.ports import Kind
from nexusform.scheduling.decision import Refusal
from nexusform.words import form, listed


def plan_placements(
    blocks: Blocks, evaluation: Evaluation, clusters: Mapping[str, NodeCluster], pods: Pods
) -> FleetOutcome:
    """Plan all placements. `clusters` are those that members may stand for, by id."""
    shown = shown_hub(blocks.request, evaluation)
    found_gone = members_found_gone(blocks.prior, blocks.request.registries)
    instances_so_far = blocks.instances.values()
    members, diagnostics = read_members(instances_so_far, clusters, pods, shown.members, found_gone)
    hub = read_hub(blocks.instances.values(), shown)
    diagnostics += hub.diagnostics
    instances: list[Instance] = []
    types = blocks.request.registries.resource_types
    for block in blocks.order.of(PLACEMENT_PHASE):
        if types[block.type].fleet is None:
            continue  # another domain's
        evaluated, problems = _evaluated(block, blocks, evaluation)
        instances += evaluated
        diagnostics += problems
    standing = clusters_of(members)
    remade = hub.remade
    placements: list[PlacementPlan] = []
    for instance in instances:
        asked, problems = _asked(instance, blocks, evaluation, shown)
        diagnostics += problems
        if asked is None:
            continue
        placements.append(begin(asked, *prepare_resources(asked, hub, standing)))
        if remade and not asked.external:  # else a staged run has to bring what changes on the hub
            pods.remake(asked.address, remade)
    diagnostics += evict_once({placement.key: placement for placement in placements}, hub)
    rounds = run_rounds(placements, members, pods, hub.on_members(members), blocks.request.progress)
    diagnostics += carry_out_runs(placements, hub, rounds.roster)
    rounds = after_runs(placements, members, pods, rounds)
    diagnostics += roll_out_all(placements)
    by_address = {placement.asked.instance.address: placement for placement in placements}
    for instance in instances:
        _conclude(instance, by_address.get(instance.address), blocks, evaluation)
    note_members(members.values(), blocks.instances)
    diagnostics += placement_warnings(placements, members, rounds, unread=shown.unread)
    diagnostics += not_abandoned(blocks.instances.values())
    refusals = rounds.refusals(placements) if blocks.request.want_rejected else {}
    rows = _rows(blocks.instances.values(), by_address, members, refusals)
    rollouts = chain.from_iterable(placement.rolled_out.timelines for placement in placements)
    return FleetOutcome(
        rows=tuple(rows),
        placements=by_address,
        roster=rounds.roster,
        diagnostics=tuple(diagnostics),
        rollouts=tuple(rollouts),
        passed_over=tuple(passed_over(placements)),
        shown=dict(shown_bindings(placements)),
    )


def _evaluated(
    block: ResourceBlock, blocks: Blocks, evaluation: Evaluation
) -> tuple[Sequence[Instance], list[Diagnostic]]:
    """The instances of a block with their arguments; their computed values are not known yet."""
    expanded = blocks.expanded(block, evaluation)
    assert expanded is not None
    blocks.diagnostics += expanded.diagnostics
    needs = blocks.order.direct_needs(block.address)
    other_placements = [need for need in needs if blocks.order.phases[need] == PLACEMENT_PHASE]
    diagnostics: list[Diagnostic] = []
    for instance in expanded.instances:
        if not instance.configured:
            continue
        diagnostics += blocks.evaluate(instance, evaluation)
        for path in undecided(instance):
            instance.broken = True
            if other_placements:
                diagnostics.append(_circle(instance, path, other_placements[0]))
            else:
                diagnostics.append(undecided_error(instance, path))
        assert instance.config is not None
        # Later blocks may refer to its id; all else that is computed they see as unknown.
        computed = {} if instance.broken else {"id": instance.type.identify(instance.config)}
        planned = planned_attributes(instance.type.schema, instance.config, None, computed)
        instance.decision = Decision(planned=planned)
        show(instance, evaluation)
    return expanded.instances, diagnostics


def _asked(
    instance: Instance, blocks: Blocks, evaluation: Evaluation, shown: ShownHub
) -> tuple[Asked | None, list[Diagnostic]]:
    """What an instance asks for; None when it goes or is in error."""
    if not instance.configured or instance.broken or instance.config is None:
        return None, []
    written = placement_beside_others(instance, instance.config)
    if written is None:
        return None, []
    blocks.preview(instance, evaluation)
    asked = asked_of(instance, written, shown.of(instance))
    problems = list(_forbidden_changes(asked))
    if has_errors(problems):
        instance.broken = True
        return None, problems
    return asked, problems


def _forbidden_changes(asked: Asked) -> Iterator[Diagnostic]:
    """What may not change about an object that stands."""
    before, written, instance = asked.before, asked.written, asked.instance
    if before is None:
        return
    changes = check_policy_change(before.policy, written.policy)
    changes += check_strategy_change(before.strategy, written.strategy)
    if before.status_reporting_scope != written.status_reporting_scope:
        changes.append(invalid(("status_reporting_scope",), "statusReportingScope is immutable"))
    in_manifest = bool(instance.config and instance.config.get("manifest"))
    for change in changes:
        path: Path = ("manifest",) if in_manifest else change.path
        if path == ("policy",) and written.policy is None:
            path = ()  # the block is gone: nothing to point at but the placement
        detail = _of_other(asked, change.path) or f"{sentence(change.detail)} {_way_out(instance)}"
        yield instance.problem(Problem(path, "change-not-allowed", detail))


def _of_other(asked: Asked, path: Path) -> str:
    """Why a list that somebody else set cannot be what is written, and what to do; "" where it is ours."""
    owner = owner_of(asked.instance, TOLERATIONS) if path == ("policy", "toleration") else ""
    if not owner or asked.before is None or asked.before.policy is None:
        return ""
    kept = asked.written.policy.tolerations if asked.written.policy is not None else ()
    taken = [each.title for each in asked.before.policy.tolerations if each not in kept]
    them, belongs = form(len(taken), "it", "them"), form(len(taken), "stands", "stand")
    return (
        f"{owner} set {TOLERATIONS} on the hub, where {listed(taken, 4)} {belongs} beside what is written "
        "here, and a hub lets tolerations be added only. "
        f"Write {them} here as well, or leave the list to {owner}: lifecycle "
        f"{{ ignore_changes = [policy.toleration] }}. Only -replace='{asked.instance.address}' makes the "
        f"placement without {them}, and every binding anew."
    )


def _way_out(instance: Instance) -> str:
    """What to do instead: of a placement that is not in state nothing is replaced."""
    if instance.before is not None:
        return (
            f"To make the placement anew, and with it every binding, plan with -replace='{instance.address}'."
        )
    name = instance.type.identify(instance.config or {})
    return (
        "It stands on the hub and is not in state: take it over as it stands by an import block "
        f'(to = {instance.address}, id = "{name}"), or choose another name.'
    )


def _conclude(
    instance: Instance,
    placement: PlacementPlan | None,
    blocks: Blocks,
    evaluation: Evaluation,
) -> None:
    """Settle the values of an instance once all rounds are over."""
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


def _circle(instance: Instance, path: Path, other_placement: ConfigAddress) -> Diagnostic:
    return instance.error(
        "placement-depends-on-another-placement",
        f"All placements are decided together, so an argument of {instance.address} cannot depend on what "
        f"is decided for {other_placement}. Write the value out, or derive both from the same variable.",
        path,
    )


def evict_once(placements: Mapping[str, PlacementPlan], hub: Hub) -> list[Diagnostic]:
    """Carry out the evictions that this plan makes, in planning order."""
    problems = list(_budget_problems(placements, hub))
    for instance, eviction in hub.evictions:
        placement = placements.get(eviction.placement)
        target = _target(placement) if placement is not None else None
        outcome = evict(eviction.cluster, target, hub.budget_of(eviction.placement))
        if placement is not None:
            placement.evictions = (*placement.evictions, (eviction.name, outcome))
        if not outcome.executed:
            text = f"{outcome.message} (placement {eviction.placement}, cluster {eviction.cluster})."
            kind = "eviction-is-not-executed" if outcome.valid else "invalid-eviction"
            problems.append(instance.problem(Problem((), kind, text, Severity.WARNING)))
    return problems


def _target(placement: PlacementPlan) -> Target:
    """The placement as evictions find it, those before this one carried out."""
    bindings = placement.held
    for _, eviction in placement.evictions:
        bindings = after(eviction, bindings)
    down = placement.failed_before | placement.not_ready
    up = frozenset(
        binding.cluster
        for binding in bindings
        if binding.state is BindingState.BOUND and not binding.deleting and binding.cluster not in down
    )
    return Target(
        placement.asked.written.kind, bindings, placement.asked.written.number, up, placement.failed_before
    )


def _budget_problems(placements: Mapping[str, PlacementPlan], hub: Hub) -> Iterator[Diagnostic]:
    """What is wrong with budgets of placements that pick all clusters, beyond what is wrong anyway."""
    for name, (instance, budget) in hub.budgets.items():
        placement = placements.get(name)
        if placement is None or placement.asked.written.kind is not PlacementType.PICK_ALL:
            continue
        already = check_budget(budget.budget, None)
        for problem in check_budget(budget.budget, PlacementType.PICK_ALL):
            if problem not in already:
                text = sentence(problem.detail)
                yield instance.problem(Problem(problem.path, "invalid-disruption-budget", text))


def roll_out_all(placements: Sequence[PlacementPlan]) -> Iterator[Diagnostic]:
    """Roll out wave by wave what no staged run rolls out."""
    for placement in placements:
        if not placement.asked.external:
            yield from _roll(placement)


def _roll(placement: PlacementPlan) -> Iterator[Diagnostic]:
    """Roll out what changed, within the strategy; a warning where it cannot go on."""
    outcome = placement.roll_out()
    placement.held = outcome.bindings
    rolled_out = placement.rolled_out
    clusters = rolled_out.clusters | outcome.reached
    placement.rolled_out = replace(
        rolled_out, clusters=clusters, waves=outcome.waves, stalled=outcome.stalled
    )
    timeline = rolling_timeline(placement)
    if timeline is not None:
        placement.rolled_out = placement.rolled_out.with_timeline(timeline)
    left = [cluster for cluster in outcome.stalled if cluster in placement.left_members]
    if left:
        yield from _staying_behind(placement, left)
    held_up = [cluster for cluster in outcome.stalled if cluster not in placement.left_members]
    if held_up:
        yield _held_up(placement, held_up)


def _staying_behind(placement: PlacementPlan, left: Sequence[str]) -> Iterator[Diagnostic]:
    """A warning for bindings on members that leave with this plan and that no rollout removes."""
    before = {binding.cluster: binding.state for binding in placement.asked.prior}
    staying = [cluster for cluster in left if before.get(cluster) is not BindingState.UNSCHEDULED]
    if not staying:
        return
    key, rolling = placement.key, placement.asked.written.rolling
    which, stay = form(len(staying), "binding", "bindings"), form(len(staying), "stays", "stay")
    text = (
        f"{listed(staying, 4)} left the fleet, and the {which} of {key} there {stay} Unscheduled: removing "
        "counts like taking a ready cluster down, and with max_unavailable = "
        f"{rolling.max_unavailable} none of the others may be missed. To the plan nothing runs there any "
        "more. It goes when another cluster makes room, or with a higher max_unavailable."
    )
    brief = f"{key}: the {which} on {listed(staying, 4)}, which left the fleet, {stay} Unscheduled"
    problem = Problem((), "binding-of-a-member-that-left-stays", text, Severity.WARNING, brief=brief)
    yield placement.asked.instance.problem(problem)


def _held_up(placement: PlacementPlan, clusters: Sequence[str]) -> Diagnostic:
    """A warning for a rollout that cannot go on: what stops it, and what to do."""
    failing = sorted((placement.fails_now & {binding.cluster for binding in placement.held}) - {*clusters})
    config = placement.asked.instance.config
    path = ("strategy",) if config and not config.get("manifest") else ()
    stop = Stop(placement.key, placement.asked.written.rolling, tuple(clusters))
    return placement.asked.instance.problem(stop.problem(path, failing))
