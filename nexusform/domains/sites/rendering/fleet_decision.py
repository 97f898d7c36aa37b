"""Decision block of a plan of several sites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import format_count
from nexusform.domains.sites.types.fleet_plan import FleetPlan
from nexusform.domains.sites.types.site_tasks import SiteStatus
from nexusform.plans.impact.guard_rails import GuardRailLimit
from nexusform.rendering.report.decision_lines import DecisionLine
from nexusform.rendering.report.decision_record import DecisionRecord
from nexusform.rendering.report.summed_decision import build_summed_lines, check_summed_limits


def get_records(plan: FleetPlan) -> dict[str, DecisionRecord]:
    """Return the records of the plans of sites by name, in the order of the sites."""
    return {
        site.name: site.result.decision for site in plan.sites if site.result.decision is not None
    }


def build_fleet_decision_lines(plan: FleetPlan, merge: str) -> tuple[DecisionLine, ...]:
    """Return the lines of the decision block; `merge` is what a merge does."""
    front = DecisionLine("Not planned", tuple(_describe_unplanned(plan)))
    if plan.errors:
        errors = format_count(len(plan.errors), "error")
        front = DecisionLine("Plan failed", (f"{errors}. No changes were made.",))
    sums = build_summed_lines(get_records(plan), plan.guard_rails)
    block = (front, *sums, DecisionLine("Next", (merge,)))
    return tuple(line for line in block if any(line.texts))


def _describe_unplanned(plan: FleetPlan) -> Iterator[str]:
    sites = plan.select_by_status(SiteStatus.REJECTED, SiteStatus.FAILED, SiteStatus.SKIPPED)
    if sites:
        names = format_names(site.name for site in sites)
        yield f"{len(sites):,} of {format_count(len(plan.sites), 'site')}: {names}"


def check_fleet_limits(
    plan: FleetPlan, limits: Iterable[GuardRailLimit]
) -> tuple[FleetPlan, list[Diagnostic]]:
    """Return the plan with the results of limits, and a diagnostic for each broken one."""
    records = {site.name: site.result.decision for site in plan.sites}
    results, diagnostics = check_summed_limits(records, limits)
    return replace(plan, guard_rails=results), diagnostics
