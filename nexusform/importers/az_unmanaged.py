"""Who stands on the machines of a site without being an object of ours: their room is taken all the same."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from nexusform.importers.az_adoption import CLUSTER, VIRTUAL_MACHINE, Reference
from nexusform.importers.az_model import AzShape, AzSite
from nexusform.importers.az_separate_pools import POOL


class UnmanagedVm(Struct, frozen=True):
    """A VM on a machine. `owner` is the cluster that it is a node of, "" for a plain VM."""

    name: str
    machine: str
    shape: AzShape
    owner: str = ""


def unmanaged_vms(site: AzSite, managed: AbstractSet[Reference]) -> Iterator[UnmanagedVm]:
    """The VMs of a site that none of the managed objects (type and id) stands for: a cluster stands for all
    of its nodes, a pool for its own.
    """
    for cluster in site.inventory.clusters:
        cluster_id = f"{site.name}/{cluster.name}"
        if (CLUSTER, cluster_id) in managed:
            continue
        for node in cluster.nodes:
            if node.placement is not None and (POOL, f"{cluster_id}/{node.pool}") not in managed:
                yield UnmanagedVm(node.name, node.placement.machine, node.shape, cluster.name)
    for vm in site.inventory.virtual_machines:
        if vm.placement is not None and (VIRTUAL_MACHINE, f"{site.name}/{vm.name}") not in managed:
            yield UnmanagedVm(vm.name, vm.placement.machine, vm.shape)
