"""NKS clusters, agent pools, nodes and plain virtual machines of an export.

Where they stand is a machine's ARM id here; az_cells.py turns it into a placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.domains.azure.importers.arm import SHAPE, Item, id_key
from nexusform.domains.azure.importers.az_model import (
    AzCluster,
    AzHint,
    AzNode,
    AzPool,
    AzShape,
    AzVirtualMachine,
)
from nexusform.domains.azure.importers.az_pools import (
    ClusterNodes,
    DerivedPool,
    ReadNode,
    pools_with_nodes,
    read_labels,
    read_taint,
    say_derived_pools,
    say_unlisted_pools,
    shows_workers,
    sizes_beyond,
)
from nexusform.scheduling.racks.vms import CONTROL_PLANE, VmSku

# The API's words, the default first.
_PAGE_SIZES: Final = ("2M", "1G")


class ListedVm(Struct, frozen=True):
    """A VM and the id of the machine that the export puts it on, "" while it is not scheduled.

    `item` is the place in the document, for findings.
    """

    vm: AzNode | AzVirtualMachine
    machine_id: str
    item: Item


def created_at(item: Item) -> str | None:
    """When the platform says that the resource was made, RFC 3339."""
    system = item.item("systemData")
    return system.text("createdAt") if system else None


def node_creation_times(items: Iterable[Item]) -> dict[str, str]:
    """When each node of `kubectl get nodes -o json` was made, RFC 3339, by its name."""
    times: dict[str, str] = {}
    for item in items:
        metadata = item.item("metadata")
        name = metadata.text("name") if metadata else None
        created = metadata.text("creationTimestamp") if metadata else None
        if name and created:
            times[name] = created
    return times


def read_pools(items: Iterable[Item]) -> dict[str, list[AzPool]]:
    """The agent pools by the id key of their cluster, each list in order of creation, then name."""
    by_cluster: dict[str, list[AzPool]] = {}
    for item in items:
        pool_id, count = item.needed_text("id"), item.needed_whole("count")
        sku = item.needed_text("vmSkuName")
        if pool_id is None or count is None or sku is None:
            continue
        owner, _, name = pool_id.strip().rstrip("/").rpartition("/")
        cluster_id = owner.rpartition("/")[0]
        if not cluster_id:
            item.report("id", "unexpected-id", f'"{pool_id}" is not the id of an agent pool.')
            continue
        by_cluster.setdefault(id_key(cluster_id), []).append(_pool(item, name, pool_id, count, sku))
    for pools in by_cluster.values():
        pools.sort(key=lambda pool: (pool.created_at or "", pool.name))
    return by_cluster


def _pool(item: Item, name: str, pool_id: str, count: int, sku: str) -> AzPool:
    """An agent pool that was read."""
    upgrade, options = item.item("upgradeSettings"), item.item("agentOptions")
    return AzPool(
        name=item.text("name") or name,
        id=pool_id,
        count=count,
        vm_sku_name=sku,
        mode=item.text("mode") or "User",
        availability_zones=tuple(sorted(set(item.texts("availabilityZones")))),
        labels=tuple(sorted(read_labels(item))),
        taints=tuple(read_taint(part) for part in item.items("taints")),
        max_surge=upgrade.text("maxSurge") if upgrade else None,
        max_unavailable=upgrade.text("maxUnavailable") if upgrade else None,
        drain_timeout=upgrade.whole("drainTimeout") if upgrade else None,
        created_at=created_at(item),
        hugepages=_hugepages(options) if options else (0, ""),
    )


def _hugepages(options: Item) -> tuple[int, str]:
    count, size = options.whole("hugepagesCount") or 0, options.text("hugepagesSize") or _PAGE_SIZES[0]
    if size not in _PAGE_SIZES:
        options.report("hugepagesSize", SHAPE, f'"{size}" is no size of pages: "2M" or "1G".')
        return 0, ""
    return count, size


class PoolLists(Struct, frozen=True):
    """The agent pools that were captured, by the id key of their cluster, and the clusters of which a file of
    its own says so (by name, in lower case): without pools in it they have none.
    """

    by_cluster: Mapping[str, list[AzPool]]
    captured: frozenset[str] = frozenset()

    def of(self, cluster_id: str, name: str) -> tuple[AzPool, ...] | None:
        """The pools of a cluster, None where they were not captured."""
        pools = self.by_cluster.get(id_key(cluster_id))
        if pools is None and name.lower() not in self.captured:
            return None
        return tuple(pools or ())


def read_clusters(
    items: Iterable[Item], pools: PoolLists, catalogue: Mapping[str, VmSku]
) -> tuple[list[AzCluster], list[ListedVm], list[VmSku]]:
    """The clusters (without nodes yet), all their nodes, and the VM SKUs that the catalogue lacks."""
    read = list(_each_cluster(items, pools))
    readings = [reading for reading, _ in read]
    skus = sizes_beyond(readings, catalogue)
    known = {**catalogue, **{sku.name: sku for sku in skus}}
    clusters: list[AzCluster] = []
    nodes: list[ListedVm] = []
    derived: list[DerivedPool] = []
    for reading in readings:
        cluster = reading.cluster
        nodes += [_node(node, cluster.name, known) for node in reading.nodes]
        nodes += [_node(node, cluster.name, known, is_second=True) for node in reading.seconds]
        pools_after = pools_with_nodes(reading, derived)
        with_pools = replace(
            cluster,
            pools=pools_after,
            pools_listed=cluster.pools_listed or not pools_after,
            nodes_listed=_tells_nodes(reading.item, cluster),
        )
        clusters.append(with_pools)
    say_derived_pools(readings, derived)
    say_unlisted_pools([(reading, captured) for reading, captured in read if captured is not None])
    return clusters, nodes, skus


def _each_cluster(
    items: Iterable[Item], pools: PoolLists
) -> Iterator[tuple[ClusterNodes, tuple[AzPool, ...] | None]]:
    """Every cluster once, with the agent pools that were captured of it (None: no list was)."""
    names: set[str] = set()
    for item in items:
        name = item.needed_text("name")
        if name is None:
            continue
        if name in names:
            item.report("name", "duplicate-cluster", f'a cluster "{name}" stands further up already.')
            continue
        names.add(name)
        cluster_id = item.text("id") or name
        captured = pools.of(cluster_id, name)
        listed = None if captured == () and shows_workers(item) else captured
        initial = tuple(_initial_pools(item))
        cluster = _cluster(item, name, cluster_id, initial if listed is None else listed)
        cluster = replace(cluster, pools_listed=listed is not None)
        yield ClusterNodes(item, cluster, initial), captured


def _tells_nodes(item: Item, cluster: AzCluster) -> bool:
    """Whether a cluster's body says which nodes there are: an empty list does, and so do counts of 0."""
    counts = (cluster.control_plane_count, *(pool.count for pool in cluster.pools))
    return item.value("nodes") is not None or not any(counts)


