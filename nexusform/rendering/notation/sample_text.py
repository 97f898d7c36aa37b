"""Counts with bounds and samples of unknown NUMA cells, as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.plans.numa_sampling import NumaSampling
from nexusform.scheduling.racks.vms import Interval

# Only what-ifs load it.
if TYPE_CHECKING:
    from nexusform.plans.numa_sampling import SampledShortage


def describe_fit(count: Interval) -> str:
    """Return `fits` or `fit` for a number of VMs.

    If only bounds are known, add the lower one: `fit, certain: 1`.
    """
    verb = select_word_form(count.maximum, "fits", "fit")
    return verb if count.is_exact else f"{verb}, certain: {count.minimum:,}"


def describe_numa_samples(sampling: NumaSampling | None) -> str:
    """Describe how far a plan depends on unknown NUMA cells; "" without unknown cells."""
    if sampling is None:
        return ""
    unknown_cells = f"unknown on {format_count(sampling.machines, 'machine')}"
    # Else the name of a layout.
    is_sample = isinstance(sampling.displayed_sample, int)
    layout = (
        f"sample {sampling.displayed_sample}"
        if is_sample
        else f"layout `{sampling.displayed_sample}`"
    )
    shown_sample = f"{layout} is shown"
    if not sampling.sample_count:
        return f"{unknown_cells}; {shown_sample}, no other layout was sampled."
    fits = (
        f"everything fits in {sampling.fitting_count:,} of {sampling.sample_count:,} sampled "
        f"layouts, {shown_sample}"
    )
    return f"{unknown_cells}; {fits}. Shares are of these samples; no location there is certain."


def describe_sampled_capacity(sampled_capacity: SampledShortage) -> str:
    """Describe how far a what-if depends on unknown NUMA cells.

    Name the number of VMs without capacity, if any.
    """
    sample_text = describe_numa_samples(sampled_capacity.numa_sampling)
    missing_count = sampled_capacity.missing_count
    # None, in every sample.
    if missing_count.is_exact and not missing_count.maximum:
        return sample_text
    # Exact bounds hold for every layout.
    scope = "in any layout" if sampled_capacity.is_exact else "in these samples"
    return f"{sample_text} VMs without capacity {scope}: {missing_count}."


def build_interval_document(interval: Interval) -> dict[str, Any]:
    """Build the JSON object of an interval."""
    return {"min": interval.minimum, "max": interval.maximum}


def build_samples_document(sampling: NumaSampling) -> dict[str, Any]:
    """Build the JSON object of the samples of unknown cells."""
    return {
        "machines_with_unknown_cells": sampling.machines,
        "displayed_sample": sampling.displayed_sample,
        "fitting": sampling.fitting_count,
        "runs": sampling.sample_count,
        "packed": sampling.fits_packed,
        "spread": sampling.fits_spread,
    }
