"""Comparison of a plan with an earlier plan of the same branch."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.diagnostics.phrases import compute_natural_sort_key, enclose
from nexusform.plans.impact.decision_figures import SpareCapacitySummary, build_decision
from nexusform.plans.impact.object_effects import LOSS_EFFECTS, compute_effect
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.plans.plan_checks import PreviousPlanDifferences

NOT_COMPARABLE: Final = "previous-plan-not-comparable"
_COMMIT_LENGTH: Final = 12
_Key: TypeAlias = tuple[str, ...]


def compare_with_previous(plan: Plan, previous: Plan) -> Plan:
    """Return the plan with its differences from an earlier plan of the same state, in `since`.

    Examples are fewer moved VMs and other objects with changes. A number is the difference
    `plan - previous`, so it may be negative. If the plans cannot be compared, return this plan
    with a warning.
    """
    # Its errors come first.
    if plan.errored:
        return plan
    if previous.start.lineage != plan.start.lineage:
        return warn_about_previous(plan, "It is for another state: their lineages differ")
    if previous.errored:
        return warn_about_previous(plan, "That plan failed")
    ref = previous.basis.commit[:_COMMIT_LENGTH] or previous.start.timestamp or "the previous plan"
    return replace(plan, verdicts=replace(plan.verdicts, since=compare_plans(plan, previous, ref)))


def compare_plans(plan: Plan, previous: Plan, ref: str) -> PreviousPlanDifferences:
    """Return the differences `plan - previous` of two complete plans of one state.

    `ref` names the previous plan in reports.
    """
    before = build_decision(previous)
    after = build_decision(plan)
    earlier = before.impact
    later = after.impact
    has_several_sites = (
        len({site.id for site in (*plan.site_records.sites, *previous.site_records.sites)}) > 1
    )
    freed = _list_affected_clusters(previous, has_several_sites) - _list_affected_clusters(
        plan, has_several_sites
    )
    # Keys of objects with another placement: address, kind, cluster and name.
    objects = _find_differences(_collect_placements(previous), _collect_placements(plan))
    resources = {
        address
        for address, _ in _find_differences(_collect_changes(previous), _collect_changes(plan))
    }
    capacity_by_site = _compute_capacity_differences(before.capacity, after.capacity)
    return PreviousPlanDifferences(
        ref=ref,
        moved=later.moved
        + later.recreated
        + later.host_lost
        - earlier.moved
        - earlier.recreated
        - earlier.host_lost,
        removed=later.removed - earlier.removed,
        capacity=sum(capacity_by_site.values()),
        capacity_by_site=capacity_by_site,
        clusters_no_longer_affected=_sort_names(freed),
        objects=_sort_names(name for *_, name in objects),
        resources=_sort_names(resources.difference(address for address, *_ in objects)),
        has_other_differences=before != after
        or _collect_other_parts(previous) != _collect_other_parts(plan),
    )


def _compute_capacity_differences(
    before: Iterable[SpareCapacitySummary], after: Iterable[SpareCapacitySummary]
) -> dict[str, int]:
    """Return the differences of certain spare capacity by site.

    They cover the sites of both plans with the same largest SKU.
    """
    earlier_capacity = {(row.site, row.vm_sku_name): row.after.minimum for row in before}
    differences: dict[str, int] = {}
    for row in after:
        earlier = earlier_capacity.get((row.site, row.vm_sku_name))
        if earlier is not None and earlier != row.after.minimum:
            differences[row.site] = row.after.minimum - earlier
    return differences


def _find_differences(before: Mapping[_Key, Any], after: Mapping[_Key, Any]) -> set[_Key]:
    """Return the keys with different values, or with a value in one of the plans only."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _collect_placements(plan: Plan) -> dict[_Key, Any]:
    """Return action, locations and trigger of objects with a placement change.

    The key is address, kind, cluster and name.
    """
    rows = [row for row in plan.placements if row.action is not PlacementAction.KEEP]
    return {
        (str(row.address), row.kind, row.cluster, row.object): (
            row.action,
            row.source,
            row.target,
            row.trigger,
        )
        for row in rows
    }


def _collect_changes(plan: Plan) -> dict[_Key, Any]:
    """Return the actions and attributes of changed resources.

    The key is the address, with the key of a deposed object.
    """
    return {
        (str(change.address), change.deposed): (
            change.action,
            change.previous_address,
            change.before,
            change.after,
        )
        for change in plan.reported_changes
    }


def _collect_other_parts(plan: Plan) -> tuple[Any, ...]:
    """Return the further parts of a report: outputs, findings, verdicts and maintenance."""
    outputs = {
        output.name: (output.action, output.before, output.after)
        for output in plan.root_values.outputs
    }
    findings = {(diagnostic.id, diagnostic.address) for diagnostic in plan.diagnostics}
    verdicts = {
        str(verdict.address): verdict.satisfied for verdict in plan.verdicts.separation_verdicts
    }
    checks = [(check.address, check.status, check.messages) for check in plan.verdicts.checks]
    return outputs, findings, verdicts, checks, plan.impact.upgrades, plan.impact.machine_actions


def _sort_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names), key=compute_natural_sort_key))


def warn_about_previous(plan: Plan, reason: str) -> Plan:
    """Return the plan with a warning about the missing comparison."""
    warning = build_warning(
        NOT_COMPARABLE, f"{reason}, so this plan is not compared with the plan of -previous."
    )
    return replace(plan, diagnostics=(*plan.diagnostics, warning))


def _list_affected_clusters(plan: Plan, has_several_sites: bool) -> set[str]:
    """Return the names of clusters with interrupted or removed objects.

    With several sites they are `SITE/CLUSTER`.
    """
    clusters = set()
    for row in plan.placements:
        if row.cluster and compute_effect(row) in LOSS_EFFECTS:
            site = enclose("", row.site_id, "/") if has_several_sites else ""
            clusters.add(f"{site}{row.cluster}")
    return clusters
