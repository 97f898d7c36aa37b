"""Placements and separation rules as data: the parts that nexusform adds to a plan document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import asdict

from nexusform.forecasts import Score
from nexusform.placement_kinds.registry import place_document
from nexusform.plans.occupancy import Room, SiteRoom
from nexusform.plans.other_room import OtherRoom
from nexusform.plans.plan import (
    PlacementAction,
    PlacementChange,
    PlacementTable,
    Plan,
    PoolUpgrade,
    PredictionScore,
    Rollout,
    RolloutStep,
    SeparationVerdict,
    SeparationViolation,
    Upgrade,
)
from nexusform.rendering.notation.json_values import known_part
from nexusform.rendering.notation.places import interval_document
from nexusform.rendering.report.placement_rows import Detail
from nexusform.scheduling.decision import Refusal


def placement_changes(plan: Plan, detail: Detail) -> Iterator[dict[str, Any]]:
    """One object per row that is shown."""
    return (_row_document(row, detail) for row in shown_rows(plan, detail))


def shown_rows(plan: Plan, detail: Detail) -> Iterator[PlacementChange]:
    """The rows that documents list: kept ones only with `all`, save observations, which are always told."""
    for row in plan.placements:
        if row.action is not PlacementAction.KEEP or row.trigger or detail is Detail.ALL:
            yield row


def _row_document(row: PlacementChange, detail: Detail) -> dict[str, Any]:
    """An element of `placement_changes`."""
    document: dict[str, Any] = {
        "address": str(row.address),
        "kind": row.kind,
        "object": row.object,
        "action": row.action.value,
        "from": place_document(row.source),
        "to": place_document(row.target),
        "trigger": row.trigger,
        "reason": row.reason,
        "scores": known_part(row.scores),
        "certainty": None,
        "provenance": row.provenance,
    }
    if row.platform_name:
        document["platform_name"] = row.platform_name
    if row.certainty is not None:
        document["certainty"] = row.certainty.shares()
    if row.group:
        turn = {"stage": row.stage or None, "group": row.group, "waits_for": row.waits_for or None}
        document |= turn
    if detail is Detail.ALL:
        document["rejected"] = [refusal_document(refusal) for refusal in row.rejected]
    return document


def refusal_document(refusal: Refusal) -> dict[str, str]:
    """A candidate that was refused, by which rule and why."""
    return {"candidate": refusal.candidate, "rule": refusal.rule, "reason": refusal.reason}


def total_documents(plan: Plan) -> dict[str, dict[str, int]]:
    """The top-level `placement_totals` of a plan's JSON: what becomes of every object, by kind."""
    documents: dict[str, dict[str, int]] = {}
    for total in plan.placement_totals:
        figures = asdict(total)
        documents[figures.pop("kind")] = figures
    return documents


def placement_tables(plan: Plan) -> list[dict[str, Any]]:
    """One object per pool, in the plan's order."""
    return [table_document(table) for table in plan.placement_tables]


def table_document(table: PlacementTable) -> dict[str, Any]:
    """One pool and how it is spread."""
    return {
        "cluster": table.cluster,
        "pool": table.pool,
        "vm_sku_name": table.vm_sku_name,
        "total_count": table.total_count,
        "expected_racks": table.expected_racks,
        "actual_racks": table.actual_racks,
        "expected_vms_per_rack": list(table.expected_vms_per_rack),
        "actual_vms_per_rack": dict(table.actual_vms_per_rack),
    }


def upgrade_documents(plan: Plan) -> list[dict[str, Any]]:
    """The top-level `upgrades` of a plan's JSON: clusters whose nodes are made anew pool by pool."""
    return [_upgrade_document(upgrade) for upgrade in plan.upgrades]


def _upgrade_document(upgrade: Upgrade) -> dict[str, Any]:
    return {
        "address": str(upgrade.address),
        "cluster": upgrade.cluster,
        "site_id": upgrade.site_id,
        "trigger": upgrade.trigger,
        "from": upgrade.before or None,
        "to": upgrade.after or None,
        "goes_through": upgrade.goes_through,
        "blocking_budgets": list(upgrade.budgets),
        "single_replicas": list(upgrade.single_replicas),
        "pools": [_pool_upgrade_document(pool) for pool in upgrade.pools],
    }


def _pool_upgrade_document(pool: PoolUpgrade) -> dict[str, Any]:
    return {
        "pool": pool.pool,
        "vm_sku_name": pool.sku,
        "vms": pool.vms,
        "batches": pool.batches,
        "at_once": pool.at_once,
        "surges": pool.surges,
        "fewest_up": pool.fewest_up,
        "stops_at_batch": pool.stops_at or None,
        "reason": pool.reason or None,
        "hangs_on": list(pool.hangs_on),
    }


