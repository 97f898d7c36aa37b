"""Kubernetes upgrade of one cluster, batch by batch, with a capacity check for every surge VM.

It is the hypothetical plan with another kubernetes_version: control plane, then pools, by number.
New VMs of a batch are placed before the old ones release their capacity.
"""

from bisect import bisect_left
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.preemption import find_drain_obstacles
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.kubernetes.quantity import compute_amount_of_total
from nexusform.placements.recreations import RecreatedVm, count_nodes_up
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.hypothesis.recreations import has_capacity_in_layout
from nexusform.planning.hypothesis.start_points import StartPoint
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.plans.maintenance import PoolNodeRecreation, Upgrade
from nexusform.plans.numa_sampling import SampledShortage
from nexusform.scheduling.racks.uncertainty.splits import SplitChoice
from nexusform.snapshots.availability import sample_capacity
from nexusform.snapshots.snapshot import PoolSnapshot, SiteSnapshot, VmOwnerSnapshot

# Appended to the running version: another one, with equal placements.
_ANY_OTHER: Final = "+another"


class NodeUpgradeBatch(Struct, frozen=True):
    """Nodes upgraded together.

    `up` is the number of the pool's nodes that are up meanwhile.
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

    `course` is its upgrade in the plan. `surge` and `unavailable` are numbers of VMs; a pool surges
    if `surge` is positive. It stops at its first batch without capacity: the course has the reason.
    `fitting_surge` is the largest smaller max_surge for the whole pool (0: none), `fits_in_place`:
    max_surge 0 with max_unavailable 1 fits.
    """

    course: PoolNodeRecreation
    max_surge: str
    max_unavailable: str
    surge: int
    unavailable: int
    batches: tuple[NodeUpgradeBatch, ...]
    fitting_surge: int = 0
    fits_in_place: bool = False

    @property
    def is_blocked(self) -> bool:
        """Whether a batch has no capacity."""
        return bool(self.course.reason)


class KubernetesUpgrade(Struct, frozen=True):
    """Upgrade of one cluster, pools in upgrade order.

    `course` is the upgrade in the plan, with the obstacles to draining its nodes. With
    unknown NUMA cells `pools` are of one sample, and `samples` summarizes the others. `after`
    is the hypothetical plan.
    """

    cluster_id: str
    version: str
    course: Upgrade
    pools: tuple[PoolUpgrade, ...]
    after: PlanResult
    samples: SampledShortage | None = None

    @property
    def blocked_pools(self) -> tuple[PoolUpgrade, ...]:
        """Pools without surge capacity."""
        return tuple(pool for pool in self.pools if pool.is_blocked)

    @property
    def has_findings(self) -> bool:
        """Whether success is uncertain, or availability is lost meanwhile."""
        is_uncertain = self.samples is not None and not self.samples.is_certain
        return is_uncertain or not self.course.is_feasible or bool(self.course.lost_pools)


def simulate_kubernetes_upgrade(
    start: StartPoint,
    site: SiteSnapshot,
    cluster: VmOwnerSnapshot,
    pods: ClusterPods | None = None,
    version: str = "",
) -> KubernetesUpgrade:
    """Upgrade a cluster in a hypothetical plan, pool after pool.

    A pool without capacity is blocked: it keeps its remaining old VMs, and the next pool continues.
    `pods` is None if the pods of the cluster are unknown. `version` is the new version; "" is any
    other one. Raises DiagnosticsError if the objects of the site cannot be planned.
    """
    running_version = get_running_version(cluster)
    address = cluster.pools[0].address
    # The capacity needed is the same for every version.
    edit = ArgumentAdjustment(
        address, ("kubernetes_version",), version or f"{running_version}{_ANY_OTHER}"
    )
    after = start.plan_site(site.id, [edit])

    fits = not any(_find_shortage_reason(after, pool) for pool in cluster.pools)

    def count_missing_by_pool(sample: SplitChoice) -> list[int]:
        """Count the VMs without capacity in the blocking batch of each pool.

        The number is 0 for a pool without such a batch.
        """
        # A repetition of the plan is faster, and exact if everything fits in both.
        if fits and has_capacity_in_layout(after, site.id, sample):
            return [0] * len(cluster.pools)
        outcome = start.plan_layout([edit], sample)
        return [
            sum(len(batch.missing_names) for batch in _list_batches(outcome, site, pool))
            for pool in cluster.pools
        ]

    samples = sample_capacity(after.sites[site.id].base, cluster.vm_count, count_missing_by_pool)
    course = _find_course(after, cluster)
    pools = tuple(
        [_build_pool_upgrade(start, course, after, edit, site, pool) for pool in cluster.pools]
    )
    if pods is not None:
        nodes = {vm.name for pool in cluster.pools for vm in pool.vms}
        obstacles = find_drain_obstacles(pods.cluster.budgets, pods.existing, nodes)
        course = replace(
            course,
            budgets=obstacles.budgets,
            single_replicas=obstacles.single_replicas,
            protected_workloads=obstacles.protected_workloads,
        )
    return KubernetesUpgrade(cluster.id, running_version, course, pools, after, samples)


