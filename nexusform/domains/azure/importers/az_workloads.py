"""NKS clusters, agent pools, nodes and plain virtual machines of an export. VMs refer to their machine by ARM
id; az_inventory.py resolves it to a placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.azure.importers.arm_resources import SHAPE, ArmItem, normalize_id
from nexusform.domains.azure.importers.az_pools import (
    ClusterNodes,
    DerivedAgentPool,
    NodeReading,
    add_pools_of_nodes,
    find_uncatalogued_vm_skus,
    has_worker_pool,
    read_agent_pool_labels,
    read_taint,
    report_derived_pools,
    report_unlisted_pools,
)
from nexusform.domains.azure.importers.az_records import AzCluster, AzHint, AzNode, AzPool, AzVirtualMachine, AzVmSize
from nexusform.scheduling.racks.vms import CONTROL_PLANE, VmSku

# Values of the API, the default first.
_PAGE_SIZES: Final = ("2M", "1G")


class ListedVm(Struct, frozen=True):
    """VM with the ARM id of its machine, "" until it is scheduled. `item` locates it in the document for findings."""

    vm: AzNode | AzVirtualMachine
    machine_id: str
    item: ArmItem


def read_creation_time(item: ArmItem) -> str | None:
    """Read the creation time of a resource, RFC 3339."""
    system = item.read_object("systemData")
    return system.read_text("createdAt") if system else None


def read_node_creation_times(items: Iterable[ArmItem]) -> dict[str, str]:
    """Read the creation time of each node in `kubectl get nodes -o json`, RFC 3339, by name."""
    times: dict[str, str] = {}
    for item in items:
        metadata = item.read_object("metadata")
        name = metadata.read_text("name") if metadata else None
        creation_time = metadata.read_text("creationTimestamp") if metadata else None
        if name and creation_time:
            times[name] = creation_time
    return times


def read_agent_pools_by_cluster(items: Iterable[ArmItem]) -> dict[str, list[AzPool]]:
    """Read the agent pools by cluster id key, each list sorted by creation time, then name."""
    by_cluster: dict[str, list[AzPool]] = {}
    for item in items:
        pool_id, count = item.read_required_text("id"), item.read_required_number("count")
        sku = item.read_required_text("vmSkuName")
        if pool_id is None or count is None or sku is None:
            continue
        owner, _, name = pool_id.strip().rstrip("/").rpartition("/")
        cluster_id = owner.rpartition("/")[0]
        if not cluster_id:
            item.report("id", "unexpected-id", f'"{pool_id}" is not the id of an agent pool.')
            continue
        by_cluster.setdefault(normalize_id(cluster_id), []).append(_build_pool(item, name, pool_id, count, sku))
    for pools in by_cluster.values():
        pools.sort(key=lambda pool: (pool.created_at or "", pool.name))
    return by_cluster


def _build_pool(item: ArmItem, name: str, pool_id: str, count: int, sku: str) -> AzPool:
    upgrade, options = item.read_object("upgradeSettings"), item.read_object("agentOptions")
    return AzPool(
        name=item.read_text("name") or name,
        id=pool_id,
        count=count,
        vm_sku_name=sku,
        mode=item.read_text("mode") or "User",
        availability_zones=tuple(sorted(set(item.read_texts("availabilityZones")))),
        labels=tuple(sorted(read_agent_pool_labels(item))),
        taints=tuple(read_taint(part) for part in item.read_objects("taints")),
        max_surge=upgrade.read_text("maxSurge") if upgrade else None,
        max_unavailable=upgrade.read_text("maxUnavailable") if upgrade else None,
        drain_timeout=upgrade.read_number("drainTimeout") if upgrade else None,
        created_at=read_creation_time(item),
        hugepages=_read_hugepages(options) if options else (0, ""),
    )


def _read_hugepages(options: ArmItem) -> tuple[int, str]:
    """Read count and size of hugepages per node."""
    count, size = (options.read_number("hugepagesCount") or 0, options.read_text("hugepagesSize") or _PAGE_SIZES[0])
    if size not in _PAGE_SIZES:
        options.report("hugepagesSize", SHAPE, f'"{size}" is not a page size: use "2M" or "1G".')
        return 0, ""
    return count, size


class AgentPoolsByCluster(Struct, frozen=True):
    """Captured agent pools by cluster id key. `captured_clusters`: names, in lower case, of clusters with a
    file of pools; without entries they have no pools.
    """

    by_cluster: Mapping[str, list[AzPool]]
    captured_clusters: frozenset[str] = frozenset()

    def find_pools(self, cluster_id: str, name: str) -> tuple[AzPool, ...] | None:
        """Return the pools of a cluster, None if not captured."""
        pools = self.by_cluster.get(normalize_id(cluster_id))
        if pools is None and name.lower() not in self.captured_clusters:
            return None
        return tuple(pools or ())


def read_clusters(
    items: Iterable[ArmItem], pools: AgentPoolsByCluster, catalogue: Mapping[str, VmSku]
) -> tuple[list[AzCluster], list[ListedVm], list[VmSku]]:
    """Read the clusters without nodes, all their nodes, and the VM SKUs absent in the catalogue."""
    cluster_readings = list(_read_clusters_with_agent_pools(items, pools))
    readings = [reading for reading, _ in cluster_readings]
    skus = find_uncatalogued_vm_skus(readings, catalogue)
    known_skus = {**catalogue, **{sku.name: sku for sku in skus}}
    clusters: list[AzCluster] = []
    nodes: list[ListedVm] = []
    derived: list[DerivedAgentPool] = []
    for reading in readings:
        cluster = reading.cluster
        nodes += [_build_node(node, cluster.name, known_skus) for node in reading.nodes]
        nodes += [_build_node(node, cluster.name, known_skus, is_duplicate=True) for node in reading.duplicates]
        complete = add_pools_of_nodes(reading, derived)
        counts = (cluster.control_plane_count, *(pool.count for pool in cluster.pools))
        has_node_list = reading.item.read_value("nodes") is not None or not any(counts)
        with_pools = replace(
            cluster, pools=complete, has_pool_list=cluster.has_pool_list or not complete, has_node_list=has_node_list
        )
        clusters.append(with_pools)
    report_derived_pools(readings, derived)
    report_unlisted_pools([(reading, captured) for reading, captured in cluster_readings if captured is not None])
    return clusters, nodes, skus


def _read_clusters_with_agent_pools(
    items: Iterable[ArmItem], pools: AgentPoolsByCluster
) -> Iterator[tuple[ClusterNodes, tuple[AzPool, ...] | None]]:
    """Read every distinct cluster with its captured agent pools (None without a list)."""
    names: set[str] = set()
    for item in items:
        name = item.read_required_text("name")
        if name is None:
            continue
        if name in names:
            item.report("name", "duplicate-cluster", f'the cluster "{name}" is listed twice.')
            continue
        names.add(name)
        cluster_id = item.read_text("id") or name
        captured = pools.find_pools(cluster_id, name)
        pool_list = None if captured == () and has_worker_pool(item) else captured
        # Read the initial pools of a cluster, used if no agent pools were captured.
        initial_pools: list[AzPool] = []
        for pool_item in item.read_objects("initialAgentPoolConfigurations"):
            pool, count, sku = (
                pool_item.read_required_text("name"),
                pool_item.read_required_number("count"),
                pool_item.read_required_text("vmSkuName"),
            )
            if pool is not None and count is not None and sku is not None:
                initial_pools.append(_build_pool(pool_item, pool, "", count, sku))
        initial = tuple(initial_pools)
        cluster = _build_cluster(item, name, cluster_id, initial if pool_list is None else pool_list)
        cluster = replace(cluster, has_pool_list=pool_list is not None)
        yield ClusterNodes(item, cluster, initial), captured


def _build_cluster(item: ArmItem, name: str, cluster_id: str, pools: tuple[AzPool, ...]) -> AzCluster:
    """Build a cluster without its nodes."""
    control = item.read_object("controlPlaneNodeConfiguration")
    return AzCluster(
        name=name,
        id=cluster_id,
        kubernetes_version=item.read_text("kubernetesVersion"),
        control_plane_count=(control.read_number("count") or 0) if control else 0,
        control_plane_sku=control.read_text("vmSkuName") if control else None,
        control_plane_zones=tuple(sorted(set(control.read_texts("availabilityZones")))) if control else (),
        pools=pools,
        nodes=(),
        created_at=read_creation_time(item),
    )


def _build_node(node: NodeReading, cluster: str, skus: Mapping[str, VmSku], *, is_duplicate: bool = False) -> ListedVm:
    """Build a VM from a node and the id of its machine."""
    item = node.item
    vm = AzNode(
        name=f"{node.name} (listed twice)" if is_duplicate else node.name,
        cluster=cluster,
        pool=node.pool,
        role="ControlPlane" if node.pool == CONTROL_PLANE else "Worker",
        vm_sku_name=node.sku_name,
        shape=_compute_node_shape(node, skus),
        placement=None,
        detailed_status=item.read_text("detailedStatus"),
        created_at=item.read_text("createdAt") or read_creation_time(item),
        is_duplicate=is_duplicate,
    )
    return ListedVm(vm, item.read_text("bareMetalMachineId") or "", item)


def _compute_node_shape(node: NodeReading, skus: Mapping[str, VmSku]) -> AzVmSize:
    """Compute the size of a node on its machine: its SKU's with emulator threads, or its own if larger."""
    sku = skus.get(node.sku_name)
    cpus, memory, disk = node.figures
    if sku is None:
        return AzVmSize(cpus, memory, disk, 1)
    if cpus and memory and (cpus, memory) != (sku.vcpus, sku.memory_gib):
        node.item.report(
            "cpuCores" if cpus != sku.vcpus else "memorySizeGB",
            "node-sku-difference",
            f'the node "{node.name}" has {cpus} vCPUs and {memory} GiB, but its VM SKU {sku.name} '
            f"{sku.vcpus} vCPUs and {sku.memory_gib} GiB has other sizes. The larger sizes are used.",
            Severity.WARNING,
        )
    return AzVmSize(
        max(cpus, sku.vcpus) + sku.emulator_vcpus,
        max(memory, ceil(sku.memory_gib)),
        max(disk, sku.disk_gib),
        sku.numa_cells,
    )


