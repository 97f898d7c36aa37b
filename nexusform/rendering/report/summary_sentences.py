"""Plain sentences about the certainty and the remaining capacity of a plan. Terms such as samples and shares
appear with -details and in explain only.
"""

from __future__ import annotations

from typing import Final

from nexusform.diagnostics.phrases import format_count, format_first, select_form
from nexusform.plans.plan import NumaSampling, Plan, is_fully_decided
from nexusform.rendering.report.capacity_table import CapacityState, SiteSummary
from nexusform.scheduling.racks.uncertainty.splits import RULE_DESCRIPTIONS
from nexusform.scheduling.racks.vms import Interval

_MAX_NAMES: Final = 6


def describe_certainty(plan: Plan) -> str:
    """Return a sentence such as `the number of VMs per rack for 168 of 215. Which machine: the platform
    decides`.
    """
    placed = sum(table.placed for table in plan.placement_tables)
    if not placed:
        return ""
    if is_fully_decided(plan.placement_tables):
        return "every place, as it is decided here and not predicted."
    if not plan.samples:
        return "nothing: how sure places are was not computed (-samples)."
    racks = sum(table.racks_certain for table in plan.placement_tables)
    machines = sum(table.machines_certain for table in plan.placement_tables)
    if not racks:
        return "no number of VMs per rack: the platform decides where they go."
    counts = f"the number of VMs per rack for {_format_share(racks, placed)}"
    if not machines:
        return f"{counts}. Which machine: the platform decides."
    if machines == placed:
        return f"{counts}, and the machine of each."
    return f"{counts}, the machine for {machines:,}. The rest the platform decides."


def _format_share(part: int, total: int) -> str:
    return f"all {total:,}" if part == total and total > 2 else f"{part:,} of {total:,}"


def describe_capacity(site: SiteSummary) -> str:
    """Return a sentence such as `46 more of your largest VM (NC_P46_224_v1), 37 if any one rack is lost
    (before: 46 and 37)`.
    """
    assert site.after is not None, "sites that stand"
    free, rack_lost = _get_figures(site.after)
    largest = f"your largest VM ({site.sku})"
    if not free.maximum:
        text = f"not one more of {largest}"
    else:
        text = (
            f"{_format_amount(free)} more of {largest}, {_format_amount(rack_lost)} if any one rack is lost"
        )
    if site.before is None or _get_figures(site.before) == (free, rack_lost):
        return f"{text}."
    free_before, rack_lost_before = _get_figures(site.before)
    return f"{text} (before: {_format_amount(free_before)} and {_format_amount(rack_lost_before)})."


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
        return "every cluster has room for one."
    clauses: list[str] = []
    if lacking:
        clauses.append(f"{names} {select_form(lacking, 'has', 'have')} no room for one")
    if uncertain:
        reason = "the site does not tell which NUMA cells are taken"
        clauses.append(f"{uncertain_names} may have no room for one ({reason})")
    remaining = clusters - lacking - uncertain
    if remaining:
        clauses.append(
            f"the other {format_count(remaining, 'cluster')} {select_form(remaining, 'has', 'have')}"
        )
    return f"{'; '.join(clauses)}."


def describe_unknown_cells(sampling: NumaSampling | None) -> str:
    """Return a sentence about the effect of unknown NUMA cells."""
    if sampling is None:
        return ""
    unknown_cells = f"the site does not tell which are taken on {format_count(sampling.machines, 'machine')}"
    if not sampling.sample_count:
        return f"{unknown_cells}, and how VMs may lie there was not tried."
    rule = RULE_DESCRIPTIONS.get(str(sampling.displayed_sample))
    if rule is not None:
        return (
            f"{unknown_cells}. Everything fits {rule}, and in {sampling.fitting_count:,} of "
            f"{sampling.sample_count:,} other ways."
        )
    sample_count = f"of the {sampling.sample_count:,} ways that were tried"
    fitting_count = (
        f"each {sample_count}"
        if sampling.fitting_count == sampling.sample_count
        else f"{sampling.fitting_count:,} {sample_count}"
    )
    return f"{unknown_cells}. Everything fits in {fitting_count}."


def describe_scale_in(plan: Plan) -> str:
    """Return a sentence about the worst result of the platform's choice for shrinking pools."""
    worst_cases = [
        f"{table.minimum_remaining_on_rack:,} of {table.cluster}/{table.pool}"
        for table in plan.placement_tables
        if table.minimum_remaining_on_rack is not None
    ]
    if not worst_cases:
        return ""
    return (
        f"the platform chooses which VMs go; at worst it leaves a rack with "
        f"{format_first(worst_cases, _MAX_NAMES)}."
    )