def _find_course(after: PlanResult, cluster: VmOwnerSnapshot) -> Upgrade:
    """Return the upgrade of a cluster in the plan; one without pools if it has no VM."""
    courses = [
        upgrade
        for upgrade in after.plan.impact.upgrades
        if (upgrade.site_id, upgrade.cluster) == (cluster.site_id, cluster.name)
    ]
    address = cluster.pools[0].address
    return next(iter(courses), Upgrade(address, cluster.name, cluster.site_id, "", "", ()))


def get_running_version(cluster: VmOwnerSnapshot) -> str:
    """Return the Kubernetes version of a cluster, "" if unknown."""
    return next((pool.owner.version for pool in cluster.pools if pool.owner.version), "")


def _build_pool_upgrade(
    start: StartPoint,
    upgrade: Upgrade,
    after: PlanResult,
    edit: ArgumentAdjustment,
    site: SiteSnapshot,
    pool: PoolSnapshot,
) -> PoolUpgrade:
    """Build the upgrade of one pool in the plan with the `edit` of the version.

    If it is blocked, try smaller surges, and one node at a time without surge.
    """
    # None: an empty pool.
    course = next((course for course in upgrade.pools if course.pool == pool.name), None)
    if course is None:
        course = PoolNodeRecreation(pool.name, pool.sku.name, 0, 0, 0, surges=False, minimum_up=0)
        course = replace(course, is_control_plane=pool.is_control_plane)
    max_surge, max_unavailable = _read_surge_settings(pool)
    count = len(pool.vms)
    surge = compute_amount_of_total(max_surge, count)
    path = (*pool.demand.path, "upgrade_settings")

    def is_feasible(max_surge: int, max_unavailable: int) -> bool:
        """Return True if every batch of the pool fits with these settings."""
        settings = [("max_surge", max_surge), ("max_unavailable", max_unavailable)]
        edits = [
            ArgumentAdjustment(pool.address, (*path, name), str(value)) for name, value in settings
        ]
        return not _find_shortage_reason(start.plan_site(site.id, [edit, *edits]), pool)

    fitting_surge = 0
    fits_in_place = False
    # The surge of a control plane is fixed.
    if course.reason and not pool.is_control_plane:
        # A smaller surge needs no more capacity. 0 is tried in place.
        surges = range(1, min(surge, count))
        fitting_surge = bisect_left(
            surges, True, key=lambda smaller: not is_feasible(smaller, max_unavailable=0)
        )
        fits_in_place = is_feasible(max_surge=0, max_unavailable=1)
    return PoolUpgrade(
        course=course,
        max_surge=max_surge,
        max_unavailable=max_unavailable,
        surge=surge,
        unavailable=compute_amount_of_total(max_unavailable, count),
        batches=_list_batches(after, site, pool),
        fitting_surge=fitting_surge,
        fits_in_place=fits_in_place,
    )


def _read_surge_settings(pool: PoolSnapshot) -> tuple[str, str]:
    """Return max_surge and max_unavailable as configured; a control plane always surges by one."""
    if pool.is_control_plane:
        return "1", "0"
    return pool.demand.max_surge, pool.demand.max_unavailable


def _find_shortage_reason(after: PlanResult, pool: PoolSnapshot) -> str:
    """Return why a new VM of a pool has no capacity, "" if all have."""
    failures = after.objects[pool.address].placements.failures
    reasons = [
        failures[pool.name, vm.number].reason
        for vm in pool.vms
        if (pool.name, vm.number) in failures
    ]
    # The first one counts.
    return reasons[0] if reasons else ""


def _list_batches(
    after: PlanResult, site: SiteSnapshot, pool: PoolSnapshot
) -> tuple[NodeUpgradeBatch, ...]:
    """Return the batches of a pool, up to the first one without capacity."""
    placements = after.objects[pool.address].placements
    size = pool.demand.batch_size
    up_counts = count_nodes_up(
        [vm.placement.machine not in site.machines_down for vm in pool.vms],
        size,
        surges=pool.demand.surge_size > 0,
    )
    batches: list[NodeUpgradeBatch] = []
    for start in range(0, len(pool.vms), size):
        vms = pool.vms[start : start + size]
        keys = [(pool.name, vm.number) for vm in vms]
        moves = tuple(
            RecreatedVm(vm, None if key in placements.failures else placements.vms[key].placement)
            for vm, key in zip(vms, keys, strict=True)
        )
        batch = NodeUpgradeBatch(len(batches) + 1, moves, up_counts[len(batches)])
        batches.append(batch)
        if not batch.fits:
            break
    return tuple(batches)
