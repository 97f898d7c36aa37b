"""Failure of a machine, rack, cluster or site: VMs down, remaining VMs, and re-created VMs.

The platform itself moves no VM. If the node of an NKS cluster is deleted, its VM is re-created by
the placement rule, as simulated here.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.whatif.questions.pod_outage import (
    NO_PODS,
    ClusterPods,
    WorkloadImpact,
    WorkloadOutcome,
    remove_nodes,
    simulate_nodes_down,
)
from nexusform.placements.consequence_record import Consequence
from nexusform.placements.recreations import RecreatedPool
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import LostMachines, MachineOutage
from nexusform.planning.hypothesis.outages import list_site_pools
from nexusform.planning.hypothesis.recreations import (
    bound_missing_recreations,
    count_missing_recreations,
    list_recreated_pools,
)
from nexusform.planning.hypothesis.start_points import StartPoint
from nexusform.plans.impact.consequence_views import list_plan_risks
from nexusform.plans.site_capacity.occupancy import (
    PoolAvailability,
    VmOwnerKind,
    group_vms_down_by_cluster,
)
from nexusform.resource_types.nks_pools import MACHINE_LABEL
from nexusform.snapshots.availability import SampledShortage, sample_capacity
from nexusform.snapshots.snapshot import SiteSnapshot, VmOwnerSnapshot


class FailureScope(StrEnum):
    """Scope of a failure."""

    MACHINE = "machine"
    RACK = "rack"
    CLUSTER = "cluster"
    SITE = "site"
    OBSERVED = "observed"


class NodeDeletionCommand(Struct, frozen=True):
    """Command to delete a cluster's nodes on lost machines for re-creation.

    The cluster is not reachable (`is_reachable`) if it lost quorum.
    """

    cluster_id: str
    cluster: str
    machines: tuple[str, ...]
    nodes: tuple[str, ...]
    is_reachable: bool

    @property
    def command(self) -> str:
        """Command for the cluster; the kubectl context has the name of the cluster."""
        kubectl = f"kubectl --context={shlex.quote(self.cluster)}"
        if len(self.machines) == 1:
            return f"{kubectl} delete node -l {MACHINE_LABEL}={self.machines[0]}"
        return f"{kubectl} delete node -l '{MACHINE_LABEL} in ({','.join(self.machines)})'"


class Failure(Struct, frozen=True):
    """Effects of a failure.

    `risks` are those of the hypothetical plan. `stay_down` are plain VMs and VNFs, down until their
    machine is back (with the address to re-create one), and unmanaged VMs. `workloads` are those
    with lost pods, if pods are known. `recreations` are those of one sample if NUMA cells are
    unknown; `samples` summarizes the others in the same order. `machines_down` are others that are
    down already; their VMs count as down.
    """

    site_id: str
    scope: FailureScope
    lost: str
    machines: tuple[str, ...]
    pools: tuple[PoolAvailability, ...]
    risks: tuple[Consequence, ...] = ()
    recreations: tuple[RecreatedPool, ...] = ()
    deletions: tuple[NodeDeletionCommand, ...] = ()
    stay_down: tuple[PoolAvailability, ...] = ()
    unmanaged_vms: tuple[str, ...] = ()
    workloads: tuple[WorkloadImpact, ...] = ()
    samples: SampledShortage | None = None
    machines_down: tuple[str, ...] = ()

    @property
    def vm_count(self) -> int:
        """Number of VMs down."""
        return sum(len(pool.down_vms) for pool in self.pools) + len(self.unmanaged_vms)

    @property
    def unreachable_clusters(self) -> list[str]:
        """Names of the clusters without quorum: kubectl cannot delete their nodes."""
        return sorted(
            {deletion.cluster for deletion in self.deletions if not deletion.is_reachable}
        )

    @property
    def missing(self) -> int:
        """Number of re-created VMs without capacity, in the reported sample."""
        return sum(pool.missing for pool in self.recreations)

    @property
    def has_findings(self) -> bool:
        """Whether availability is lost, or capacity elsewhere is missing or uncertain."""
        is_uncertain = self.samples is not None and not self.samples.is_certain
        # For VMs to re-create.
        is_capacity_missing = self.missing > 0
        is_pool_lost = any(pool.is_lost for pool in self.pools)
        return is_uncertain or is_capacity_missing or is_pool_lost or bool(self.lost_workloads)

    @property
    def lost_workloads(self) -> tuple[WorkloadImpact, ...]:
        """Workloads without a running pod, at once or after replacement."""
        outcomes = [
            (impact, impact.determine_outcome(is_drained=False)) for impact in self.workloads
        ]
        return tuple(impact for impact, outcome in outcomes if outcome is WorkloadOutcome.LOST)


def simulate_machine_loss(
    start: StartPoint,
    site: SiteSnapshot,
    scope: FailureScope,
    lost: str,
    machines: Sequence[str],
    pods: Mapping[str, ClusterPods] = NO_PODS,
) -> Failure:
    """Simulate the loss of a machine or rack.

    Its NKS nodes are deleted and re-created by the placement rule. Machines already down stay down.
    `lost` is the name of the lost part in the report. Raises DiagnosticsError if the state cannot
    be planned, for example with an unknown SKU catalogue.
    """
    lost_machines = frozenset(machines)
    down_now = site.machines_down - lost_machines
    edits = (LostMachines(site.id, tuple(machines)), MachineOutage(site.id, tuple(machines), lost))
    after = start.plan_site(site.id, edits)
    # Each pool with a lost VM, and its VMs still up.
    [outage] = after.plan.outages
    pools = outage.pools
    recreations = list_recreated_pools(after)
    return Failure(
        site_id=site.id,
        scope=scope,
        lost=lost,
        machines=tuple(machines),
        pools=pools,
        risks=tuple(list_plan_risks(after.plan)),
        recreations=recreations,
        deletions=tuple(_build_node_deletions(pools, machines)),
        # Only NKS nodes are re-created.
        stay_down=tuple(pool for pool in pools if pool.kind is not VmOwnerKind.NKS),
        unmanaged_vms=list_unmanaged_vms(site, lost_machines),
        workloads=tuple(_find_affected_workloads(pools, exclude_nodes_down(site, pods, down_now))),
        samples=_sample_shortage(after, site.id, recreations),
        machines_down=tuple(name for name in site.machines if name in down_now),
    )


def simulate_cluster_loss(
    start: StartPoint,
    site: SiteSnapshot,
    cluster: VmOwnerSnapshot,
    pods: Mapping[str, ClusterPods] = NO_PODS,
) -> Failure:
    """Simulate the loss of a whole cluster; nothing is re-created."""
    pools = tuple(pool for pool in _list_lost_pools(start, site) if pool.cluster_id == cluster.id)
    workloads = tuple(_find_affected_workloads(pools, pods))
    return Failure(
        site.id, FailureScope.CLUSTER, cluster.id, machines=(), pools=pools, workloads=workloads
    )


def simulate_site_loss(
    start: StartPoint, site: SiteSnapshot, pods: Mapping[str, ClusterPods] = NO_PODS
) -> Failure:
    """Simulate the loss of a whole site."""
    pools = _list_lost_pools(start, site)
    return Failure(
        site_id=site.id,
        scope=FailureScope.SITE,
        lost=site.id,
        machines=tuple(site.machines),
        pools=pools,
        unmanaged_vms=tuple(name for _, name in site.unmanaged_vms),
        workloads=tuple(_find_affected_workloads(pools, pods)),
    )


def _list_lost_pools(start: StartPoint, site: SiteSnapshot) -> tuple[PoolAvailability, ...]:
    """Return the pools of a site with VMs, all of them down."""
    return tuple(
        pool for pool in list_site_pools(start.plan_site(site.id, ()), site.id) if pool.total
    )


def list_unmanaged_vms(site: SiteSnapshot, machines: Collection[str]) -> tuple[str, ...]:
    """List the VMs on these machines that nexusform does not manage."""
    return tuple(name for machine, name in site.unmanaged_vms if machine in machines)


def exclude_nodes_down(
    site: SiteSnapshot, pods: Mapping[str, ClusterPods], machines: Collection[str]
) -> Mapping[str, ClusterPods]:
    """Return the pods by cluster id without the nodes on `machines`.

    The pods of these nodes run elsewhere or wait.
    """
    pods_on_others = dict(pods)
    for cluster in site.clusters:
        vms = chain.from_iterable(pool.vms for pool in cluster.pools)
        nodes = {vm.name for vm in vms if vm.placement.machine in machines}
        if nodes and cluster.id in pods:
            pods_on_others[cluster.id] = remove_nodes(pods[cluster.id], nodes)
    return pods_on_others


def _find_affected_workloads(
    pools: Sequence[PoolAvailability], pods: Mapping[str, ClusterPods]
) -> Iterable[WorkloadImpact]:
    """Find the workloads with lost pods, by cluster; lost nodes are not drained."""
    for cluster_id, vms in group_vms_down_by_cluster(pools).items():
        if cluster_id in pods:
            cluster_pods = pods[cluster_id]
            nodes = {vm.name for vm in vms}
            workloads, _ = simulate_nodes_down(
                cluster_pods, cluster_pods.existing, nodes, is_drained=False
            )
            yield from workloads


def _sample_shortage(
    after: PlanResult, site_id: str, recreations: Sequence[RecreatedPool]
) -> SampledShortage | None:
    """Count the lost VMs without capacity elsewhere, over samples of unknown NUMA cells.

    A sample is a possible layout. For a single pool, the bounds are exact. Return None if all cells
    are known, or no VM of an NKS cluster is lost.
    """
    site = after.sites[site_id]
    samples = sample_capacity(
        site.base,
        vms=sum(len(pool.vms) for pool in recreations),
        count_missing=lambda sample: count_missing_recreations(after, site_id, recreations, sample),
    )
    if samples is None:
        return None
    # VMs outside nexusform stay on the lost machines, which take no VM.
    unknown_machines = [
        machine
        for machine in site.base.list_machines_with_unknown_cells()
        if machine not in site.lost_machines
    ]
    if not unknown_machines:
        return None
    numa_sampling = replace(samples.numa_sampling, machines=len(unknown_machines))
    samples = replace(samples, numa_sampling=numa_sampling)
    # Several pools compete, so their bounds are only those of samples.
    if len(recreations) > 1:
        return samples
    bounds = bound_missing_recreations(after, site_id)
    if bounds is None:
        return samples
    return replace(samples, missing_count=bounds, pools=(bounds,), is_exact=True)


def _build_node_deletions(
    pools: Sequence[PoolAvailability], machines: Sequence[str]
) -> Iterable[NodeDeletionCommand]:
    """Yield a command per NKS cluster to delete its nodes on failed `machines`.

    Marked if its quorum is lost.
    """
    nks_pools = [pool for pool in pools if pool.kind is VmOwnerKind.NKS]
    for cluster_id, pools_of_cluster in group_by(nks_pools, lambda pool: pool.cluster_id).items():
        down = list(chain.from_iterable(pool.down_vms for pool in pools_of_cluster))
        affected_machines = {vm.placement.machine for vm in down}
        lacks_quorum = any(pool.is_control_plane and pool.is_lost for pool in pools_of_cluster)
        yield NodeDeletionCommand(
            cluster_id=cluster_id,
            cluster=pools_of_cluster[0].cluster,
            machines=tuple(machine for machine in machines if machine in affected_machines),
            nodes=tuple(vm.name for vm in down),
            is_reachable=not lacks_quorum,
        )
