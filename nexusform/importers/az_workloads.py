"""NKS clusters, agent pools, nodes and plain virtual machines of an export.

Where they stand is a machine's ARM id here; az_cells.py turns it into a placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.diagnostics import Severity
from nexusform.importers.arm import Item, id_key, name_of
from nexusform.importers.az_model import (
    CONTROL_PLANE,
    AzCluster,
    AzHint,
    AzNode,
    AzPool,
    AzShape,
    AzTaint,
    AzVirtualMachine,
)
from nexusform.scheduling.racks.vms import VmSku

OWN_FIGURES: Final = "unknown-vm-sku"


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
        by_cluster.setdefault(id_key(cluster_id), []).append(
            _pool(item, name, pool_id, cluster_id, count, sku)
        )
    for pools in by_cluster.values():
        pools.sort(key=lambda pool: (pool.created_at or "", pool.name))
    return by_cluster


def _pool(item: Item, name: str, pool_id: str, cluster_id: str, count: int, sku: str) -> AzPool:
    upgrade = item.item("upgradeSettings")
    return AzPool(
        name=item.text("name") or name,
        id=pool_id,
        cluster=name_of(cluster_id),
        count=count,
        vm_sku_name=sku,
        mode=item.text("mode") or "User",
        availability_zones=tuple(sorted(set(item.texts("availabilityZones")))),
        labels=tuple(
            sorted((part.needed_text("key") or "", part.text("value") or "") for part in item.items("labels"))
        ),
        taints=tuple(read_taint(part) for part in item.items("taints")),
        max_surge=upgrade.text("maxSurge") if upgrade else None,
        max_unavailable=upgrade.text("maxUnavailable") if upgrade else None,
        drain_timeout=upgrade.whole("drainTimeout") if upgrade else None,
        created_at=created_at(item),
    )


def read_taint(item: Item) -> AzTaint:
    """A taint: {"key": "k", "value": "v:NoSchedule"}."""
    value, _, effect = (item.text("value") or "").rpartition(":")
    return AzTaint(item.needed_text("key") or "", value, effect)


def read_clusters(
    items: Iterable[Item], pools: Mapping[str, list[AzPool]], skus: Mapping[str, VmSku]
) -> tuple[list[AzCluster], list[ListedVm]]:
    """The clusters (without nodes yet) and all their nodes."""
    clusters: list[AzCluster] = []
    nodes: list[ListedVm] = []
    names: set[str] = set()
    for item in items:
        name = item.needed_text("name")
        if name is None:
            continue
        if name in names:
            item.report("name", "duplicate-cluster", f'a cluster "{name}" stands further up already.')
            continue
        names.add(name)
        control = item.item("controlPlaneNodeConfiguration")
        cluster_id = item.text("id") or name
        clusters.append(
            AzCluster(
                name=name,
                id=cluster_id,
                kubernetes_version=item.text("kubernetesVersion"),
                control_plane_count=(control.whole("count") or 0) if control else 0,
                control_plane_sku=control.text("vmSkuName") if control else None,
                control_plane_zones=tuple(sorted(set(control.texts("availabilityZones")))) if control else (),
                pools=tuple(pools.get(id_key(cluster_id), ())),
                nodes=(),
                created_at=created_at(item),
            )
        )
        nodes += _nodes(item, name, skus)
    return clusters, nodes


def _nodes(cluster: Item, cluster_name: str, skus: Mapping[str, VmSku]) -> list[ListedVm]:
    nodes = []
    for item in cluster.items("nodes"):
        name = item.needed_text("name")
        if name is None:
            continue
        sku_name = item.text("vmSkuName")
        pool_id = item.text("agentPoolId")
        role = item.text("role") or ("Worker" if pool_id else "ControlPlane")
        node = AzNode(
            name=name,
            cluster=cluster_name,
            pool=name_of(pool_id) if pool_id else CONTROL_PLANE,
            role=role,
            vm_sku_name=sku_name,
            shape=_node_shape(item, sku_name, skus),
            placement=None,
            detailed_status=item.text("detailedStatus"),
            created_at=item.text("createdAt") or created_at(item),
        )
        nodes.append(ListedVm(node, item.text("bareMetalMachineId") or "", item))
    return nodes


def _node_shape(item: Item, sku_name: str | None, skus: Mapping[str, VmSku]) -> AzShape:
    """What the node takes on its machine: the catalogue's figures, which count emulator threads."""
    sku = skus.get(sku_name or "")
    if sku is not None:
        return AzShape(sku.host_vcpus, sku.memory_gib, sku.disk_gib, sku.numa_cells)
    if sku_name is not None:
        item.report(
            "vmSkuName",
            OWN_FIGURES,
            f'the catalogue does not have "{sku_name}"; the figures of the node itself are used.',
            Severity.WARNING,
        )
    return AzShape(
        item.whole("cpuCores") or 0,
        item.whole("memorySizeGB") or 0,
        item.whole("diskSizeGB") or 0,
        1,
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
