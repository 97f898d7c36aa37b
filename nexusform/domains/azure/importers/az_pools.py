"""Pool and VM SKU of nodes in exports without these fields. Before API 2024-07 workers have no agentPoolId,
before 2023-07 no vmSkuName. Names of nodes give the pool: those of initial pools are numbered
(`NAME-1a2b3c4d-agentpool1-md-x7k2p`), those of later pools contain the pool's name (`NAME-POOL-md-x7k2p`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.domains.azure.importers.arm_resources import ArmItem, extract_name, normalize_id
from nexusform.domains.azure.importers.az_records import AzCluster, AzPool, AzTaint
from nexusform.scheduling.racks.vms import CONTROL_PLANE, VmSku

_NUMBERED_POOL: Final = re.compile(r"-agentpool(\d{1,3})-md-")
_WORKER_SUFFIX: Final = re.compile(r"-md-[a-z0-9-]+$")
_HASH: Final = re.compile(r"-[0-9a-f]{8}$")
_PUBLISHED_SKU: Final = re.compile(r"NC_([A-Z])(\d{1,3})_(\d{1,4})_v\d+")
# Number of emulator threads by SKU type.
_EMULATOR_VCPUS: Final = dict.fromkeys("PEL", 2)
_DEFAULT_DISK: Final = 300  # GiB: the root disk of every published SKU but the L type
_UNKNOWN_POOL: Final = "workers"
_MAX_NAMES: Final = 4
_SYSTEM: Final = "System"
_MODE_LABEL: Final = ("kubernetes.azure.com/mode", "system")
_REASON_LABEL: Final = "the label of its nodes"
_REASON_MINIMUM: Final = "a cluster has at least one"
_KUBERNETES_DOMAINS: Final = ("kubernetes.io", "k8s.io", "kubernetes.azure.com")


class NodeReading:
    """Node of a cluster's body with reported or derived pool and SKU. `figures`: guest vCPUs, GiB of memory,
    GiB of disk (0: unknown). `machine`: id key of its machine, "" without one.
    """

    __slots__ = ("figures", "is_pool_derived", "item", "machine", "name", "pool", "sku_name")

    def __init__(self, item: ArmItem, name: str, cluster: AzCluster, initial: Sequence[AzPool]) -> None:
        self.item = item
        self.name = name
        self.machine = normalize_id(item.read_text("bareMetalMachineId") or "")
        pool_id = item.read_text("agentPoolId")
        self.pool = _normalize_pool_name_case(extract_name(pool_id), (*cluster.pools, *initial)) if pool_id else ""
        self.is_pool_derived = False
        if not self.pool:
            self.pool = CONTROL_PLANE if _is_control_plane(item, name) else _parse_pool_name(name, cluster, initial)
            self.is_pool_derived = self.pool != CONTROL_PLANE
        self.figures = tuple(item.read_number(key) or 0 for key in ("cpuCores", "memorySizeGB", "diskSizeGB"))
        self.sku_name = (
            item.read_text("vmSkuName")
            or _find_pool_sku(self.pool, cluster)
            or ("size-" + "-".join(str(figure) for figure in self.figures))
        )


class ClusterNodes:
    """Nodes in the body of one cluster. `initial`: its initial pools. `duplicates`: more records, on other machines."""

    __slots__ = ("cluster", "duplicates", "initial", "item", "nodes")

    def __init__(self, item: ArmItem, cluster: AzCluster, initial: Sequence[AzPool]) -> None:
        self.item = item
        self.cluster = cluster
        self.initial = {pool.name: pool for pool in initial}
        by_name: dict[str, list[NodeReading]] = {}
        for node in item.read_objects("nodes"):
            name = node.read_required_text("name")
            if name is not None:
                by_name.setdefault(name, []).append(NodeReading(node, name, cluster, initial))
        self.nodes: list[NodeReading] = []
        self.duplicates: list[NodeReading] = []
        for records in by_name.values():
            first, *further_records = self._merge_duplicate_nodes(records)
            self.nodes.append(first)
            self.duplicates += further_records

    def _merge_duplicate_nodes(self, records: Sequence[NodeReading]) -> list[NodeReading]:
        """Merge the records of one name to one per machine, those without a machine last. Records on one
        machine keep the larger size.
        """
        by_machine: dict[str, NodeReading] = {}
        for record in sorted(records, key=lambda item: not item.machine):
            first = by_machine.setdefault(record.machine, record)
            first.figures = tuple(map(max, zip(first.figures, record.figures, strict=True)))
        placed = [item for machine, item in by_machine.items() if machine]
        if len(records) > 1:
            consequence = f"the capacity on {format_count(len(placed) - 1, 'other machine')} counts as used"
            records[1].item.report(
                "name",
                "duplicate-node",
                f'a node "{records[0].name}" of {self.cluster.name} is listed twice: '
                f"{consequence if len(placed) > 1 else 'it is read once'}.",
                Severity.WARNING,
            )
        return placed or list(records[:1])


def has_worker_pool(cluster: ArmItem) -> bool:
    """Return True if the body of a cluster has nodes of agent pools."""
    return any(
        node.read_text("agentPoolId") or not _is_control_plane(node, node.read_text("name") or "")
        for node in cluster.read_objects("nodes")
    )


def report_unlisted_pools(lists: Iterable[tuple[ClusterNodes, Iterable[AzPool]]]) -> None:
    """Add one warning about nodes of pools missing in the captured list of agent pools."""
    items: dict[str, ArmItem] = {}
    for reading, pools in lists:
        listed_pools = {CONTROL_PLANE, *(pool.name for pool in pools)}
        unlisted = {node.pool: node.item for node in reading.nodes if node.pool not in listed_pools}
        items |= {f"{reading.cluster.name}/{pool}": item for pool, item in unlisted.items()}
    if items:
        pools_are = select_word_form(len(items), "an agent pool", "agent pools")
        next(iter(items.values())).report(
            "agentPoolId",
            "nodes-in-unlisted-pools",
            f"nodes are of {pools_are} not in the captured list of the cluster's agent pools "
            f"({format_first_items(list(items), 4)}): treated as not captured. Capture clusters and agent "
            "pools again at the same time.",
            Severity.WARNING,
        )


def _is_control_plane(item: ArmItem, name: str) -> bool:
    role = item.read_text("role")
    if role is not None:
        return role.lower() == "controlplane"
    return _WORKER_SUFFIX.search(name) is None


def _parse_pool_name(name: str, cluster: AzCluster, initial: Sequence[AzPool]) -> str:
    """Return the pool encoded in a worker's name."""
    text = name.lower()
    match = _NUMBERED_POOL.search(text)
    if match is not None and 1 <= int(match[1]) <= len(initial):
        return initial[int(match[1]) - 1].name
    matching_pools = [pool.name for pool in cluster.pools if f"-{pool.name.lower()}-" in text]
    if matching_pools:
        return max(matching_pools, key=len)
    infix = _WORKER_SUFFIX.sub("", text).removeprefix(f"{cluster.name.lower()}-")
    return _HASH.sub("", infix).strip("-") or _UNKNOWN_POOL


