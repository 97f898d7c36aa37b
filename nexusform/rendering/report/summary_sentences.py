"""Sentences about unknown NUMA cells and scale-ins of a plan."""

from __future__ import annotations

from typing import Final

from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.plans.plan import NumaSampling, Plan

_MAX_NAMES: Final = 6


def describe_unknown_cells(sampling: NumaSampling | None) -> str:
    """Return a sentence about the effect of unknown NUMA cells."""
    if sampling is None:
        return ""
    from nexusform.scheduling.racks.uncertainty.splits import RULE_DESCRIPTIONS

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
    return f"Azure picks the VMs to remove; at worst a rack keeps {format_first_items(worst_cases, _MAX_NAMES)}."