def rollout_documents(plan: Plan) -> list[dict[str, Any]]:
    """The top-level `rollouts` of a plan's JSON: how placements get their resources, step by step."""
    return [_rollout_document(rollout) for rollout in plan.rollouts]


def _rollout_document(rollout: Rollout) -> dict[str, Any]:
    return {
        "address": str(rollout.address),
        "cause": rollout.cause,
        "resource_snapshot": rollout.resource_snapshot,
        "steps": [_step_document(step) for step in rollout.steps],
    }


def _step_document(step: RolloutStep) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "stage": step.stage or None,
        "group": step.group or None,
        "clusters": list(step.clusters),
        "begins_seconds": step.begins,
        "wait_seconds": step.wait_seconds,
        "waits_for": step.waits_for or None,
        "status": step.status,
    }


def separation_documents(plan: Plan) -> list[dict[str, Any]]:
    """The top-level `separation_rules` of a plan's JSON, in planning order."""
    return [_verdict_document(verdict) for verdict in plan.separation_rules]


def _verdict_document(verdict: SeparationVerdict) -> dict[str, Any]:
    return {
        "address": str(verdict.address),
        "enforcement": verdict.enforcement,
        "holds": verdict.holds,
        "violations": [_violation_document(violation) for violation in verdict.violations],
        "scope": verdict.scope,
        "tie_breaks": verdict.runs,
        "holds_in": verdict.held,
    }


def _violation_document(violation: SeparationViolation) -> dict[str, Any]:
    document: dict[str, Any] = {"site": violation.site_id}
    if violation.rack:
        document["rack"] = violation.rack
    if violation.machine:
        document["machine"] = violation.machine
    document["members"] = list(violation.members)
    document["joined_by"] = violation.joined_by
    document["trigger"] = violation.trigger
    if violation.reason:
        document["reason"] = violation.reason
    if violation.tie_break is not None:
        document["tie_break"] = violation.tie_break
    return document


def room_documents(room: Iterable[SiteRoom]) -> list[dict[str, Any]]:
    """The room as JSON shows it: an object per site and VM SKU, the largest SKU of a site first."""
    return [
        {
            "site_id": row.site_id,
            "site": row.site,
            "vm_sku_name": row.sku,
            "numa_cells": row.cells,
            "before": _room_document(row.before),
            "after": _room_document(row.after),
        }
        for row in room
    ]


def other_room_documents(rows: Iterable[OtherRoom]) -> list[dict[str, Any]]:
    """What may run out beside the room of machines: null is what is not known."""
    return [
        {
            "site_id": row.site_id,
            "site": row.site,
            "kind": str(row.kind),
            "name": row.name or None,
            "unit": row.unit,
            "captured": row.total is not None,
            "total": row.total,
            "used_before": row.used_before,
            "used_after": row.used,
            "free_before_at_most": row.free_before,
            "free_after_at_most": row.free,
            "surge": row.surge,
            "lacks": row.lacks,
        }
        for row in rows
    ]


def score_documents(scores: Iterable[PredictionScore]) -> list[dict[str, Any]]:
    """The top-level `prediction_scores` of a plan's JSON: what replays of its sites came to."""
    return [
        {
            "site": score.site,
            "hits": score.hits,
            "sure_hits": score.sure,
            "judged": score.judged,
            "not_judged": score.not_judged,
            "hits_by_chance": score.chance,
            "claims": _claims_document(score.claims),
        }
        for score in scores
    ]


def _claims_document(claims: Score | None) -> dict[str, float] | None:
    """What became of the claims of earlier plans."""
    if claims is None:
        return None
    return {
        "settled": claims.settled,
        "held": claims.held,
        "sure": claims.sure,
        "sure_held": claims.sure_held,
        "brier_score": round(claims.brier, 6),
        "brier_score_by_chance": round(claims.chance, 6),
    }


def _room_document(room: Room | None) -> dict[str, Any] | None:
    """The room of a site on one side of the plan."""
    if room is None:
        return None
    return {
        "free": room.free,
        "with_any_rack_lost": room.rack_lost,
        "worst_rack": room.worst_rack or None,
        "surge": {
            "clusters": list(room.clusters),
            "without_room": list(room.no_surge),
            "perhaps_without_room": list(room.unsure_surge),
        },
        **interval_document(room.fitting),
        "rack_lost": interval_document(room.fitting_with_a_rack_lost),
    }
