"""Evictions, rollouts and staged runs of a plan: what becomes of bindings once they are scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.importers.fleet_model import EXTERNAL, FleetRun
from nexusform.planning.fleet.hub import Hub
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.fleet.selection import availability_tracked
from nexusform.planning.instances.instance import Instance
from nexusform.scheduling.fleet.changes import check_budget
from nexusform.scheduling.fleet.eviction import Target, after, evict
from nexusform.scheduling.fleet.model import BindingState, PlacementType
from nexusform.scheduling.fleet.rollout import Readiness, roll_out, target_of
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.fleet.staged import RunProblem, RunState, StepKind, execute, initialize
from nexusform.scheduling.fleet.validation import sentence


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
        yield from _run(instance, run, by_key.get(run.placement), hub, roster)


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


def _begun(instance: Instance) -> Mapping[str, Any]:
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


def _run(
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
    first_terms = _begun(instance) or terms
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
