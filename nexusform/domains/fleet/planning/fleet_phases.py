"""Phases 5 and 6 of a plan: members, hub objects and the pods that they bring, then placements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic
from nexusform.domains.fleet.planning.left_out import (
    forgotten_and_lost,
    found_lost_rows,
    left_out_rows,
    run_on_forgotten_members,
)
from nexusform.domains.fleet.planning.outcome import FleetOutcome, destroyed
from nexusform.domains.fleet.planning.phase import plan_placements
from nexusform.domains.pods.planning.blocks import (
    manifest_findings,
    plan_fleet_objects,
    pod_risks,
    pods_over,
)
from nexusform.domains.pods.planning.elsewhere import read_elsewhere
from nexusform.domains.pods.planning.hosted import claimed_in_state, hosted_in_state
from nexusform.domains.pods.planning.observed import Elsewhere, unknown_observed
from nexusform.domains.pods.planning.phase import PodPhase
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.phases import Contribution, Instances, Phases
from nexusform.planning.preparation.order import resource_blocks
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import PlacementChange
from nexusform.ports import Kind


class PlannedFleet(Struct, frozen=True):
    """What the phases came to, for explanations: placements and the fleet, and the pods."""

    outcome: FleetOutcome
    pods: PodPhase


def fleet_of(result: PlanResult) -> PlannedFleet | None:
    """What was planned of a fleet; None where nothing names one."""
    details = (contribution.detail for contribution in result.contributions)
    return next((detail for detail in details if isinstance(detail, PlannedFleet)), None)


def _plan(blocks: Blocks, vms: Iterable[VmObject], evaluation: Evaluation) -> Contribution:
    vms = tuple(vms)
    elsewhere = read_elsewhere(blocks.request, evaluation)
    pods = pods_over(blocks, vms, elsewhere)
    problems = plan_fleet_objects(blocks, evaluation, pods)
    outcome = plan_placements(blocks, evaluation, pods.clusters, pods)
    unknown = unknown_observed(elsewhere, pods.clusters, blocks.instances.values())
    diagnostics = (*elsewhere.diagnostics, *unknown, *problems, *outcome.diagnostics)
    return _contribution(blocks, vms, PlannedFleet(outcome, pods), diagnostics)


def _remove(blocks: Blocks, vms: Iterable[VmObject]) -> Contribution:
    vms = tuple(vms)
    outcome = destroyed(blocks.instances.values())
    pods = pods_over(blocks, vms, Elsewhere())
    return _contribution(blocks, vms, PlannedFleet(outcome, pods), outcome.diagnostics)


def _contribution(
    blocks: Blocks, vms: Iterable[VmObject], fleet: PlannedFleet, diagnostics: tuple[Diagnostic, ...]
) -> Contribution:
    pods, outcome = fleet.pods, fleet.outcome
    decided = (*outcome.rows, *_pod_rows(pods, want_rejected=blocks.request.want_rejected))
    vms = tuple(vms)
    rows = tuple(run_on_forgotten_members(decided, blocks, vms, pods.clusters))
    told = {_named(row) for row in rows}
    members = _known_members(blocks, outcome)
    left_out = (row for row in left_out_rows(blocks, vms, pods.clusters, members) if _named(row) not in told)
    lost = {_named(row): row for row in forgotten_and_lost(blocks, vms, pods.clusters)}

    def findings(instances: Instances, *, risks: bool) -> list[Diagnostic]:
        problems = list(manifest_findings(pods, instances))
        return [*problems, *pod_risks(pods, instances)] if risks else problems

    return Contribution(
        rows=(*(lost.get(_named(row), row) for row in rows), *left_out),
        rollouts=outcome.rollouts,
        passed_over=outcome.passed_over,
        shown=outcome.shown,
        diagnostics=diagnostics,
        hosted=pods.places,
        disruptions=pods.disruptions,
        claimed=pods.claimed,
        findings=findings,
        detail=fleet,
    )


def _known_members(blocks: Blocks, outcome: FleetOutcome) -> frozenset[str] | None:
    """The members that this plan sees, None where a hub that was not read may have others."""
    sources = blocks.request.registries.data_sources
    reads_hub = any(
        block.mode == "data" and sources[block.type].kind is Kind.HUB_EXPORT
        for block in resource_blocks(blocks.request.configuration)
    )
    members = outcome.roster.members
    return None if reads_hub and not members else frozenset(member.name for member in members)


def _named(row: PlacementChange) -> tuple[object, ...]:
    return (row.address, row.kind, row.pool, row.object)


def _pod_rows(pods: PodPhase, *, want_rejected: bool) -> Iterator[PlacementChange]:
    """The rows of pods; the nodes that refused them only where somebody asks."""
    for row in pods.rows:
        yield replace(row, rejected=()) if row.rejected and not want_rejected else row


PHASES: Final = Phases(_plan, _remove, hosted_in_state, claimed_in_state, found_lost_rows)
