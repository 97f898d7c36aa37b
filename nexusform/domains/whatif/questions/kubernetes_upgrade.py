"""Kubernetes upgrade of one cluster, batch by batch, with a capacity check for every surge VM.

Same order as a plan with another kubernetes_version: control plane, then pools, by number. New VMs
of a batch are placed before the old ones release their capacity.
"""

from collections.abc import Sequence

from msgspec import Struct

from nexusform.domains.pods.scheduling.preemption import find_drain_obstacles
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.kubernetes.quantity import compute_amount_of_total
from nexusform.placements.recreations import RecreatedVm
from nexusform.placements.vm_demands import PlacedVm
from nexusform.planning.vm_planning.site_plans import build_vm_name
from nexusform.plans.maintenance import DrainObstacles, Upgrade
from nexusform.plans.maintenance import PoolNodeRecreation as PoolCourse
from nexusform.resources.address import Address
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.splits import SplitChoice
from nexusform.scheduling.racks.vms import NoFitReason
from nexusform.snapshots.availability import (
    PlacedReplacements,
    SampledShortage,
    place_replacements,
    sample_capacity,
)
from nexusform.snapshots.snapshot import PoolSnapshot, SiteSnapshot, VmOwnerSnapshot


class NodeUpgradeBatch(Struct, frozen=True):
    """Nodes upgraded together.

    `up`: number of the pool's nodes up meanwhile.
    """

    number: int
    moves: tuple[RecreatedVm, ...]
    up: int

    @property
    def missing_names(self) -> list[str]:
        """Names of the new VMs without capacity."""
        return [move.vm.name for move in self.moves if move.placement is None]

    @property
    def fits(self) -> bool:
        """Whether every new VM has capacity."""
        return not self.missing_names


