"""JSON of counts with bounds and of samples of unknown NUMA cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nexusform.json_data.record_forms import RecordForm
from nexusform.plans.plan import NumaSampling
from nexusform.scheduling.racks.vms import Interval

if TYPE_CHECKING:  # loaded for what-ifs only
    from nexusform.snapshots.availability import SampledShortage

INTERVAL_FORM: Final = RecordForm(Interval, "min=minimum max=maximum")
SAMPLES_FORM: Final = RecordForm(
    NumaSampling,
    "machines_with_unknown_cells=machines shown=displayed_sample fitting=fitting_count runs=sample_count "
    "packed=fits_packed spread=fits_spread",
)


def build_sampled_capacity(sampled_capacity: SampledShortage | None) -> dict[str, Any] | None:
    """Build the JSON of a what-if result over samples of unknown NUMA cells. `pools` keeps the order of the answer."""
    if sampled_capacity is None:
        return None
    pools = [
        {**INTERVAL_FORM(missing), "fitting": fitting}
        for missing, fitting in zip(sampled_capacity.pools, sampled_capacity.fitting_counts, strict=True)
    ]
    return {
        **({} if sampled_capacity.numa_sampling is None else SAMPLES_FORM(sampled_capacity.numa_sampling)),
        "vms_without_room": {
            **INTERVAL_FORM(sampled_capacity.missing_count),
            "certain_bounds": sampled_capacity.is_exact,
        },
        "pools": pools,
    }