def _normalize_pool_name_case(name: str, pools: Iterable[AzPool]) -> str:
    """Return the name of a pool as in its body; ids ignore case."""
    return next((pool.name for pool in pools if pool.name.lower() == name.lower()), name)


def _find_pool_sku(pool: str, cluster: AzCluster) -> str:
    if pool == CONTROL_PLANE:
        return cluster.control_plane_sku or ""
    return next((candidate.vm_sku_name for candidate in cluster.pools if candidate.name == pool), "")


# --- pools known only from nodes ------------------------------------------------------------------


class DerivedAgentPool(Struct, frozen=True):
    """Pool of a cluster known only from its nodes, with one node as `item`, and the reason for mode System
    ("" for User).
    """

    cluster: str
    pool: AzPool
    item: ArmItem
    system_reason: str = ""


def add_pools_of_nodes(reading: ClusterNodes, derived: list[DerivedAgentPool]) -> tuple[AzPool, ...]:
    """Return the cluster's pools, then pools known only from nodes; the latter are added to `derived`.
    Uncaptured pools get the observed number of nodes, since initial counts may be outdated.
    """
    by_pool: dict[str, list[NodeReading]] = {}
    for node in reading.nodes:
        if node.pool != CONTROL_PLANE:
            by_pool.setdefault(node.pool, []).append(node)
    pools = {pool.name: pool for pool in reading.cluster.pools}
    if not reading.cluster.has_pool_list:
        pools = {name: replace(pool, count=len(by_pool.get(name, ())) or pool.count) for name, pool in pools.items()}
    unlisted = {name: nodes for name, nodes in by_pool.items() if name not in pools}
    for name in [name for name in unlisted if name in reading.initial]:
        pools[name] = replace(reading.initial[name], count=len(unlisted.pop(name)))
    has_system = any(pool.mode == _SYSTEM for pool in pools.values())
    derived_pools = [_derive_pool_from_nodes(nodes, reading.cluster.name) for nodes in unlisted.values()]
    if derived_pools and not has_system and not any(derived_pool.system_reason for derived_pool in derived_pools):
        first = min(
            derived_pools,
            key=lambda derived_pool: (
                _NUMBERED_POOL.search(unlisted[derived_pool.pool.name][0].name.lower()) is None,
                derived_pool.pool.name,
            ),
        )
        derived_pools[derived_pools.index(first)] = _mark_as_system_pool(first, _REASON_MINIMUM)
    derived += derived_pools
    return (*pools.values(), *(derived_pool.pool for derived_pool in derived_pools))


