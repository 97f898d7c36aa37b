"""Sentences about the confidence and the spare capacity of a plan."""

from __future__ import annotations

from typing import Final

from nexusform.diagnostics.phrases import format_count, format_first, select_form
from nexusform.plans.plan import NumaSampling, Plan, is_fully_decided
from nexusform.rendering.report.capacity_table import CapacityState, SiteSummary
from nexusform.scheduling.racks.uncertainty.splits import RULE_DESCRIPTIONS
from nexusform.scheduling.racks.vms import Interval

_MAX_NAMES: Final = 6


def describe_certainty(plan: Plan) -> str:
    """Return a sentence such as `rack counts exact for 168 of 215 VMs; Azure picks the machines`."""
    placed = sum(table.placed for table in plan.placement_tables)
    if not placed:
        return ""
    if is_fully_decided(plan.placement_tables):
        return "exact; nexusform decides every location."
    if not plan.samples:
        return "not computed (-samples=0)."
    racks = sum(table.racks_certain for table in plan.placement_tables)
    machines = sum(table.machines_certain for table in plan.placement_tables)
    if not racks:
        return "low; Azure picks rack and machine."
    counts = f"rack counts exact for {_format_share(racks, placed)} {select_form(placed, 'VM')}"
    if not machines:
        return f"{counts}; Azure picks the machines."
    if machines == placed:
        return f"{counts}, machines too."
    return f"{counts}, machines for {machines:,}; Azure picks the others."


def _format_share(part: int, total: int) -> str:
    return f"all {total:,}" if part == total and total > 2 else f"{part:,} of {total:,}"


def describe_capacity(site: SiteSummary) -> str:
    """Return `46 -> 43 x NC_P46_224_v1 (37 -> 34 with one rack down).`, or one figure each if unchanged."""
    assert site.after is not None, "only existing sites"
    after = _get_figures(site.after)
    before = after if site.before is None else _get_figures(site.before)
    free, rack_lost = map(_format_change, before, after)
    return f"{free} x {site.sku} ({rack_lost} with one rack down)."


def _format_change(before: Interval, after: Interval) -> str:
    if before == after:
        return _format_amount(after)
    return f"{_format_amount(before)} -> {_format_amount(after)}"


def _get_figures(state: CapacityState) -> tuple[Interval, Interval]:
    return state.largest.free_interval, state.largest.free_interval_after_rack_loss


def _format_amount(count: Interval) -> str:
    """Format a count, or its bounds if not exact."""
    if count.is_exact:
        return f"{count.minimum:,}"
    return f"{count.minimum:,} or {count.maximum:,}" if count.maximum == count.minimum + 1 else f"{count}"


def describe_surge_capacity(sites: list[SiteSummary], names: str, uncertain_names: str) -> str:
    """Return a sentence about clusters that lack, or may lack, capacity for an upgrade."""
    states = [site.after for site in sites if site.after is not None]
    clusters = sum(len(state.clusters) for state in states)
    lacking = sum(len(state.no_surge_clusters) for state in states)
    uncertain = sum(len(state.uncertain_surge_clusters) for state in states)
    if not clusters:
        return ""
    if not lacking and not uncertain:
        return "surge capacity for every cluster."
    clauses: list[str] = []
    if lacking:
        clauses.append(f"no surge capacity for {names}")
    if uncertain:
        clauses.append(f"surge capacity unknown for {uncertain_names} (NUMA use unknown)")
    remaining = clusters - lacking - uncertain
    if remaining:
        clauses.append(f"sufficient for the other {remaining:,}")
    return f"{'; '.join(clauses)}."


def describe_unknown_cells(sampling: NumaSampling | None) -> str:
    """Return a sentence about the effect of unknown NUMA cells."""
    if sampling is None:
        return ""
    unknown_cells = f"NUMA use unknown on {format_count(sampling.machines, 'machine')}"
    if not sampling.sample_count:
        return f"{unknown_cells}; no other layout was sampled."
    fitting = f"{sampling.fitting_count:,} of {sampling.sample_count:,}"
    rule = RULE_DESCRIPTIONS.get(str(sampling.displayed_sample))
    if rule is not None:
        return f"{unknown_cells}. Everything fits {rule}, and in {fitting} sampled layouts."
    if sampling.fitting_count == sampling.sample_count:
        fitting = f"all {sampling.sample_count:,}"
    return f"{unknown_cells}; everything fits in {fitting} sampled layouts."


def describe_scale_in(plan: Plan) -> str:
    """Return a sentence about the worst result of the platform's choice for shrinking pools."""
    worst_cases = [
        f"{table.minimum_remaining_on_rack:,} of {table.cluster}/{table.pool}"
        for table in plan.placement_tables
        if table.minimum_remaining_on_rack is not None
    ]
    if not worst_cases:
        return ""
    return f"Azure picks the VMs to remove; at worst a rack keeps {format_first(worst_cases, _MAX_NAMES)}."