def read_virtual_machines(items: Iterable[ArmItem]) -> list[ListedVm]:
    """Read the plain virtual machines."""
    vms = []
    names: set[str] = set()
    for item in items:
        name = item.read_required_text("name")
        cores, memory = item.read_required_number("cpuCores"), item.read_required_number("memorySizeGB")
        if name is None or cores is None or memory is None:
            continue
        if name in names:
            item.report("name", "duplicate-vm", f'the VM "{name}" is listed twice.')
            continue
        names.add(name)
        # The GiB on the machine's own disk; a persistent OS disk is on the storage appliance.
        profile = item.read_object("storageProfile")
        disk = profile.read_object("osDisk") if profile else None
        if disk is None or (disk.read_text("createOption") or "Ephemeral").lower() == "persistent":
            local_disk = 0
        else:
            local_disk = disk.read_number("diskSizeGB") or 0
        vm = AzVirtualMachine(
            name=name,
            id=item.read_text("id") or name,
            shape=AzVmSize(cores, memory, local_disk, 1),
            placement=None,
            hints=tuple(_read_hint(part) for part in item.read_objects("placementHints")),
            created_at=read_creation_time(item),
        )
        vms.append(ListedVm(vm, item.read_text("bareMetalMachineId") or "", item))
    return vms


def _read_hint(item: ArmItem) -> AzHint:
    return AzHint(
        item.read_text("hintType") or "",
        item.read_text("resourceId") or "",
        item.read_text("schedulingExecution") or "",
        item.read_text("scope") or "",
    )