def _derive_pool_from_nodes(nodes: Sequence[NodeReading], cluster: str) -> DerivedAgentPool:
    """Derive a pool from its nodes; labels and taints are those common to all nodes."""
    node = nodes[0]
    labels = set.intersection(*(set(read_agent_pool_labels(derived_pool.item)) for derived_pool in nodes))
    taints = [read_taint(part) for part in node.item.read_objects("taints")]
    other_taints = [
        {read_taint(part) for part in derived_pool.item.read_objects("taints")} for derived_pool in nodes[1:]
    ]
    pool = AzPool(
        name=node.pool,
        id="",
        count=len(nodes),
        vm_sku_name=node.sku_name,
        mode="User",
        labels=tuple(sorted(label for label in labels if not _is_platform_label(label[0]))),
        taints=tuple(taint for taint in taints if all(taint in other for other in other_taints)),
    )
    derived_pool = DerivedAgentPool(cluster, pool, node.item)
    return _mark_as_system_pool(derived_pool, _REASON_LABEL) if _MODE_LABEL in labels else derived_pool


def _mark_as_system_pool(derived_pool: DerivedAgentPool, reason: str) -> DerivedAgentPool:
    return replace(derived_pool, pool=replace(derived_pool.pool, mode=_SYSTEM), system_reason=reason)


def _is_platform_label(key: str) -> bool:
    """Return True for a label set by the platform."""
    domain = key.rpartition("/")[0]
    return domain.endswith(_KUBERNETES_DOMAINS)


def read_agent_pool_labels(item: ArmItem) -> Iterator[tuple[str, str]]:
    """Read the labels of a body, [{"key": "k", "value": "v"}]."""
    for part in item.read_objects("labels"):
        yield part.read_required_text("key") or "", part.read_text("value") or ""


def read_taint(item: ArmItem) -> AzTaint:
    """Read a taint, {"key": "k", "value": "v:NoSchedule"}."""
    value, _, effect = (item.read_text("value") or "").rpartition(":")
    return AzTaint(item.read_required_text("key") or "", value, effect)


