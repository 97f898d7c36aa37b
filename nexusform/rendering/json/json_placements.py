"""Placements and separation rules as data: the parts that nexusform adds to a plan document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import asdict

from nexusform.forecasts import Score
from nexusform.json_forms import Form, six_places
from nexusform.placement_kinds.kinds import place_document
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
from nexusform.plans.room.occupancy import Room, SiteRoom
from nexusform.plans.room.other_room import OtherKind, OtherRoom
from nexusform.rendering.notation.json_bounds import INTERVAL
from nexusform.rendering.notation.json_values import known_part
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
        document["rejected"] = [REFUSAL(refusal) for refusal in row.rejected]
    return document


REFUSAL: Final = Form(Refusal, "candidate rule reason")


def total_documents(plan: Plan) -> dict[str, dict[str, int]]:
    """The top-level `placement_totals` of a plan's JSON: what becomes of every object, by kind."""
    documents: dict[str, dict[str, int]] = {}
    for total in plan.placement_totals:
        figures = asdict(total)
        documents[figures.pop("kind")] = figures
    return documents


TABLE: Final = Form(
    PlacementTable,
    "cluster pool vm_sku_name total_count expected_racks actual_racks expected_vms_per_rack "
    "actual_vms_per_rack",
)


def placement_tables(plan: Plan) -> list[dict[str, Any]]:
    """One object per pool, in the plan's order."""
    return [TABLE(table) for table in plan.placement_tables]


_POOL_UPGRADE: Final = Form(
    PoolUpgrade,
    "pool vm_sku_name=sku vms batches at_once surges fewest_up stops_at_batch=stops_at? reason? hangs_on",
)
_UPGRADE: Final = Form(
    Upgrade,
    "address cluster site_id trigger from=before? to=after? goes_through blocking_budgets=budgets "
    "single_replicas pools",
    pools=_POOL_UPGRADE,
)


def upgrade_documents(plan: Plan) -> list[dict[str, Any]]:
    """The top-level `upgrades` of a plan's JSON: clusters whose nodes are made anew pool by pool."""
    return [_UPGRADE(upgrade) for upgrade in plan.upgrades]


_STEP: Final = Form(
    RolloutStep, "kind stage? group? clusters begins_seconds=begins wait_seconds waits_for? status"
)
_ROLLOUT: Final = Form(Rollout, "address cause resource_snapshot steps", steps=_STEP)


def rollout_documents(plan: Plan) -> list[dict[str, Any]]:
    """The top-level `rollouts` of a plan's JSON: how placements get their resources, step by step."""
    return [_ROLLOUT(rollout) for rollout in plan.rollouts]


_VIOLATION: Final = Form(
    SeparationViolation,
    "site=site_id [rack] [machine] members joined_by trigger [reason]",
)


def _violation_document(violation: SeparationViolation) -> dict[str, Any]:
    tie_break = {} if violation.tie_break is None else {"tie_break": violation.tie_break}
    return _VIOLATION(violation) | tie_break


_VERDICT: Final = Form(
    SeparationVerdict,
    "address enforcement holds violations scope tie_breaks=runs holds_in=held",
    violations=_violation_document,
)


def separation_documents(plan: Plan) -> list[dict[str, Any]]:
    """The top-level `separation_rules` of a plan's JSON, in planning order."""
    return [_VERDICT(verdict) for verdict in plan.separation_rules]


_ROOM: Final = Form(
    Room,
    "free with_any_rack_lost=rack_lost worst_rack? surge=. *fitting rack_lost=fitting_with_a_rack_lost",
    surge="clusters without_room=no_surge perhaps_without_room=unsure_surge",
    fitting=INTERVAL,
    rack_lost=INTERVAL,
)
_SITE_ROOM: Final = Form(
    SiteRoom,
    "site_id site vm_sku_name=sku numa_cells=cells before after",
    before=_ROOM,
    after=_ROOM,
)


def _is_captured(room: OtherRoom) -> bool:
    return room.total is not None and (room.used is not None or room.kind is not OtherKind.CLAIMS)


_OTHER_ROOM: Final = Form(
    OtherRoom,
    "site_id site kind name? unit captured=. total used_before used_after=used "
    "free_before_at_most=free_before free_after_at_most=free surge lacks",
    captured=_is_captured,
)


def room_documents(room: Iterable[SiteRoom]) -> list[dict[str, Any]]:
    """The room as JSON shows it: an object per site and VM SKU, the largest SKU of a site first."""
    return [_SITE_ROOM(row) for row in room]


def other_room_documents(rows: Iterable[OtherRoom]) -> list[dict[str, Any]]:
    """What may run out beside the room of machines: null is what is not known."""
    return [_OTHER_ROOM(row) for row in rows]


_CLAIMS: Final = Form(
    Score,
    "settled held sure sure_held brier_score=brier brier_score_by_chance=chance",
    brier_score=six_places,
    brier_score_by_chance=six_places,
)
_SCORE: Final = Form(
    PredictionScore,
    "site hits sure_hits=sure judged not_judged hits_by_chance=chance claims",
    claims=_CLAIMS,
)


def score_documents(scores: Iterable[PredictionScore]) -> list[dict[str, Any]]:
    """The top-level `prediction_scores` of a plan's JSON: what replays of its sites came to."""
    return [_SCORE(score) for score in scores]
