"""Whose the VMs of a site are: of pools that are objects of their own, though a site shows each in its
cluster; or of no object of ours, and then their room is taken all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.azure.importers.az_adoption import CLUSTER, VIRTUAL_MACHINE, AdoptedObject, Reference
from nexusform.domains.azure.importers.az_model import AzShape, AzSite
from nexusform.plain_data import Path

POOL: Final = "nexus_agent_pool"


def with_pools_apart(objects: Iterable[AdoptedObject], pool_ids: AbstractSet[str]) -> Iterator[AdoptedObject]:
    """The objects, with these agent pools (`<cluster id>/<pool>`) as objects of their own after the cluster
    in which the site shows them, not as parts of it.
    """
    for one in objects:
        pools = one.attributes.get("agent_pool") if one.type == CLUSTER else None
        apart = [name for name in pools or {} if f"{one.id}/{name}" in pool_ids]
        yield without_pools(one, apart) if apart else one
        for name in apart:
            yield _pool_apart(one, name)


def without_pools(cluster: AdoptedObject, names: Collection[str]) -> AdoptedObject:
    """A cluster without these pools and their nodes."""
    attributes = cluster.attributes
    nodes = {key: node for key, node in attributes["nodes"].items() if node["pool"] not in names}
    rest = {
        "agent_pool": {name: pool for name, pool in attributes["agent_pool"].items() if name not in names},
        "agent_pool_order": [name for name in attributes["agent_pool_order"] if name not in names],
        "nodes": nodes,
        "node_count": len(nodes),
    }
    refers = {
        path: target
        for path, target in cluster.refers.items()
        if path[0] != "agent_pool" or path[1] not in names
    }
    return replace(cluster, attributes={**attributes, **rest}, refers=refers)


def _pool_apart(cluster: AdoptedObject, name: str) -> AdoptedObject:
    """A pool of a cluster as an object of its own."""
    arguments = dict(cluster.attributes["agent_pool"][name])
    attributes = {
        "id": f"{cluster.id}/{name}",
        "kubernetes_cluster_id": cluster.id,
        "name": name,
        "node_count": arguments.pop("count"),
        **arguments,
        "nodes": {key: node for key, node in cluster.attributes["nodes"].items() if node["pool"] == name},
    }
    refers: dict[Path, Reference] = {("kubernetes_cluster_id",): (CLUSTER, cluster.id)}
    sku = cluster.refers.get(("agent_pool", name, "vm_sku_name"))
    if sku is not None:
        refers["vm_sku_name",] = sku
    return AdoptedObject(POOL, f"{cluster.id}/{name}", attributes, refers)


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
        for node in (*cluster.nodes, *cluster.seconds):
            if node.placement is not None and (POOL, f"{cluster_id}/{node.pool}") not in managed:
                yield UnmanagedVm(node.name, node.placement.machine, node.shape, cluster.name)
    for vm in site.inventory.virtual_machines:
        if vm.placement is not None and (VIRTUAL_MACHINE, f"{site.name}/{vm.name}") not in managed:
            yield UnmanagedVm(vm.name, vm.placement.machine, vm.shape)