def report_derived_pools(readings: Iterable[ClusterNodes], derived: Sequence[DerivedAgentPool]) -> None:
    """Add one warning about pools derived from node names, and one about pools known only from nodes."""
    derived_nodes = [node for reading in readings for node in reading.nodes if node.is_pool_derived]
    if derived_nodes:
        derived_nodes[0].item.report(
            "name",
            "derived-value",
            f"{format_count(len(derived_nodes), 'worker')} without agentPoolId (exports before API "
            "2024-07): the pool is taken from the node name.",
            Severity.WARNING,
        )
    if derived:
        names = format_first_items(
            [f"{derived_pool.cluster}/{derived_pool.pool.name}" for derived_pool in derived], _MAX_NAMES
        )
        system = [
            f"{derived_pool.cluster}/{derived_pool.pool.name} ({derived_pool.system_reason})"
            for derived_pool in derived
            if derived_pool.system_reason
        ]
        modes = f"System for {format_first_items(system, _MAX_NAMES)}, " if system else ""
        other_modes = "User for the others" if system else "User"
        derived[0].item.report(
            "agentPoolId",
            "derived-value",
            f"only nodes are known of {format_count(len(derived), 'agent pool')} ({names}): count, VM "
            "SKU, labels and taints come from nodes; zones count as all, and the mode as "
            f"{modes}{other_modes}.",
            Severity.WARNING,
        )


# --- sizes absent in the catalogue ----------------------------------------------------------------


def find_uncatalogued_vm_skus(readings: Sequence[ClusterNodes], catalogue: Mapping[str, VmSku]) -> list[VmSku]:
    """Find the VM SKUs in use but absent in the catalogue, by name, with the largest size of their nodes or
    else the size in the name. SKUs of unknown size are skipped.
    """
    figures: dict[str, tuple[int, ...]] = {}
    items: dict[str, ArmItem] = {}
    differing: list[str] = []
    for reading in readings:
        for node in reading.nodes:
            items.setdefault(node.sku_name, node.item)
            previous = figures.get(node.sku_name)
            largest = tuple(map(max, zip(previous or node.figures, node.figures, strict=True)))
            if previous is not None and previous != node.figures and node.sku_name not in catalogue:
                differing.append(node.sku_name)
            figures[node.sku_name] = largest
        for name in _list_skus(reading.cluster):
            items.setdefault(name, reading.item)
    uncatalogued = sorted(name for name in items if name not in catalogue)
    skus = [sku for name in uncatalogued if (sku := _infer_vm_sku(name, figures.get(name))) is not None]
    if skus:
        names = format_first_items([sku.name for sku in skus], 6)
        note = (
            (f" (nodes of {format_first_items(sorted(set(differing)), 3)} differ: the largest is used)")
            if differing
            else ""
        )
        items[skus[0].name].report(
            "name",
            "unknown-vm-sku",
            f"{names} is not in the catalogue; the sizes of the nodes are used{note}.",
            Severity.WARNING,
        )
    return skus


def _list_skus(cluster: AzCluster) -> Iterable[str]:
    if cluster.control_plane_sku:
        yield cluster.control_plane_sku
    for pool in cluster.pools:
        yield pool.vm_sku_name


def _infer_vm_sku(name: str, figures: tuple[int, ...] | None) -> VmSku | None:
    """Build a VM SKU from the given size, else from its name; None if neither is known."""
    published = _PUBLISHED_SKU.fullmatch(name)
    kind = published[1] if published else name[3:4] if name.startswith("NC_") else ""
    if figures is None or 0 in figures[:2]:
        if published is None:
            return None
        figures = (int(published[2]), int(published[3]), _DEFAULT_DISK)
    vcpus, memory, disk = figures
    return VmSku(
        name=name,
        vcpus=vcpus,
        emulator_vcpus=_EMULATOR_VCPUS.get(kind, 0),
        memory_gib=memory,
        disk_gib=disk,
        numa_cells=1,
        kind="",
    )