def _cluster(item: Item, name: str, cluster_id: str, pools: tuple[AzPool, ...]) -> AzCluster:
    """A cluster that was read, without its nodes yet."""
    control = item.item("controlPlaneNodeConfiguration")
    return AzCluster(
        name=name,
        id=cluster_id,
        kubernetes_version=item.text("kubernetesVersion"),
        control_plane_count=(control.whole("count") or 0) if control else 0,
        control_plane_sku=control.text("vmSkuName") if control else None,
        control_plane_zones=tuple(sorted(set(control.texts("availabilityZones")))) if control else (),
        pools=pools,
        nodes=(),
        created_at=created_at(item),
        upgrades=tuple(
            version for one in item.items("availableUpgrades") if (version := one.text("version")) is not None
        ),
    )


def _initial_pools(cluster: Item) -> Iterator[AzPool]:
    """The pools that a cluster was made with: what stands where no list of agent pools was captured."""
    for item in cluster.items("initialAgentPoolConfigurations"):
        pool, count, sku = item.needed_text("name"), item.needed_whole("count"), item.needed_text("vmSkuName")
        if pool is not None and count is not None and sku is not None:
            yield _pool(item, pool, "", count, sku)


def _node(node: ReadNode, cluster: str, skus: Mapping[str, VmSku], *, is_second: bool = False) -> ListedVm:
    """A node that was read, as a VM on the machine that it names."""
    item = node.item
    vm = AzNode(
        name=f"{node.name} (stands twice)" if is_second else node.name,
        cluster=cluster,
        pool=node.pool,
        role="ControlPlane" if node.pool == CONTROL_PLANE else "Worker",
        vm_sku_name=node.sku_name,
        shape=_node_shape(node, skus),
        placement=None,
        detailed_status=item.text("detailedStatus"),
        created_at=item.text("createdAt") or created_at(item),
        is_second=is_second,
    )
    return ListedVm(vm, item.text("bareMetalMachineId") or "", item)


def _node_shape(node: ReadNode, skus: Mapping[str, VmSku]) -> AzShape:
    """What the node takes on its machine: its SKU's figures, which count emulator threads, or its own where
    these are larger.
    """
    sku = skus.get(node.sku_name)
    cpus, memory, disk = node.figures
    if sku is None:
        return AzShape(cpus, memory, disk, 1)
    if cpus and memory and (cpus, memory) != (sku.vcpus, sku.memory_gib):
        node.item.report(
            "cpuCores" if cpus != sku.vcpus else "memorySizeGB",
            "node-differs-from-its-vm-sku",
            f'the node "{node.name}" has {cpus} vCPUs and {memory} GiB, and its VM SKU {sku.name} '
            f"{sku.vcpus} vCPUs and {sku.memory_gib} GiB. The larger figures are counted.",
            Severity.WARNING,
        )
    return AzShape(
        max(cpus, sku.vcpus) + sku.emulator_vcpus,
        max(memory, ceil(sku.memory_gib)),
        max(disk, sku.disk_gib),
        sku.numa_cells,
    )


def read_virtual_machines(items: Iterable[Item]) -> list[ListedVm]:
    """The plain virtual machines."""
    vms = []
    names: set[str] = set()
    for item in items:
        name = item.needed_text("name")
        cores, memory = item.needed_whole("cpuCores"), item.needed_whole("memorySizeGB")
        if name is None or cores is None or memory is None:
            continue
        if name in names:
            item.report("name", "duplicate-vm", f'a VM "{name}" stands further up already.')
            continue
        names.add(name)
        vm = AzVirtualMachine(
            name=name,
            id=item.text("id") or name,
            shape=AzShape(cores, memory, _disk_on_machine(item), 1),
            placement=None,
            hints=tuple(_hint(part) for part in item.items("placementHints")),
            created_at=created_at(item),
        )
        vms.append(ListedVm(vm, item.text("bareMetalMachineId") or "", item))
    return vms


def _disk_on_machine(item: Item) -> int:
    """GiB of the machine's own disk: a persistent OS disk lives on the storage appliance."""
    profile = item.item("storageProfile")
    disk = profile.item("osDisk") if profile else None
    if disk is None or (disk.text("createOption") or "Ephemeral").lower() == "persistent":
        return 0
    return disk.whole("diskSizeGB") or 0


def _hint(item: Item) -> AzHint:
    return AzHint(
        item.text("hintType") or "",
        item.text("resourceId") or "",
        item.text("schedulingExecution") or "",
        item.text("scope") or "",
    )
