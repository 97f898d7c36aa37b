"""JSON of placements, separation rules, capacity and the decision block in a plan document.

The decision block has the key `decision`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import to_builtins
from msgspec.structs import asdict

from nexusform.doubts.ledger import merge_influences
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import build_location_document
from nexusform.placements.consequence_record import Consequence, build_consequence_document
from nexusform.placements.prediction_scores import PredictionRecordScore
from nexusform.plans.impact.consequence_views import (
    list_assessed_risks,
    list_destroyed_objects,
    list_replaced_objects,
)
from nexusform.plans.impact.decision_figures import (
    ImpactSummary,
    PlacementConfidenceSummary,
    PlanDecisionSummary,
    SpareCapacitySummary,
    build_decision,
    sum_decisions,
)
from nexusform.plans.impact.overridden_values import list_overridden_values
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
    OutsideChange,
    PlacementChange,
    PlacementTable,
    Plan,
    Rollout,
    RolloutStep,
    SeparationVerdict,
    SeparationViolation,
    SitePredictionAccuracy,
)
from nexusform.plans.plan_checks import GuardRailResult, PreviousPlanDifferences, ProgramCheck
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
from nexusform.rendering.notation.sample_text import build_interval_document, build_samples_document
from nexusform.rendering.report.decision_record import DecisionRecord
from nexusform.rendering.report.placement_rows import ShownPlacements, select_placement_rows
from nexusform.rendering.report.upgrade_sentences import build_upgrade_runbook
from nexusform.scheduling.listing.site_listing import ListedDifference, ListedSite
from nexusform.scheduling.placement_decision import Rejection
from nexusform.scheduling.racks.vms import UnschedulableReason

_Item = TypeVar("_Item")


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
        document["rejected"] = list(map(build_rejection_document, row.rejections))
    return document


def build_rejection_document(rejection: Rejection) -> dict[str, Any]:
    """Build the JSON object of a rejection."""
    return {"candidate": rejection.candidate, "rule": rejection.rule, "reason": rejection.reason}


def _build_placement_totals(plan: Plan) -> dict[str, dict[str, int]]:
    """Build the numbers of objects by kind and outcome."""
    documents: dict[str, dict[str, int]] = {}
    for total in plan.figures.placement_totals:
        figures = asdict(total)
        documents[figures.pop("kind")] = figures
    return documents


def build_table_document(table: PlacementTable) -> dict[str, Any]:
    """Build the JSON object of a placement table."""
    return {
        "cluster": table.cluster,
        "pool": table.pool,
        "vm_sku_name": table.vm_sku_name,
        "total_count": table.total_count,
        "expected_racks": table.expected_racks,
        "actual_racks": table.actual_racks,
        "expected_vms_per_rack": list(table.expected_vms_per_rack),
        "actual_vms_per_rack": dict(table.actual_vms_per_rack),
        **omit_empty(
            {
                "possible_vms_per_rack": {
                    name: list(value) for name, value in table.possible_vms_per_rack.items()
                }
            }
        ),
    }


def _build_pool_upgrade(pool: PoolNodeRecreation) -> dict[str, Any]:
    """Build the JSON object of the re-created nodes of a pool."""
    return {
        "pool": pool.pool,
        "vm_sku_name": pool.sku,
        "vms": pool.vms,
        "batches": pool.batches,
        "concurrent_vms": pool.concurrent_vms,
        "surges": pool.surges,
        "minimum_up": pool.minimum_up,
        "stops_at_batch": pool.failed_batch or None,
        "reason": pool.reason or None,
        "scale_in_pools": list(pool.scale_in_pools),
    }


def _build_upgrade(upgrade: Upgrade) -> dict[str, Any]:
    """Build the JSON object of an upgrade."""
    return {
        "address": str(upgrade.address),
        "cluster": upgrade.cluster,
        "site_id": upgrade.site_id,
        "trigger": upgrade.trigger,
        "from": upgrade.before or None,
        "to": upgrade.after or None,
        "feasible": upgrade.is_feasible,
        "blocking_budgets": list(upgrade.budgets),
        "single_replicas": list(upgrade.single_replicas),
        "drain_hours": round(upgrade.drain_hours, 3),
        "lost": list(upgrade.lost_pools),
        "runbook": list(build_upgrade_runbook(upgrade)),
        "pools": [_build_pool_upgrade(pool) for pool in upgrade.pools],
    }


def _build_rollout_step(step: RolloutStep) -> dict[str, Any]:
    """Build the JSON object of a rollout step."""
    return {
        "kind": step.kind,
        "stage": step.stage or None,
        "group": step.group or None,
        "clusters": list(step.clusters),
        "start_seconds": step.start_seconds,
        "wait_seconds": step.wait_seconds,
        "waits_for": step.waits_for or None,
        "status": step.status,
    }


def _build_rollout(rollout: Rollout) -> dict[str, Any]:
    """Build the JSON object of a rollout."""
    return {
        "address": str(rollout.address),
        "cause": rollout.cause,
        "resource_snapshot": rollout.resource_snapshot,
        **omit_empty({"previous_snapshot": rollout.previous_snapshot}),
        "steps": [_build_rollout_step(step) for step in rollout.steps],
    }


def _build_violation_members(violation: SeparationViolation) -> dict[str, Any]:
    """Build the JSON object of a separation violation."""
    return {
        "site": violation.site_id,
        **omit_empty({"rack": violation.rack, "machine": violation.machine}),
        "members": list(violation.members),
        "violating_member": violation.violating_member,
        "trigger": violation.trigger,
        **omit_empty({"reason": violation.reason}),
    }


def _build_violation(violation: SeparationViolation) -> dict[str, Any]:
    """Build a violation as JSON data, with its sample if the plan itself has none."""
    # The seed of a repeated run.
    sample = {} if violation.sample is None else {"sample": violation.sample}
    return _build_violation_members(violation) | sample


def _build_verdict(verdict: SeparationVerdict) -> dict[str, Any]:
    """Build the JSON object of a separation verdict."""
    return {
        "address": str(verdict.address),
        "enforcement": verdict.enforcement,
        "holds": verdict.satisfied,
        "violations": [_build_violation(violation) for violation in verdict.violations],
        "scope": verdict.scope,
        "samples": verdict.sample_count,
        "satisfied_count": verdict.satisfied_count,
        **omit_empty({"unchecked": list(verdict.unchecked)}),
    }


def _build_sku_capacity(capacity: SpareCapacity) -> dict[str, Any]:
    """Build the JSON object of the spare capacity for a VM SKU."""
    return {
        "free": capacity.free,
        "with_any_rack_lost": capacity.free_after_rack_loss,
        "worst_rack": capacity.worst_rack or None,
        "surge": {
            "clusters": list(capacity.clusters),
            "insufficient": list(capacity.no_surge_clusters),
            "uncertain": list(capacity.uncertain_surge_clusters),
        },
        **build_interval_document(capacity.free_interval),
        "rack_lost": build_interval_document(capacity.free_interval_after_rack_loss),
    }


def _build_site_capacity(row: SiteSkuCapacity) -> dict[str, Any]:
    """Build the JSON object of the capacity of a site for a VM SKU."""
    return {
        "site_id": row.site_id,
        "site": row.site,
        "vm_sku_name": row.sku,
        "numa_cells": row.cells,
        "before": None if row.before is None else _build_sku_capacity(row.before),
        "after": None if row.after is None else _build_sku_capacity(row.after),
    }


def build_other_capacity_document(row: SiteResourceCapacity) -> dict[str, Any]:
    """Build the JSON object of the capacity of a site for a resource other than VMs."""
    return {
        "site_id": row.site_id,
        "site": row.site,
        "kind": row.kind.value,
        "name": row.name or None,
        "unit": row.unit,
        "captured": row.total is not None
        and (row.used is not None or row.kind is not SiteResourceKind.CLAIMS),
        "total": row.total,
        "used_before": row.used_before,
        "used_after": row.used,
        "maximum_free_before": row.free_before,
        "maximum_free_after": row.free,
        "surge": row.surge,
        "lacks": row.is_insufficient,
    }


def _build_unschedulable_reason(reason: UnschedulableReason) -> dict[str, Any]:
    """Build the JSON object of an unschedulable reason."""
    return {"fact": reason.fact, "value": reason.value, "text": reason.text}


def _build_out_of_service(machine: OutOfService) -> dict[str, Any]:
    """Build the JSON object of a machine out of service."""
    return {
        "site": machine.site,
        "machine": machine.machine,
        **omit_empty(
            {"reasons": [_build_unschedulable_reason(reason) for reason in machine.reasons]}
        ),
        "power_state": machine.status.power_state,
        "ready_state": machine.status.ready_state,
        "detailed_status": machine.status.detailed_status,
        "cordon_status": machine.status.cordon_status,
        "cordoned_by": machine.status.cordoned_by,
        "message": machine.status.message,
        "since": machine.status.since,
    }


def _build_evacuated_vm(vm: EvacuatedVm) -> dict[str, Any]:
    """Build the JSON object of an evacuated VM."""
    return {"name": vm.name, "to": vm.machine}


def _build_machine_action(action: PlannedMachineAction) -> dict[str, Any]:
    """Build the JSON object of a planned machine action."""
    return {
        "address": str(action.address),
        "site": action.site,
        "machine": action.machine,
        "rack": action.rack,
        "action": action.action,
        "window": action.window,
        "time_limit_minutes": action.minutes,
        "leaves_off": action.leaves_off,
        "evacuated_vms": [_build_evacuated_vm(leaving_vm) for leaving_vm in action.leaving_vms],
        "stopped_vms": list(action.stopped_vms),
    }


def build_feasibility_document(feasibility: Feasibility) -> dict[str, Any]:
    """Build the JSON object of the feasibility of a placement on a cluster."""
    return {
        "placement": str(feasibility.placement),
        "cluster": feasibility.cluster,
        "result": feasibility.result.value,
        "missing_nodes": feasibility.missing_nodes,
        "pool": feasibility.pool,
        **omit_empty({"missing_by_pool": dict(feasibility.missing_by_pool)}),
        "site_capacity": feasibility.site_capacity,
        "reason": feasibility.reason,
        "replicas_requested": feasibility.replicas_requested,
        "replicas_max": feasibility.replicas_max,
        "certain": feasibility.is_certain,
        **omit_empty(
            {
                "one_machine_down": to_builtins(feasibility.one_machine_down),
                "one_rack_down": to_builtins(feasibility.one_rack_down),
            }
        ),
        "selected": feasibility.is_selected,
        **omit_empty(
            {
                "suggested_fixes": list(map(dict, feasibility.suggested_fixes)),
                "missing": [
                    {
                        "kind": item.kind,
                        "namespace": item.namespace,
                        "name": item.name,
                        "key": item.key,
                    }
                    for item in feasibility.missing
                ],
                "by": feasibility.by,
            }
        ),
    }


def _build_program_check(check: ProgramCheck) -> dict[str, Any]:
    """Build the JSON object of a program check."""
    return {
        "program": check.program,
        "version": check.version,
        "checked": check.checked,
        "total": check.total,
        "noun": check.noun,
        "differences": [
            {
                "address": difference.address,
                "object": difference.object,
                "predicted": difference.predicted,
                "actual": difference.actual,
                **omit_empty({"refusal": difference.refusal}),
            }
            for difference in check.differences
        ],
        **omit_empty({"readers": list(check.readers), "not_checked": list(check.not_checked)}),
    }


def _build_prediction_score(score: PredictionRecordScore) -> dict[str, Any]:
    """Build the JSON object of the score of a prediction record."""
    return {
        "verified": score.verified,
        "correct": score.correct,
        "certain": score.certain,
        "certain_correct": score.certain_correct,
        "brier_score": round(score.brier, 6),
        "brier_score_by_chance": round(score.chance, 6),
    }


def _build_accuracy(accuracy: SitePredictionAccuracy) -> dict[str, Any]:
    """Build the JSON object of the accuracy of predictions on a site."""
    return {
        "site": accuracy.site,
        "hits": accuracy.hits,
        "certain_hits": accuracy.certain_hits,
        "verified": accuracy.verified_count,
        "unverified": accuracy.unverified_count,
        "hits_by_chance": accuracy.random_hits,
        "predictions": None
        if accuracy.predictions is None
        else _build_prediction_score(accuracy.predictions),
        **omit_empty({"not_verified": accuracy.not_verified, "date": accuracy.date}),
    }


def _build_content_change(change: ContentChange) -> dict[str, Any]:
    """Build the JSON object of a content change."""
    return {
        "address": str(change.address),
        "cluster": change.cluster,
        "object": change.object,
        "effect": str(change.effect),
        "pods": change.pods,
        **({"severity": change.severity.value} if change.is_end else {}),
        **omit_empty(
            {
                "data": change.data.value if change.data else "",
                "override": change.override,
                "path": change.path,
            }
        ),
    }


def _build_unread_documents(plan: Plan) -> dict[str, Any]:
    """Build a row per unread field of a subject, with everything that it may change."""
    rows = [
        {
            "subject": fact.subject,
            "field": fact.field,
            "file": fact.file,
            "line": fact.line,
            "may_change": influences,
            **omit_empty({"address": fact.address, "reason": fact.reason}),
        }
        for fact, influences in merge_influences(plan.observed.unread)
    ]
    return omit_empty({"unread": rows})


def _build_listed_difference(difference: ListedDifference) -> dict[str, Any]:
    """Build the JSON object of a listed difference."""
    return {
        "kind": str(difference.kind),
        "text": difference.text,
        **omit_empty({"racks": list(difference.racks), "machines": list(difference.machines)}),
    }


def build_listed_site_document(site: ListedSite) -> dict[str, Any]:
    """Build the JSON object of a site compared with its export."""
    return {
        "site": site.site,
        "differences": [_build_listed_difference(difference) for difference in site.differences],
        **omit_empty({"capacity": list(site.capacity)}),
    }


def build_plan_figures(plan: Plan) -> dict[str, Any]:
    """Build the top-level members of a plan document about its placements and sites."""
    return {
        "placement_totals": _build_placement_totals(plan),
        "placement_tables": [
            build_table_document(placement_table)
            for placement_table in plan.figures.placement_tables
        ],
        "separation_rules": [
            _build_verdict(separation_verdict)
            for separation_verdict in plan.verdicts.separation_verdicts
        ],
        "rollouts": [_build_rollout(rollout) for rollout in plan.workloads.rollouts],
        "upgrades": [_build_upgrade(upgrade) for upgrade in plan.impact.upgrades],
        "capacity": [_build_site_capacity(item) for item in plan.site_records.capacity],
        **omit_empty(
            {
                "capacity_other": [
                    build_other_capacity_document(item) for item in plan.site_records.other_capacity
                ]
            }
        ),
        "out_of_service": list(
            map(_build_out_of_service, list_out_of_service(plan.site_records.sites))
        ),
        **omit_empty(
            {
                "machine_actions": [
                    _build_machine_action(machine_action)
                    for machine_action in plan.impact.machine_actions
                ],
                "feasibility": [
                    build_feasibility_document(item) for item in plan.workloads.feasibility
                ],
                "content_changes": [
                    _build_content_change(content_change)
                    for content_change in plan.workloads.content_changes
                ],
                "untested_bindings": plan.workloads.untested_bindings,
            }
        ),
        "samples": None
        if plan.figures.numa_sampling is None
        else build_samples_document(plan.figures.numa_sampling),
        **omit_empty(
            {
                "prediction_scores": [
                    _build_accuracy(prediction_score)
                    for prediction_score in plan.figures.prediction_scores
                ],
                "evaluation": to_builtins(plan.basis.evaluation),
                "checks_by": [_build_program_check(item) for item in plan.verdicts.checks_by],
                "rejected": list(plan.verdicts.rejected),
            }
        ),
        **_build_unread_documents(plan),
        **omit_empty(
            {"listed": [build_listed_site_document(item) for item in plan.observed.listed]}
        ),
    }


def _build_impact(impact: ImpactSummary) -> dict[str, Any]:
    """Build the JSON object of the impact of a plan."""
    return {
        "recreated": impact.recreated,
        "moved": impact.moved,
        "removed": impact.removed,
        "host_lost": impact.host_lost,
        "max_down": impact.max_down,
        "minutes": None
        if impact.drains is None
        else {
            "min": impact.drains.minimum_minutes,
            "max": impact.drains.maximum_minutes,
            "cluster_max": impact.drains.cluster_minutes,
            "concurrent_clusters": impact.drains.concurrent_clusters,
        },
        **omit_empty({"stopped": impact.stopped, "max_stopped": impact.max_stopped}),
    }


def _build_confidence(confidence: PlacementConfidenceSummary) -> dict[str, Any]:
    """Build the JSON object of the confidence of a plan."""
    return {
        "vms": confidence.vms,
        "exact_rack_counts": confidence.exact_rack_counts,
        "exact_machines": confidence.exact_machines,
        "pods": confidence.pods,
        "certain_pods": confidence.certain_pods,
        **omit_empty(
            {
                "uncertainty_reasons": dict(confidence.doubts),
                "uncertain_rollouts": list(confidence.uncertain_rollouts),
            }
        ),
    }


def _convert_number(number: float) -> float:
    """Return a whole number as an integer."""
    return int(number) if number.is_integer() else number


def _build_guard_rail(result: GuardRailResult) -> dict[str, Any]:
    """Build the JSON object of a guard rail result."""
    return {
        "name": result.name,
        "limit": _convert_number(result.limit),
        "value": None if result.value is None else _convert_number(result.value),
        "result": result.result.value,
        **omit_empty({"reason": result.reason}),
    }


def _build_plan_differences(differences: PreviousPlanDifferences) -> dict[str, Any]:
    """Build the JSON object of the differences from the previous plan."""
    return {
        "ref": differences.ref,
        "moved": differences.moved,
        "removed": differences.removed,
        "capacity": differences.capacity,
        **omit_empty({"capacity_by_site": dict(differences.capacity_by_site)}),
        "clusters_no_longer_affected": list(differences.clusters_no_longer_affected),
        "objects": list(differences.objects),
        "resources": list(differences.resources),
        "has_other_differences": differences.has_other_differences,
    }


def build_decision_document(plan: Plan) -> dict[str, Any]:
    """Build the figures of a plan for its approval.

    A capacity is a minimum of further VMs, null if unknown.
    """
    max_age = plan.basis.max_age if plan.basis.after_merge else 0
    return {
        **_build_figures_document(build_decision(plan)),
        **omit_empty(
            {"changed_outside": list(map(_build_outside_change, plan.impact.outside_changes))}
        ),
        "destroys": list(map(_build_ended_object, list_destroyed_objects(plan.impact))),
        "replaces": list(map(_build_ended_object, list_replaced_objects(plan.impact))),
        **omit_empty({"overrides": list(map(asdict, list_overridden_values(plan)))}),
        "risks": list(map(build_consequence_document, list_assessed_risks(plan.impact))),
        "consequences": list(map(build_consequence_document, plan.impact.consequences)),
        "guard_rails": list(map(_build_guard_rail, plan.verdicts.guard_rails)),
        "since": None
        if plan.verdicts.since is None
        else _build_plan_differences(plan.verdicts.since),
        **omit_empty({"inventories": build_inventory_documents(plan.observed.inventories)}),
        **omit_empty({"after_merge": plan.basis.after_merge, "max_age_seconds": max_age}),
    }


def _build_figures_document(decision: PlanDecisionSummary) -> dict[str, Any]:
    """Build the figures of one plan, or the sums of several."""
    return {
        "impact": _build_impact(decision.impact),
        "capacity": list(map(_build_spare_capacity, decision.capacity)),
        "upgrades": [
            {"site": verdict.site, "cluster": verdict.cluster, "result": verdict.result}
            for verdict in decision.upgrades
        ],
        "confidence": _build_confidence(decision.confidence),
    }


def build_summed_decision_document(
    records: Mapping[str, DecisionRecord], guard_rails: Sequence[GuardRailResult]
) -> dict[str, Any]:
    """Build the sums of the plans of several sites, with their objects and consequences.

    Each of these has the name of its site. Drains of several sites have no sum.
    """

    def list_documents(
        list_items: Callable[[DecisionRecord], Iterable[_Item]],
        build_document: Callable[[_Item], dict[str, Any]],
    ) -> list[dict[str, Any]]:
        return [
            {"site": site, **build_document(item)}
            for site, record in records.items()
            for item in list_items(record)
        ]

    return {
        **_build_figures_document(sum_decisions([record.figures for record in records.values()])),
        **omit_empty(
            {
                "changed_outside": list_documents(
                    lambda record: record.outside_changes, _build_outside_change
                )
            }
        ),
        "destroys": list_documents(list_destroyed_objects, _build_ended_object),
        "replaces": list_documents(list_replaced_objects, _build_ended_object),
        "risks": list_documents(list_assessed_risks, build_consequence_document),
        "consequences": list_documents(
            lambda record: record.consequences, build_consequence_document
        ),
        "guard_rails": list(map(_build_guard_rail, guard_rails)),
    }


def _build_outside_change(change: OutsideChange) -> dict[str, Any]:
    """Build the row of an object changed outside, and what an apply does to it."""
    return {
        "address": str(change.address),
        "name": change.name,
        "reversal": change.reversal.value,
        "arguments": list(change.arguments),
    }


def _build_ended_object(consequence: Consequence) -> dict[str, Any]:
    """Build the row of a destroyed or replaced object, with the VMs and pods that ran on it."""
    vms = consequence.runs.get(VM, 0)
    return {
        "name": consequence.subject,
        "address": consequence.address,
        "vms": vms,
        "pods": sum(consequence.runs.values()) - vms,
    }


def build_inventory_documents(inventories: Iterable[InventoryRead]) -> list[dict[str, Any]]:
    """Build the times of the inventories behind a plan or an answer, null if unknown."""
    return list(map(_build_inventory_read, inventories))


def _build_inventory_read(inventory: InventoryRead) -> dict[str, Any]:
    """Build the JSON object of an inventory that was read."""
    return {
        "address": inventory.address,
        "exported_at": inventory.exported_at or None,
        "stale": inventory.is_stale,
    }


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
