"""Capacity for VMs in many samples of unknown NUMA cells."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from nexusform.plans.numa_sampling import NumaSampling, SampledShortage
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.certainty import MAX_RUNS, MIN_RUNS
from nexusform.scheduling.racks.uncertainty.splits import (
    PACKED,
    SPREAD,
    SplitChoice,
    format_split_choice,
)
from nexusform.scheduling.racks.vms import Interval

# About five seconds for an upgrade.
_MAXIMUM_PLACEMENTS: Final = 20_000


def sample_capacity(
    scheduler: RackScheduler, vms: int, count_missing: Callable[[SplitChoice], Sequence[int]]
) -> SampledShortage | None:
    """Return the VMs without capacity in many samples of the unknown NUMA cells of existing VMs.

    `vms` is the number of VMs to place. `count_missing` places them in a sample and counts those
    without capacity by pool. Return None without VMs to place, or if all cells are known.
    """
    if not vms or not scheduler.is_sampled:
        return None
    sample_count = max(MIN_RUNS, min(MAX_RUNS, _MAXIMUM_PLACEMENTS // vms))
    counts_by_sample = [tuple(count_missing(seed)) for seed in range(sample_count)]
    counts_by_pool = list(zip(*counts_by_sample, strict=True))  # transposed
    numa_sampling = NumaSampling(
        machines=len(scheduler.list_machines_with_unknown_cells()),
        displayed_sample=format_split_choice(scheduler.split_choice),
        fitting_count=len([counts for counts in counts_by_sample if not any(counts)]),
        sample_count=sample_count,
        fits_packed=not any(count_missing(PACKED)),
        fits_spread=not any(count_missing(SPREAD)),
    )
    return SampledShortage(
        numa_sampling=numa_sampling,
        missing_count=_build_minimum_maximum_interval(map(sum, counts_by_sample)),
        pools=tuple(map(_build_minimum_maximum_interval, counts_by_pool)),
        fitting_counts=tuple(counts.count(0) for counts in counts_by_pool),
    )


def _build_minimum_maximum_interval(counts: Iterable[int]) -> Interval:
    values = list(counts)
    return Interval(min(values), max(values))
