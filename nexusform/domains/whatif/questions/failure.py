"""One machine, rack, cluster or site lost: what is down, what is left, and what comes back elsewhere.

The platform moves no VM by itself. When the node of an NKS cluster is deleted, its VM is created anew
where the placement rule puts it; that is played through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from nexusform.demands import PlacedVm
from nexusform.domains.whatif.questions.pods_down import (
    NO_PODS,
    ClusterPods,
    PodsOutcome,
    WorkloadLeft,
    take_down,
)
from nexusform.planning.vms.sites import demand_for
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Interval
from nexusform.worlds.availability import (
    DrawnRoom,
    PoolLeft,
    Replacement,
    ask_again,
    down_by_cluster,
    place_anew,
    pool_left,
    pools_hit,
)
from nexusform.worlds.world_view import Cluster, OwnerKind, Pool, SiteView

# The node label that Operator Nexus puts on NKS nodes: the machine's name.
MACHINE_LABEL = "topology.kubernetes.io/baremetalmachine"


class FailureScope(StrEnum):
    """What is lost."""

    MACHINE = "machine"
    RACK = "rack"
    CLUSTER = "cluster"
    SITE = "site"


class PoolComeback(Struct, frozen=True):
    """The VMs of one pool that come back; `reason` says why some do not fit, "" when all do."""

    cluster_id: str
    cluster: str
    pool: str
    sku: str
    vms: tuple[Replacement, ...]
    reason: str = ""

    @property
    def missing(self) -> int:
        """VMs that fit nowhere."""
        return sum(vm.place is None for vm in self.vms)


class NodeDeletion(Struct, frozen=True):
    """The command that has a cluster's nodes on lost machines created anew.

    `reachable` is False when the cluster's control plane has lost its quorum and cannot answer.
    """

    cluster_id: str
    cluster: str
    machines: tuple[str, ...]
    nodes: tuple[str, ...]
    reachable: bool

    @property
    def command(self) -> str:
        """To be run against that cluster."""
        if len(self.machines) == 1:
            return f"kubectl delete node -l {MACHINE_LABEL}={self.machines[0]}"
        return f"kubectl delete node -l '{MACHINE_LABEL} in ({','.join(self.machines)})'"


class Failure(Struct, frozen=True):
    """What the loss does. `stay_down` are VMs that wait for their machine: plain VMs and VNFs (with the
    address that places one anew), and those outside nexusform. `workloads` are those that lose pods,
    where pods are known. `comebacks` are those of one draw where NUMA cells are not known, and `drawn` says
    how it is in the others, in their order.
    """

    site_id: str
    scope: FailureScope
    lost: str
    machines: tuple[str, ...]
    pools: tuple[PoolLeft, ...]
    comebacks: tuple[PoolComeback, ...]
    deletions: tuple[NodeDeletion, ...]
    stay_down: tuple[PoolLeft, ...]
    outsiders: tuple[str, ...]
    workloads: tuple[WorkloadLeft, ...] = ()
    drawn: DrawnRoom | None = None

    @property
    def vms(self) -> int:
        """VMs that are down."""
        return sum(len(pool.down) for pool in self.pools) + len(self.outsiders)

    @property
    def missing(self) -> int:
        """VMs that are created anew and fit nowhere, in the draw that is shown."""
        return sum(pool.missing for pool in self.comebacks)

    @property
    def bad(self) -> bool:
        """Whether availability is lost, or something does not certainly fit elsewhere."""
        unsure = self.drawn is not None and not self.drawn.certain
        return (
            unsure or self.missing > 0 or any(pool.lost for pool in self.pools) or bool(self.lost_workloads)
        )

    @property
    def lost_workloads(self) -> tuple[WorkloadLeft, ...]:
        """The workloads of which no pod runs, at once or after replacements."""
        outcomes = [(left, left.outcome(drained=False)) for left in self.workloads]
        return tuple(left for left, outcome in outcomes if outcome is PodsOutcome.LOST)


def lose_machines(
    site: SiteView,
    scope: FailureScope,
    lost: str,
    machines: Sequence[str],
    pods: Mapping[str, ClusterPods] = NO_PODS,
) -> Failure:
    """A machine or a rack is gone; its NKS nodes are deleted, and come back by the rule."""
    names = frozenset(machines)
    pools = pools_hit(site, names)
    scheduler, _ = site.without(names, "lost")
    drawn = _over_draws(site, scheduler, names)
    return Failure(
        site_id=site.id,
        scope=scope,
        lost=lost,
        machines=tuple(machines),
        pools=pools,
        comebacks=tuple(_comebacks(site, scheduler, names)),
        deletions=tuple(_deletions(pools, machines)),
        stay_down=tuple(pool for pool in pools if pool.kind is not OwnerKind.NKS),
        outsiders=tuple(name for machine, name in site.outsiders if machine in names),
        workloads=tuple(_workloads(pools, pods)),
        drawn=drawn,
    )


def lose_cluster(site: SiteView, cluster: Cluster, pods: Mapping[str, ClusterPods] = NO_PODS) -> Failure:
    """All of a cluster is gone; nothing of it comes back by itself."""
    pools = tuple(pool_left(cluster, pool, pool.vms) for pool in cluster.pools if pool.vms)
    workloads = tuple(_workloads(pools, pods))
    return Failure(
        site_id=site.id,
        scope=FailureScope.CLUSTER,
        lost=cluster.id,
        machines=(),
        pools=pools,
        comebacks=(),
        deletions=(),
        stay_down=(),
        outsiders=(),
        workloads=workloads,
    )


def lose_site(site: SiteView, pods: Mapping[str, ClusterPods] = NO_PODS) -> Failure:
    """All of a site is gone."""
    names = frozenset(site.machines)
    pools = pools_hit(site, names)
    outsiders = tuple(name for _, name in site.outsiders)
    workloads = tuple(_workloads(pools, pods))
    return Failure(
        site_id=site.id,
        scope=FailureScope.SITE,
        lost=site.id,
        machines=tuple(site.machines),
        pools=pools,
        comebacks=(),
        deletions=(),
        stay_down=(),
        outsiders=outsiders,
        workloads=workloads,
    )


def _workloads(pools: Sequence[PoolLeft], pods: Mapping[str, ClusterPods]) -> Iterable[WorkloadLeft]:
    """The workloads that lose pods, cluster by cluster; power is lost, nothing is drained."""
    for cluster_id, vms in down_by_cluster(pools).items():
        if cluster_id in pods:
            cluster_pods = pods[cluster_id]
            nodes = {vm.name for vm in vms}
            workloads, _ = take_down(cluster_pods, cluster_pods.standing, nodes, drained=False)
            yield from workloads


def _comebacks(site: SiteView, scheduler: RackScheduler, lost: frozenset[str]) -> Iterable[PoolComeback]:
    """The VMs of NKS clusters that come back elsewhere, pool by pool in order of creation."""
    for cluster, pool, down in _coming_back(site, lost):
        placed = place_anew(scheduler, pool, down)
        reason = placed.shortage.reason if placed.shortage is not None else ""
        yield PoolComeback(cluster.id, cluster.name, pool.name, pool.sku.name, placed.replacements, reason)


def _coming_back(site: SiteView, lost: frozenset[str]) -> Iterable[tuple[Cluster, Pool, Sequence[PlacedVm]]]:
    """The pools of NKS clusters with VMs on lost machines, and these VMs."""
    for cluster in site.clusters:
        if cluster.kind is not OwnerKind.NKS:
            continue
        for pool in cluster.pools:
            down = [vm for vm in pool.vms if vm.placement.machine in lost]
            if down:
                yield cluster, pool, down


def _over_draws(site: SiteView, scheduler: RackScheduler, lost: frozenset[str]) -> DrawnRoom | None:
    """How many VMs find no room elsewhere, over the draws of cells. Where one pool comes back, its VMs are
    all alike, and counting room gives bounds that hold for every split.
    """
    pools = list(_coming_back(site, lost))

    def missing(drawn: RackScheduler) -> list[int]:
        return [comeback.missing for comeback in _comebacks(site, drawn, lost)]

    room = ask_again(scheduler, sum(len(down) for _, _, down in pools), missing)
    if room is None or len(pools) > 1:
        return room
    [(_, pool, down)] = pools
    free = scheduler.count_free(demand_for(pool.owner, pool.demand, down[0].number))
    bounds = Interval(max(0, len(down) - free.most), max(0, len(down) - free.least))
    return replace(room, missing=bounds, pools=(bounds,), exact=True)


def _deletions(pools: Sequence[PoolLeft], machines: Sequence[str]) -> Iterable[NodeDeletion]:
    """Cluster by cluster; control planes that lost their quorum cannot answer."""
    of_clusters = [pool for pool in pools if pool.kind is OwnerKind.NKS]
    names = {pool.cluster_id: pool.cluster for pool in of_clusters}
    silent = {pool.cluster_id for pool in of_clusters if pool.control_plane and pool.lost}
    for cluster_id, down in down_by_cluster(of_clusters).items():
        hit = {vm.placement.machine for vm in down}
        yield NodeDeletion(
            cluster_id,
            names[cluster_id],
            tuple(machine for machine in machines if machine in hit),
            tuple(vm.name for vm in down),
            cluster_id not in silent,
        )
