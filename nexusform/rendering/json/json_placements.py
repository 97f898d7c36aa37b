"""JSON of placements, separation rules, capacity and the decision block in a plan document.

The decision block has the key `decision`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import asdict

from nexusform.documents.unread_facts import UnreadFact
from nexusform.json_data.record_forms import RecordForm, round_to_six_places
from nexusform.placement_kinds.placement_kind import build_location_document
from nexusform.placements.prediction_scores import PredictionRecordScore
from nexusform.placements.unread_ledger import merge_influences
from nexusform.plans.impact.decision_figures import (
    ImpactSummary,
    PlacementConfidenceSummary,
    SpareCapacitySummary,
    SurgeVerdict,
    build_decision,
)
from nexusform.plans.impact.ended_objects import (
    EndedObject,
    list_destroyed_objects,
    list_replaced_objects,
)
from nexusform.plans.impact.overridden_values import list_overridden_values
from nexusform.plans.impact.risk_assessment import RiskFinding, assess_plan
from nexusform.plans.maintenance import (
    EvacuatedVm,
    PlannedMachineAction,
    PoolNodeRecreation,
    Upgrade,
)
from nexusform.plans.plan import (
    ContentChange,
    Feasibility,
    InventoryRead,
    LossEffect,
    MissingObject,
    PlacementChange,
    PlacementTable,
    Plan,
    Rollout,
    RolloutStep,
    SeparationVerdict,
    SeparationViolation,
    SitePredictionAccuracy,
)
from nexusform.plans.plan_checks import (
    DecisionDifference,
    GuardRailResult,
    PreviousPlanDifferences,
    ProgramCheck,
)
from nexusform.plans.site_capacity.occupancy import (
    OutOfService,
    SiteSkuCapacity,
    SpareCapacity,
    list_out_of_service,
)
from nexusform.plans.site_capacity.site_resource_capacity import (
    SiteResourceCapacity,
    SiteResourceKind,
)
from nexusform.rendering.notation.json_values import drop_unknown_values, omit_empty
from nexusform.rendering.notation.sample_text import INTERVAL_FORM, SAMPLES_FORM
from nexusform.rendering.report.placement_rows import ShownPlacements, select_placement_rows
from nexusform.rendering.report.upgrade_sentences import build_upgrade_runbook
from nexusform.scheduling.listing.site_listing import ListedDifference, ListedSite
from nexusform.scheduling.placement_decision import Rejection
from nexusform.scheduling.racks.vms import UnschedulableReason


def build_placement_changes(plan: Plan, detail: ShownPlacements) -> Iterator[dict[str, Any]]:
    """Yield the JSON of each placement change.

    `detail` selects whether unchanged objects are included.
    """
    return (_build_placement_change(row, detail) for row in select_placement_rows(plan, detail))


def _build_placement_change(row: PlacementChange, detail: ShownPlacements) -> dict[str, Any]:
    """Build an element of `placement_changes`.

    With detail ALL it has the rejected machines and their reasons, too.
    """
    document: dict[str, Any] = {
        "address": str(row.address),
        "kind": row.kind,
        "object": row.object,
        "action": row.action.value,
        "from": build_location_document(row.origin),
        "to": build_location_document(row.target),
        "trigger": row.trigger,
        "reason": row.reason,
        "scores": drop_unknown_values(row.scores),
        "certainty": None if row.certainty is None else row.certainty.get_shares_by_name(),
        "provenance": row.provenance,
    }
    document |= omit_empty({"platform_name": row.platform_name, "chosen_by": row.chosen_by})
    # A binding of a rollout: its stage in a staged run, its group or wave, its condition to start.
    if row.group:
        document |= {
            "stage": row.stage or None,
            "group": row.group,
            "waits_for": row.waits_for or None,
        }
    if detail is ShownPlacements.ALL:
        document["rejected"] = list(map(REJECTION_FORM, row.rejections))
    return document


REJECTION_FORM: Final = RecordForm(Rejection, "candidate rule reason")


def _build_placement_totals(plan: Plan) -> dict[str, dict[str, int]]:
    """Build the numbers of objects by kind and outcome."""
    documents: dict[str, dict[str, int]] = {}
    for total in plan.placement_totals:
        figures = asdict(total)
        documents[figures.pop("kind")] = figures
    return documents


TABLE_FORM: Final = RecordForm(
    PlacementTable,
    (
        "cluster pool vm_sku_name total_count expected_racks actual_racks expected_vms_per_rack "
        "actual_vms_per_rack [possible_vms_per_rack]"
    ),
)

_POOL_UPGRADE_FORM: Final = RecordForm(
    PoolNodeRecreation,
    "pool vm_sku_name=sku vms batches concurrent_vms surges minimum_up "
    "stops_at_batch=failed_batch? reason? scale_in_pools",
)
_UPGRADE_FORM: Final = RecordForm(
    Upgrade,
    "address cluster site_id trigger from=before? to=after? feasible=is_feasible "
    "blocking_budgets=budgets single_replicas drain_hours lost=lost_pools runbook=. pools",
    drain_hours=lambda hours: round(hours, 3),
    runbook=lambda upgrade: list(build_upgrade_runbook(upgrade)),
    pools=_POOL_UPGRADE_FORM,
)

_STEP_FORM: Final = RecordForm(
    RolloutStep, "kind stage? group? clusters start_seconds wait_seconds waits_for? status"
)
_ROLLOUT_FORM: Final = RecordForm(
    Rollout, "address cause resource_snapshot [previous_snapshot] steps", steps=_STEP_FORM
)

_VIOLATION_FORM: Final = RecordForm(
    SeparationViolation, "site=site_id [rack] [machine] members violating_member trigger [reason]"
)


def _build_violation(violation: SeparationViolation) -> dict[str, Any]:
    """Build a violation as JSON data, with its sample if the plan itself has none."""
    # The seed of a repeated run.
    sample = {} if violation.sample is None else {"sample": violation.sample}
    return _VIOLATION_FORM(violation) | sample


_VERDICT_FORM: Final = RecordForm(
    SeparationVerdict,
    (
        "address enforcement holds=satisfied violations scope samples=sample_count "
        "satisfied_count [unchecked]"
    ),
    violations=_build_violation,
)

_CAPACITY_FORM: Final = RecordForm(
    SpareCapacity,
    "free with_any_rack_lost=free_after_rack_loss worst_rack? surge=. *fitting=free_interval "
    "rack_lost=free_interval_after_rack_loss",
    surge="clusters insufficient=no_surge_clusters uncertain=uncertain_surge_clusters",
    fitting=INTERVAL_FORM,
    rack_lost=INTERVAL_FORM,
)
_SITE_CAPACITY_FORM: Final = RecordForm(
    SiteSkuCapacity,
    "site_id site vm_sku_name=sku numa_cells=cells before after",
    before=_CAPACITY_FORM,
    after=_CAPACITY_FORM,
)


OTHER_CAPACITY_FORM: Final = RecordForm(
    SiteResourceCapacity,
    "site_id site kind name? unit captured=. total used_before used_after=used "
    "maximum_free_before=free_before maximum_free_after=free surge lacks=is_insufficient",
    captured=lambda row: (
        row.total is not None and (row.used is not None or row.kind is not SiteResourceKind.CLAIMS)
    ),
)

_REASON_FORM: Final = RecordForm(UnschedulableReason, "fact value text")
_OUT_OF_SERVICE_FORM: Final = RecordForm(
    OutOfService,
    "site machine [reasons] power_state=status.power_state ready_state=status.ready_state "
    "detailed_status=status.detailed_status "
    "cordon_status=status.cordon_status cordoned_by=status.cordoned_by message=status.message "
    "since=status.since",
    reasons=_REASON_FORM,
)

_LEAVING_FORM: Final = RecordForm(EvacuatedVm, "name to=machine")
_MACHINE_ACTION_FORM: Final = RecordForm(
    PlannedMachineAction,
    "address site machine rack action window time_limit_minutes=minutes leaves_off "
    "evacuated_vms=leaving_vms "
    "stopped_vms",
    address=str,
    evacuated_vms=_LEAVING_FORM,
)

_LOSS_FORM: Final = RecordForm(LossEffect, "lost waiting_pods")
FEASIBILITY_FORM: Final = RecordForm(
    Feasibility,
    "placement cluster result missing_nodes pool [missing_by_pool] site_capacity reason "
    "replicas_requested "
    "replicas_max certain=is_certain [one_machine_down] [one_rack_down] selected=is_selected "
    "[suggested_fixes] [missing] [by]",
    placement=str,
    missing=RecordForm(MissingObject),
    one_machine_down=_LOSS_FORM,
    one_rack_down=_LOSS_FORM,
)

_CHECK_FORM: Final = RecordForm(ProgramCheck, differences=RecordForm(DecisionDifference))
_PREDICTIONS_FORM: Final = RecordForm(
    PredictionRecordScore,
    "verified correct certain certain_correct brier_score=brier brier_score_by_chance=chance",
    brier_score=round_to_six_places,
    brier_score_by_chance=round_to_six_places,
)
_ACCURACY_FORM: Final = RecordForm(
    SitePredictionAccuracy,
    "site hits certain_hits verified=verified_count unverified=unverified_count "
    "hits_by_chance=random_hits "
    "predictions [not_verified] [date]",
    predictions=_PREDICTIONS_FORM,
)

_CONTENT_CHANGE_FORM: Final = RecordForm(
    ContentChange, "address cluster object effect pods [override] [path]", address=str, effect=str
)

# Top-level members of a plan document about its placements and sites.
_UNREAD_FORM: Final = RecordForm(
    UnreadFact, "subject field file line may_change [address] [reason]"
)


def _build_unread_documents(plan: Plan) -> dict[str, Any]:
    """Build a row per unread field of a subject, with everything that it may change."""
    rows = [
        {**_UNREAD_FORM(fact), "may_change": influences}
        for fact, influences in merge_influences(plan.unread)
    ]
    return omit_empty({"unread": rows})


_DIFFERENCE_FORM: Final = RecordForm(ListedDifference, "kind text [racks] [machines]", kind=str)
LISTED_FORM: Final = RecordForm(
    ListedSite, "site differences [capacity]", differences=_DIFFERENCE_FORM
)

PLAN_FORM: Final = RecordForm(
    Plan,
    "placement_totals=. placement_tables separation_rules=separation_verdicts rollouts upgrades "
    "capacity "
    "[capacity_other=other_capacity] out_of_service=. [machine_actions] [feasibility] "
    "[content_changes] [untested_bindings] "
    "samples=numa_sampling [prediction_scores] [evaluation=basis.evaluation] [checks_by] "
    "[rejected] *unread=. [listed]",
    placement_totals=_build_placement_totals,
    placement_tables=TABLE_FORM,
    separation_rules=_VERDICT_FORM,
    rollouts=_ROLLOUT_FORM,
    upgrades=_UPGRADE_FORM,
    capacity=_SITE_CAPACITY_FORM,
    capacity_other=OTHER_CAPACITY_FORM,
    out_of_service=lambda plan: list(map(_OUT_OF_SERVICE_FORM, list_out_of_service(plan.sites))),
    machine_actions=_MACHINE_ACTION_FORM,
    content_changes=_CONTENT_CHANGE_FORM,
    feasibility=FEASIBILITY_FORM,
    samples=SAMPLES_FORM,
    prediction_scores=_ACCURACY_FORM,
    evaluation=to_builtins,
    checks_by=_CHECK_FORM,
    unread=_build_unread_documents,
    listed=LISTED_FORM,
)

_IMPACT_FORM: Final = RecordForm(
    ImpactSummary,
    "recreated moved removed host_lost max_down minutes=drains [stopped] [max_stopped]",
    minutes="min=minimum_minutes max=maximum_minutes cluster_max=cluster_minutes "
    "concurrent_clusters",
)
_CONFIDENCE_FORM: Final = RecordForm(
    PlacementConfidenceSummary,
    "vms exact_rack_counts exact_machines pods certain_pods [uncertainty_reasons=doubts] "
    "[uncertain_rollouts]",
)


def _convert_number(number: float) -> float:
    """Return a whole number as an integer."""
    return int(number) if number.is_integer() else number


_GUARD_RAIL_FORM: Final = RecordForm(
    GuardRailResult,
    "name limit value result [reason]",
    limit=_convert_number,
    value=_convert_number,
)
_SINCE_FORM: Final = RecordForm(PreviousPlanDifferences)
RISK_FORM: Final = RecordForm(RiskFinding, "risk severity subject address before after since text")
_ENDED_OBJECT_FORM: Final = RecordForm(EndedObject, "name address vms pods")
_SURGE_FORM: Final = RecordForm(SurgeVerdict, "site cluster result")


def build_decision_document(plan: Plan) -> dict[str, Any]:
    """Build the figures of a plan for its approval.

    A capacity is a minimum of further VMs, null if unknown.
    """
    decision = build_decision(plan)
    max_age = plan.basis.max_age if plan.basis.after_merge else 0
    return {
        # A form converts a record to JSON.
        "impact": _IMPACT_FORM(decision.impact),
        "capacity": list(map(_build_spare_capacity, decision.capacity)),
        "upgrades": list(map(_SURGE_FORM, decision.upgrades)),
        "confidence": _CONFIDENCE_FORM(decision.confidence),
        "destroys": list(map(_ENDED_OBJECT_FORM, list_destroyed_objects(plan))),
        "replaces": list(map(_ENDED_OBJECT_FORM, list_replaced_objects(plan))),
        **omit_empty({"overrides": list(map(asdict, list_overridden_values(plan)))}),
        "risks": list(map(RISK_FORM, assess_plan(plan))),
        "guard_rails": list(map(_GUARD_RAIL_FORM, decision.guard_rails)),
        "since": None if plan.since is None else _SINCE_FORM(plan.since),
        **omit_empty({"inventories": build_inventory_documents(plan.inventories)}),
        **omit_empty({"after_merge": plan.basis.after_merge, "max_age_seconds": max_age}),
    }


def build_inventory_documents(inventories: Iterable[InventoryRead]) -> list[dict[str, Any]]:
    """Build the times of the inventories behind a plan or an answer, null if unknown."""
    return list(map(_INVENTORY_FORM, inventories))


_INVENTORY_FORM: Final = RecordForm(InventoryRead, "address exported_at? stale=is_stale")


def _build_spare_capacity(row: SpareCapacitySummary) -> dict[str, Any]:
    """Build the minimum numbers of further VMs with capacity on a site; None with missing data.

    The numbers before the plan are also None for a new site.
    """
    figures = {
        "before": row.before,
        "after": row.after,
        "rack_down_before": row.rack_down_before,
        "rack_down_after": row.rack_down_after,
    }
    minimums: dict[str, int | None] = {}
    for name, figure in figures.items():
        # Missing data: an upper bound.
        minimums[name] = None if figure is None or row.lacks_data else figure.minimum
    return {"site": row.site, "vm_sku_name": row.vm_sku_name, **minimums}