class PoolUpgrade(Struct, frozen=True):
    """Upgrade of one pool.

    `surge` and `unavailable` are numbers of VMs; a pool surges if `surge` is positive. It stops at
    its first batch without capacity: `reason` explains it, `fitting_surge` is the largest smaller
    max_surge for the whole pool (0: none), `fits_in_place`: max_surge 0 with max_unavailable 1
    fits.
    """

    pool: str
    is_control_plane: bool
    sku: str
    count: int
    max_surge: str
    max_unavailable: str
    surge: int
    unavailable: int
    drain_timeout: int
    batches: tuple[NodeUpgradeBatch, ...]
    reason: str = ""
    fitting_surge: int = 0
    fits_in_place: bool = False

    @property
    def is_blocked(self) -> bool:
        """Whether a batch has no capacity."""
        return bool(self.reason)

    @property
    def course(self) -> PoolCourse:
        """Course of the upgrade (batches, VMs down) in the form recorded by plans."""
        # VMs per batch: without surge, those down at once.
        size = self.surge or max(self.unavailable, 1)
        return PoolCourse(
            pool=self.pool,
            sku=self.sku,
            vms=self.count,
            concurrent_vms=min(size, self.count),
            batches=-(-self.count // size),  # rounded up
            surges=self.surge > 0,
            minimum_up=min((batch.up for batch in self.batches), default=self.count),
            # The upgrade stops there.
            failed_batch=self.batches[-1].number if self.is_blocked else 0,
            reason=self.reason,
            batch=size,
            count=self.count,
            is_control_plane=self.is_control_plane,
            drain_timeout=self.drain_timeout,
        )


class KubernetesUpgrade(Struct, frozen=True):
    """Upgrade of one cluster, pools in upgrade order.

    `disruptions` are the obstacles to draining its nodes. With unknown NUMA cells `pools` are of
    one sample, and `samples` summarizes the others.
    """

    cluster_id: str
    cluster: str
    site_id: str
    version: str
    pools: tuple[PoolUpgrade, ...]
    address: Address
    disruptions: DrainObstacles = DrainObstacles()
    samples: SampledShortage | None = None

    def build_course(self, before: str = "", after: str = "") -> Upgrade:
        """Build the upgrade in the form recorded by plans.

        `before` and `after` are versions, "" if not needed.
        """
        return Upgrade(
            address=self.address,
            cluster=self.cluster,
            site_id=self.site_id,
            before=before,
            after=after,
            pools=tuple(pool.course for pool in self.pools),
            budgets=self.disruptions.budgets,
            single_replicas=self.disruptions.single_replicas,
            protected_workloads=self.disruptions.protected_workloads,
        )

    @property
    def blocked_pools(self) -> tuple[PoolUpgrade, ...]:
        """Pools without surge capacity."""
        return tuple(pool for pool in self.pools if pool.is_blocked)

    @property
    def has_findings(self) -> bool:
        """Whether success is uncertain, or availability is lost meanwhile."""
        is_uncertain = self.samples is not None and not self.samples.is_certain
        course = self.build_course()
        return is_uncertain or not course.is_feasible or bool(course.lost_pools)


def simulate_kubernetes_upgrade(
    site: SiteSnapshot, cluster: VmOwnerSnapshot, pods: ClusterPods | None = None
) -> KubernetesUpgrade:
    """Upgrade every pool in turn.

    A pool without capacity is blocked: it keeps its remaining old VMs, and the next pool continues.
    `pods` is None if the pods of the cluster are unknown.
    """
    scheduler = site.scheduler.copy()

    def count_missing_by_pool(sample: SplitChoice) -> list[int]:
        """Count the VMs without capacity in the blocking batch of each pool.

        0 for a pool without one.
        """
        sampled_scheduler = scheduler.copy(split_choice=sample)
        counts = []
        for pool in cluster.pools:
            max_surge, max_unavailable = _read_surge_settings(pool)
            surge = compute_amount_of_total(max_surge, len(pool.vms))
            unavailable = compute_amount_of_total(max_unavailable, len(pool.vms))
            batches, _ = _upgrade_batches(sampled_scheduler, pool, surge, unavailable)
            counts.append(sum(len(batch.missing_names) for batch in batches))
        return counts

    samples = sample_capacity(scheduler, cluster.vm_count, count_missing_by_pool)
    pools = tuple([_upgrade_pool(scheduler, pool) for pool in cluster.pools])
    obstacles = DrainObstacles()
    if pods is not None:
        nodes = {vm.name for pool in cluster.pools for vm in pool.vms}
        obstacles = find_drain_obstacles(pods.cluster.budgets, pods.existing, nodes)
    version = get_running_version(cluster)
    address = cluster.pools[0].address
    return KubernetesUpgrade(
        cluster.id,
        cluster.name,
        site.id,
        version,
        pools,
        address=address,
        disruptions=obstacles,
        samples=samples,
    )


def get_running_version(cluster: VmOwnerSnapshot) -> str:
    """Return the Kubernetes version of a cluster, "" if unknown."""
    return next((pool.owner.version for pool in cluster.pools if pool.owner.version), "")


def _upgrade_pool(scheduler: RackScheduler, pool: PoolSnapshot) -> PoolUpgrade:
    """Upgrade one pool.

    If it is blocked, try smaller surges, and one node at a time without surge.
    """
    count = len(pool.vms)
    max_surge, max_unavailable = _read_surge_settings(pool)
    surge = compute_amount_of_total(max_surge, count)
    unavailable = compute_amount_of_total(max_unavailable, count)
    scheduler_before = scheduler.copy()

    def is_feasible(other_surge: int, other_unavailable: int) -> bool:
        """Return True if every batch fits with these numbers of VMs, from the start of the pool."""
        _, other_shortage = _upgrade_batches(
            scheduler_before.copy(), pool, other_surge, other_unavailable
        )
        return other_shortage is None

    batches, shortage = _upgrade_batches(scheduler, pool, surge, unavailable)
    fitting_surge = 0
    fits_in_place = False
    # The surge of a control plane is fixed.
    if shortage is not None and not pool.is_control_plane:
        # largest first; 0 is tried in place.
        smaller_surges = range(min(surge, count) - 1, 0, -1)
        fitting_surge = next(
            (smaller for smaller in smaller_surges if is_feasible(smaller, other_unavailable=0)), 0
        )
        fits_in_place = is_feasible(other_surge=0, other_unavailable=1)
    return PoolUpgrade(
        pool=pool.name,
        is_control_plane=pool.is_control_plane,
        sku=pool.sku.name,
        count=count,
        max_surge=max_surge,
        max_unavailable=max_unavailable,
        surge=surge,
        unavailable=unavailable,
        drain_timeout=pool.drain_timeout,
        batches=batches,
        reason=shortage.reason if shortage is not None else "",
        fitting_surge=fitting_surge,
        fits_in_place=fits_in_place,
    )


def _read_surge_settings(pool: PoolSnapshot) -> tuple[str, str]:
    """Return max_surge and max_unavailable as configured; a control plane always surges by one."""
    if pool.is_control_plane:
        return "1", "0"
    return pool.demand.max_surge, pool.demand.max_unavailable


def _upgrade_batches(
    scheduler: RackScheduler, pool: PoolSnapshot, surge: int, unavailable: int
) -> tuple[tuple[NodeUpgradeBatch, ...], NoFitReason | None]:
    """Upgrade batch by batch until one has no capacity.

    Return the batches, a failed one included, and its shortage or None. With a surge, a batch first
    creates `surge` new VMs. Without one, `unavailable` VMs are down meanwhile.
    """
    size = surge or max(unavailable, 1)
    is_surging = surge > 0
    machines_down = {machine.name for machine in scheduler.machines if machine.is_down}
    batches: list[NodeUpgradeBatch] = []
    for start in range(0, len(pool.vms), size):
        vms = pool.vms[start : start + size]
        placement_result = _replace_vms(scheduler, pool, vms, is_surging=is_surging)
        # Nodes up meanwhile: without old VMs on machines already down and, without surge, those of
        # this batch.
        old_vms = pool.vms[start:] if is_surging else pool.vms[start + size :]
        up = len(pool.vms) - sum(vm.placement.machine in machines_down for vm in old_vms)
        if not is_surging:
            up -= len(vms)
        batches.append(NodeUpgradeBatch(len(batches) + 1, placement_result.replacements, up))
        if placement_result.shortage is not None:
            return tuple(batches), placement_result.shortage
    return tuple(batches), None


def _replace_vms(
    scheduler: RackScheduler, pool: PoolSnapshot, vms: Sequence[PlacedVm], *, is_surging: bool
) -> PlacedReplacements:
    """Replace the VMs of a batch by new ones.

    With a surge, new VMs are placed before the old ones release their capacity, without it
    afterwards. If the new VMs do not all fit, the old ones stay as they were.
    """
    old_handles = [pool.handles[vm.name] for vm in vms]
    if not is_surging:
        _release_vms(scheduler, old_handles)
    placement_result = place_replacements(scheduler, pool, vms)
    if placement_result.shortage is not None:
        # Of the new VMs with capacity.
        _release_vms(scheduler, placement_result.handles)
        if not is_surging:
            # put the old VMs back.
            for vm in vms:
                name = build_vm_name(pool.owner, pool.demand, pool.name, vm.number)
                scheduler.add_existing(name, pool.sku, vm.placement)
    elif is_surging:
        _release_vms(scheduler, old_handles)
    return placement_result


def _release_vms(scheduler: RackScheduler, handles: Sequence[int]) -> None:
    """Release the capacity of VMs."""
    for handle in handles:
        scheduler.release(handle)
