"""Availability with machines down: nodes per cluster and pool, and control-plane quorum.

With unknown NUMA cells, the computation is repeated for many samples of them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.placements.vm_demands import PlacedVm
from nexusform.plans.maintenance import compute_quorum
from nexusform.plans.plan import NumaSampling
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.certainty import MAX_RUNS, MIN_RUNS
from nexusform.scheduling.racks.uncertainty.splits import (
    PACKED,
    SPREAD,
    SplitChoice,
    format_split_choice,
)
from nexusform.scheduling.racks.vms import Interval
from nexusform.snapshots.snapshot import PoolSnapshot, SiteSnapshot, VmOwnerKind, VmOwnerSnapshot


class PoolAvailability(Struct, frozen=True):
    """Pool with VMs down.

    `quorum` is the number that must be up (0 unless it is a control plane). `already_down`: VMs on
    other machines down now.
    """

    cluster_id: str
    cluster: str
    kind: VmOwnerKind
    pool: str
    address: str
    is_control_plane: bool
    total: int
    down_vms: tuple[PlacedVm, ...]
    quorum: int = 0
    already_down: int = 0

    @property
    def remaining_count(self) -> int:
        """Number of VMs up."""
        return self.total - len(self.down_vms) - self.already_down

    @property
    def is_lost(self) -> bool:
        """Whether availability is lost: no quorum, or no remaining node of the pool.

        A plain VM has no redundancy by nature: its outage is reported, but is no finding.
        """
        return self.kind is not VmOwnerKind.VM and self.remaining_count < max(self.quorum, 1)


def build_pool_availability(
    cluster: VmOwnerSnapshot, pool: PoolSnapshot, down: Iterable[PlacedVm], already_down: int = 0
) -> PoolAvailability:
    """Build the availability of a pool if the VMs `down` go down.

    `already_down` is the number of its other VMs on machines down now.
    """
    total = len(pool.vms)
    return PoolAvailability(
        cluster_id=cluster.id,
        cluster=cluster.name,
        kind=cluster.kind,
        pool=pool.name,
        address=str(pool.address),
        is_control_plane=pool.is_control_plane,
        total=total,
        down_vms=tuple(down),
        quorum=compute_quorum(total) if pool.is_control_plane else 0,
        already_down=already_down,
    )


def list_affected_pools(
    site: SiteSnapshot, machines: Collection[str]
) -> tuple[PoolAvailability, ...]:
    """Return the pools with VMs on these machines, in order of creation.

    Their availability counts the VMs on these machines as down, besides the VMs on other machines
    already down.
    """
    affected: list[PoolAvailability] = []
    other_machines_down = site.machines_down.difference(machines)
    for cluster in site.clusters:
        for pool in cluster.pools:
            affected_vms = [vm for vm in pool.vms if vm.placement.machine in machines]
            if affected_vms:
                already_down = sum(vm.placement.machine in other_machines_down for vm in pool.vms)
                affected.append(build_pool_availability(cluster, pool, affected_vms, already_down))
    return tuple(affected)


def group_vms_down_by_cluster(pools: Iterable[PoolAvailability]) -> dict[str, list[PlacedVm]]:
    """Return the VMs of these pools that are down, by cluster id."""
    down: dict[str, list[PlacedVm]] = {}
    for pool in pools:
        down.setdefault(pool.cluster_id, []).extend(pool.down_vms)
    return down


# About five seconds for an upgrade.
_MAXIMUM_PLACEMENTS: Final = 20_000


class SampledShortage(Struct, frozen=True):
    """VMs without capacity over the samples, in total and per pool.

    With them is the number of samples in which a pool fits completely. `is_exact`: the interval
    applies to every layout of VMs, not only to the samples.
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


def sample_capacity(
    scheduler: RackScheduler, vms: int, count_missing: Callable[[SplitChoice], Sequence[int]]
) -> SampledShortage | None:
    """Return the VMs without capacity in many samples of the unknown NUMA cells of existing VMs.

    `vms` is the number of VMs to place. `count_missing` places them in a sample and counts those
    without capacity by pool. None without VMs to place, or if all cells are known.
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
