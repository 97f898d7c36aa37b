"""Failure of a machine, rack, cluster or site: the loss of its machines, and of their pods."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final

from nexusform.domains.whatif.questions.pod_outage import (
    NO_PODS,
    ClusterPods,
    WorkloadImpact,
    WorkloadOutcome,
    remove_nodes,
    simulate_nodes_down,
)
from nexusform.placements.consequence_record import Consequence
from nexusform.planning.hypothesis.outages import list_site_pools
from nexusform.planning.hypothesis.start_points import StartPoint
from nexusform.plans.machine_losses import MachineLoss
from nexusform.plans.site_capacity.occupancy import PoolAvailability, group_vms_down_by_cluster
from nexusform.snapshots.machine_losses import simulate_machine_loss
from nexusform.snapshots.snapshot import SiteSnapshot, VmOwnerSnapshot

# Risks of an outage. Others are of VMs without capacity, which have a class of their own.
_OUTAGE_RISKS: Final = ("control-plane-quorum-lost", "pool-down")


class FailureScope(StrEnum):
    """Scope of a failure."""

    MACHINE = "machine"
    RACK = "rack"
    CLUSTER = "cluster"
    SITE = "site"
    OBSERVED = "observed"


class Failure(MachineLoss, frozen=True, kw_only=True):
    """Effects of a failure: the loss of its machines, and of pods.

    `lost` is the name of the lost part, `risks` are those of the outage. `workloads` are those with
    lost pods, if pods are known.
    """

    scope: FailureScope
    lost: str
    risks: tuple[Consequence, ...] = ()
    workloads: tuple[WorkloadImpact, ...] = ()

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


def simulate_machine_failure(
    start: StartPoint,
    site: SiteSnapshot,
    scope: FailureScope,
    lost: str,
    machines: Sequence[str],
    pods: Mapping[str, ClusterPods] = NO_PODS,
    *,
    tries_fixes: bool = True,
) -> Failure:
    """Simulate the failure of a machine or rack.

    `lost` is the name of the lost part in the report. Raises DiagnosticsError if the state cannot
    be planned, for example with an unknown SKU catalogue.
    """
    loss, after = simulate_machine_loss(start, site, machines, lost, tries_fixes=tries_fixes)
    pods_up = exclude_nodes_down(site, pods, loss.machines_down)
    return Failure(
        **{name: getattr(loss, name) for name in MachineLoss.__struct_fields__},
        scope=scope,
        lost=lost,
        risks=tuple(
            risk
            for risk in after.plan.impact.consequences
            if risk.is_risk and risk.risk in _OUTAGE_RISKS
        ),
        workloads=tuple(_find_affected_workloads(loss.pools, pods_up)),
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
        site_id=site.id,
        scope=FailureScope.CLUSTER,
        lost=cluster.id,
        machines=(),
        pools=pools,
        workloads=workloads,
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
