"""Ownership of the VMs of a site: separate agent pools, and unmanaged VMs as occupied capacity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.azure.importers.az_import import CLUSTER, VIRTUAL_MACHINE, ImportedSiteObject, Reference
from nexusform.domains.azure.importers.az_records import AzSite, AzVmSize
from nexusform.json_data.plain_data import Path

POOL: Final = "nexus_agent_pool"


def extract_pools(objects: Iterable[ImportedSiteObject], pool_ids: AbstractSet[str]) -> Iterator[ImportedSiteObject]:
    """Split these agent pools (`<cluster id>/<pool>`) from their cluster into separate objects after it."""
    for item in objects:
        pools = item.attributes.get("agent_pool") if item.type == CLUSTER else None
        separate_pools = [name for name in pools or {} if f"{item.id}/{name}" in pool_ids]
        yield remove_pools(item, separate_pools) if separate_pools else item
        for name in separate_pools:
            # Build a pool of a cluster as a separate object.
            arguments = dict(item.attributes["agent_pool"][name])
            attributes = {
                "id": f"{item.id}/{name}",
                "kubernetes_cluster_id": item.id,
                "name": name,
                "node_count": arguments.pop("count"),
                **arguments,
                "nodes": {key: node for key, node in item.attributes["nodes"].items() if node["pool"] == name},
            }
            references: dict[Path, Reference] = {("kubernetes_cluster_id",): (CLUSTER, item.id)}
            sku = item.references.get(("agent_pool", name, "vm_sku_name"))
            if sku is not None:
                references["vm_sku_name",] = sku
            yield ImportedSiteObject(POOL, f"{item.id}/{name}", attributes, references)


def remove_pools(cluster: ImportedSiteObject, names: Collection[str]) -> ImportedSiteObject:
    """Return a cluster without these pools and their nodes."""
    attributes = cluster.attributes
    nodes = {key: node for key, node in attributes["nodes"].items() if node["pool"] not in names}
    remaining = {
        "agent_pool": {name: pool for name, pool in attributes["agent_pool"].items() if name not in names},
        "agent_pool_order": [name for name in attributes["agent_pool_order"] if name not in names],
        "nodes": nodes,
        "node_count": len(nodes),
    }
    references = {
        path: target for path, target in cluster.references.items() if path[0] != "agent_pool" or path[1] not in names
    }
    return replace(cluster, attributes={**attributes, **remaining}, references=references)


class UnmanagedAzVm(Struct, frozen=True):
    """VM on a machine without an object in state. `owner` is its cluster, "" for a plain VM."""

    name: str
    machine: str
    shape: AzVmSize
    owner: str = ""


def find_unmanaged_vms(site: AzSite, managed: AbstractSet[Reference]) -> Iterator[UnmanagedAzVm]:
    """Find the VMs of a site without a managed object (type and id). A cluster covers all its nodes, a pool its own."""
    for cluster in site.inventory.clusters:
        cluster_id = f"{site.name}/{cluster.name}"
        if (CLUSTER, cluster_id) in managed:
            continue
        for node in (*cluster.nodes, *cluster.duplicate_nodes):
            if node.placement is not None and (POOL, f"{cluster_id}/{node.pool}") not in managed:
                yield UnmanagedAzVm(node.name, node.placement.machine, node.shape, cluster.name)
    for vm in site.inventory.virtual_machines:
        if vm.placement is not None and (VIRTUAL_MACHINE, f"{site.name}/{vm.name}") not in managed:
            yield UnmanagedAzVm(vm.name, vm.placement.machine, vm.shape)
