"""Staged update runs of a plan: what each fixes when it begins, and how far it brings its placement.

A run waits for approvals across plans; what it fixed when it began is kept in its note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from nexusform.diagnostics import Diagnostic, Problem, Severity
from nexusform.importers.fleet_model import FleetRun
from nexusform.planning.fleet.hub import Hub
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.fleet.timeline import run_timeline
from nexusform.planning.instances.instance import Instance
from nexusform.scheduling.fleet.bindings import PlacementType
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.fleet.staged import (
    RunPlan,
    RunProblem,
    RunState,
    StepKind,
    execute,
    initialize,
    steps_of,
)


def carry_out_runs(placements: Sequence[PlacementPlan], hub: Hub, roster: Roster) -> Iterator[Diagnostic]:
    """Carry out the staged runs of this plan, in planning order."""
    by_key = {placement.written.key: placement for placement in placements}
    for instance, run in hub.runs:
        yield from _run(instance, run, by_key.get(run.key_of(run.placement)), hub, roster)


class _Refused(Struct, frozen=True):
    """Why a run does nothing: the kind of warning, and its text."""

    kind: str
    text: str


class _Terms(Struct, frozen=True):
    """What a run fixes when it begins, and the stages that follow from it."""

    plan: RunPlan
    resource_snapshot: int

    def note(self) -> dict[str, Any]:
        """As state notes it."""
        return {
            "policy_snapshot": self.plan.policy_snapshot,
            "cluster_count": self.plan.cluster_count,
            "resource_snapshot": self.resource_snapshot,
        }


def _run(
    instance: Instance, run: FleetRun, placement: PlacementPlan | None, hub: Hub, roster: Roster
) -> Iterator[Diagnostic]:
    def warned(kind: str, text: str) -> Diagnostic:
        return instance.problem(Problem((), kind, text, Severity.WARNING))

    if placement is None or not placement.external:
        what = "no such placement" if placement is None else "its strategy is not External"
        yield warned("staged-run-has-nothing-to-do", f"{run.placement}: {what}.")
        return
    begun = (None if instance.replaced or instance.prior is None else instance.prior.private) or {}
    terms = _terms(run, placement, hub, roster, begun)
    if isinstance(terms, _Refused):
        yield warned(terms.kind, terms.text)
        return
    instance.private = terms.note()
    if run.state is not RunState.RUN:
        return
    failures = _override_failures(placement, terms)
    outcome = execute(
        terms.plan,
        run.name,
        placement.held,
        terms.resource_snapshot,
        approved=run.approvals,
        failing=frozenset(failures),
    )
    steps = steps_of(terms.plan, run.name)
    timeline = run_timeline(
        placement, run.name, terms.resource_snapshot, steps, outcome.waits_for or outcome.stopped_by
    )
    placement.rollouts.append(timeline)
    placement.held = outcome.bindings
    for step in outcome.steps:
        if step.kind is StepKind.UPDATE:
            placement.rolled |= {*step.clusters}
    if outcome.stopped_by:
        yield warned(
            "staged-run-is-stuck",
            f"The run goes no further than {outcome.stopped_by}: {failures[outcome.stopped_by]}. Mend the "
            "override, and make another run.",
        )
    if outcome.waits_for:
        yield warned(
            "staged-run-waits-for-an-approval",
            f'The run stops before {outcome.waits_for}; add "{outcome.waits_for}" to its approvals, or write '
            "an approval request of that name, to go on.",
        )


def _override_failures(placement: PlacementPlan, terms: _Terms) -> dict[str, str]:
    """The clusters of a run on which overriding fails, and why."""
    failures: dict[str, str] = {}
    for stage in terms.plan.stages:
        for cluster in stage.clusters:
            rendered = placement.rendered(terms.resource_snapshot, cluster)
            if rendered is not None and rendered.failure:
                failures[cluster] = rendered.failure
    return failures


def _terms(
    run: FleetRun, placement: PlacementPlan, hub: Hub, roster: Roster, begun: Mapping[str, Any]
) -> _Terms | _Refused:
    """What a run fixes when it begins; `begun` is what it fixed before, where it began in an earlier plan."""
    strategy = hub.strategies.get(run.key_of(run.strategy))
    if strategy is None:
        text = f'There is no staged update strategy "{run.strategy}".'
        return _Refused("staged-run-has-no-strategy", text)
    plan = initialize(
        placement.held,
        placement.snapshot,
        _cluster_count(placement),
        placement.fulfilled,
        roster.members,
        strategy.stages,
    )
    if isinstance(plan, RunProblem):
        return _Refused("staged-run-cannot-begin", f"{plan.message}.")
    was = begun.get("policy_snapshot", plan.policy_snapshot), begun.get("cluster_count", plan.cluster_count)
    if was != (plan.policy_snapshot, plan.cluster_count):
        text = (
            f"{run.name} began under policy snapshot {was[0]} with {was[1]} cluster(s); now it is "
            f"{plan.policy_snapshot} with {plan.cluster_count}. Make another run, or "
            "replace it with -replace."
        )
        return _Refused("staged-run-is-aborted", text)
    index = _resource_snapshot(run, placement, begun)
    if placement.snapshot_of(index) is None:
        text = f"no resourceSnapshots with index `{index}` found for placement `{placement.written.key}`"
        return _Refused("staged-run-cannot-begin", f"{text}.{_there_are(placement)}")
    return _Terms(plan, index)


def _cluster_count(placement: PlacementPlan) -> int | None:
    """How many clusters the placement asks for; None: all."""
    if placement.written.kind is PlacementType.PICK_N:
        return placement.snapshot.number_of_clusters
    if placement.written.kind is PlacementType.PICK_FIXED:
        return len(placement.written.policy.cluster_names) if placement.written.policy else 0
    return None


def _resource_snapshot(run: FleetRun, placement: PlacementPlan, begun: Mapping[str, Any]) -> int:
    """The number of the snapshot that a run brings: the one it names, or the one it took when it began."""
    if run.resource_index is not None:
        return run.resource_index
    if "resource_snapshot" in begun:
        return int(begun["resource_snapshot"])
    return placement.take_snapshot().index


def _there_are(placement: PlacementPlan) -> str:
    """Which snapshots a run may name."""
    numbers = [str(snapshot.index) for snapshot in placement.snapshots]
    listed = f" There are: {', '.join(numbers)}." if numbers else " There is none yet."
    return f"{listed} A run without resource_snapshot_index takes one when it begins."
