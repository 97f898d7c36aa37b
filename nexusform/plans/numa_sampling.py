"""Dependency of a plan, or of the capacity for VMs, on unknown NUMA cells."""

from msgspec import Struct

from nexusform.scheduling.racks.vms import Interval


class NumaSampling(Struct, frozen=True):
    """Dependency of a plan on unknown NUMA cells, of VMs on `machines` machines.

    The plan displays the sample `displayed_sample`, or the layout of that name; everything fits in
    `fitting_count` of `sample_count` samples (0 of 0: none computed). `fits_packed` and
    `fits_spread`, which do not count as samples, state whether everything fits if the VMs are
    packed by the platform's own rule, or spread as far apart as possible.
    """

    machines: int
    displayed_sample: int | str
    fitting_count: int = 0
    sample_count: int = 0
    fits_packed: bool = False
    fits_spread: bool = False


class SampledShortage(Struct, frozen=True):
    """VMs without capacity over the samples, in total and per pool.

    With them is the number of samples in which a pool fits completely. `is_exact` means that the
    interval applies to every layout of VMs, not only to the samples.
    """

    numa_sampling: NumaSampling
    missing_count: Interval
    pools: tuple[Interval, ...]
    fitting_counts: tuple[int, ...]
    is_exact: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether everything fits, as far as known."""
        return self.missing_count.maximum == 0
