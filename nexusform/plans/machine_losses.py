"""Loss of machines: VMs down, and what re-creates each of them, now, later or nowhere.

The platform moves no VM. It re-creates the VM of an NKS node elsewhere once the node is deleted. An
apply re-creates other VMs.
"""

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from nexusform.diagnostics.phrases import group_by
from nexusform.placements.recreations import RecreatedPool
from nexusform.plans.numa_sampling import SampledShortage
from nexusform.plans.site_capacity.occupancy import PoolAvailability, VmOwnerKind


class NodeDeletion(Struct, frozen=True):
    """Nodes of a cluster on lost machines to delete, so that the platform re-creates them.

    The cluster is not reachable (`is_reachable`) if it lost quorum.
    """

    cluster_id: str
    cluster: str
    machines: tuple[str, ...]
    nodes: tuple[str, ...]
    is_reachable: bool


class MachineLoss(Struct, frozen=True, kw_only=True):
    """Effects of the loss of machines of a site.

    `pools` have VMs on them, in order of creation. The platform re-creates the nodes of
    `recreations`. An apply of each of `replacements` re-creates a VM outside of NKS clusters after
    them. Locations are those of one sample if NUMA cells are unknown; `samples` summarizes the
    others of `recreations`, in the same order. `machines_down` are others that are down already;
    their VMs count as down. `unmanaged_vms` return with their machines.
    """

    site_id: str
    machines: tuple[str, ...]
    pools: tuple[PoolAvailability, ...]
    recreations: tuple[RecreatedPool, ...] = ()
    replacements: tuple[RecreatedPool, ...] = ()
    unmanaged_vms: tuple[str, ...] = ()
    samples: SampledShortage | None = None
    machines_down: tuple[str, ...] = ()

    @property
    def vm_count(self) -> int:
        """Number of VMs down."""
        return sum(len(pool.down_vms) for pool in self.pools) + len(self.unmanaged_vms)

    @property
    def missing(self) -> int:
        """Number of nodes without capacity, in the reported sample."""
        return sum(pool.missing for pool in self.recreations)

    @property
    def missing_until_fix(self) -> int:
        """Number of these nodes that have capacity after a tested change."""
        return sum(pool.missing for pool in self.recreations if pool.fixes)

    @property
    def stay_down(self) -> tuple[PoolAvailability, ...]:
        """Pools of VMs that only an apply re-creates."""
        addresses = {pool.address for pool in self.replacements}
        return tuple(
            pool
            for pool in self.pools
            if str(pool.address) in addresses and pool.kind is not VmOwnerKind.NKS
        )

    @property
    def unreachable_ids(self) -> frozenset[str]:
        """Ids of the clusters without quorum: their nodes cannot be deleted."""
        planes = (pool for pool in self.pools if pool.is_control_plane and pool.is_lost)
        return frozenset(pool.cluster_id for pool in planes)

    @property
    def unreachable_clusters(self) -> list[str]:
        """Names of the clusters without quorum."""
        clusters = {pool.cluster for pool in self.pools if pool.cluster_id in self.unreachable_ids}
        return sorted(clusters)

    @property
    def deletions(self) -> tuple[NodeDeletion, ...]:
        """Nodes to delete, by NKS cluster; none if the platform re-creates none."""
        return tuple(self._list_deletions()) if self.recreations else ()

    def _list_deletions(self) -> Iterator[NodeDeletion]:
        nks_pools = [pool for pool in self.pools if pool.kind is VmOwnerKind.NKS]
        for cluster_id, pools in group_by(nks_pools, lambda pool: pool.cluster_id).items():
            down_vms = list(chain.from_iterable(pool.down_vms for pool in pools))
            affected_machines = {vm.placement.machine for vm in down_vms}
            yield NodeDeletion(
                cluster_id=cluster_id,
                cluster=pools[0].cluster,
                machines=tuple(name for name in self.machines if name in affected_machines),
                nodes=tuple(vm.name for vm in down_vms),
                is_reachable=cluster_id not in self.unreachable_ids,
            )
