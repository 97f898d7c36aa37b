"""NKS clusters, agent pools, nodes and plain virtual machines of an export.

VMs refer to their machine by ARM id; az_inventory.py resolves it to a placement. Before API 2024-07
workers have no agentPoolId, before 2023-07 no vmSkuName. Names of nodes give the pool: those of
initial pools are numbered (`NAME-1a2b3c4d-agentpool1-md-x7k2p`), those of later pools contain the
pool's name (`NAME-POOL-md-x7k2p`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import ceil
from operator import attrgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_first_items,
    group_by,
    select_word_form,
)
from nexusform.domains.azure.importers.arm_resources import (
    SHAPE,
    ArmItem,
    extract_name,
    iterate_named_items,
    iterate_unique_items,
    normalize_id,
    report_duplicate,
)
from nexusform.domains.azure.importers.az_records import (
    AzCluster,
    AzHint,
    AzNode,
    AzPool,
    AzTaint,
    AzVirtualMachine,
    AzVmSize,
    format_names,
)
from nexusform.domains.azure.importers.azure_fields import normalize_value
from nexusform.scheduling.racks.vms import CONTROL_PLANE, VmSku

_NUMBERED_POOL: Final = re.compile(r"-agentpool(\d{1,3})-md-")
_WORKER_SUFFIX: Final = re.compile(r"-md-[a-z0-9-]+$")
_HASH: Final = re.compile(r"-[0-9a-f]{8}$")
_PUBLISHED_SKU: Final = re.compile(r"NC_([A-Z])(\d{1,3})_(\d{1,4})_v\d+")
# Number of emulator threads by SKU type.
_EMULATOR_VCPUS: Final = dict.fromkeys("PEL", 2)
# GiB: the root disk of every published SKU but the L type.
_DEFAULT_DISK: Final = 300
_UNKNOWN_POOL: Final = "workers"
_MAX_NAMES: Final = 4
_SYSTEM: Final = "System"
_MODE_LABEL: Final = ("kubernetes.azure.com/mode", "system")
_REASON_LABEL: Final = "the label of its nodes"
_REASON_MINIMUM: Final = "a cluster has at least one"
# Of labels set by the platform.
_PLATFORM_DOMAINS: Final = ("kubernetes.io", "k8s.io", "kubernetes.azure.com")
_HINT_VALUES: Final = {
    "hintType": ("Affinity", "AntiAffinity"),
    "schedulingExecution": ("Hard", "Soft"),
    "scope": ("Machine", "Rack"),
}
# Values of the API, the default first.
_PAGE_SIZES: Final = ("2M", "1G")


class NodeReading:
    """Node of a cluster's body with reported or derived pool and SKU.

    `figures` are guest vCPUs, GiB of memory and GiB of disk (0: unknown). `machine` is the
    lower-case id of its machine, "" without one.
    """

    __slots__ = ("figures", "is_pool_derived", "item", "machine", "name", "pool", "sku_name")

    def __init__(
        self, item: ArmItem, name: str, cluster: AzCluster, initial: Sequence[AzPool]
    ) -> None:
        """Read a node (`item`), with missing values derived.

        `initial` are the pools in the creation of its cluster.
        """
        self.item = item
        self.name = name
        self.machine = normalize_id(item.read_text("bareMetalMachineId", ""))
        pool_name = extract_name(item.read_text("agentPoolId"))
        known_names = (pool.name for pool in (*cluster.pools, *initial))
        # Ids ignore case: take the name as in the body of the pool.
        self.pool = next(
            (name for name in known_names if name.lower() == pool_name.lower()), pool_name
        )
        # True: derived from the name of the node.
        self.is_pool_derived = False
        if not self.pool and _is_control_plane(item, name):
            self.pool = CONTROL_PLANE
        elif not self.pool:
            # A worker exported before API 2024-07.
            self.pool = _parse_pool_name(name, cluster, initial)
            self.is_pool_derived = self.pool != CONTROL_PLANE
        self.figures = tuple(
            item.read_number(key, 0) for key in ("cpuCores", "memorySizeGB", "diskSizeGB")
        )
        pool_sku = cluster.control_plane_sku
        if self.pool != CONTROL_PLANE:
            pool_sku = next(
                (pool.vm_sku_name for pool in cluster.pools if pool.name == self.pool), None
            )
        # A node without a SKU has a made-up one.
        size_name = "size-" + "-".join(map(str, self.figures))
        self.sku_name = item.read_text("vmSkuName") or pool_sku or size_name


class ClusterNodes:
    """Nodes in the body of one cluster.

    `initial` are the pools in its initialAgentPoolConfigurations. `nodes` has one record per node
    name; `duplicates` has more records of these names, on other machines.
    """

    __slots__ = ("cluster", "duplicates", "initial", "item", "nodes")

    def __init__(self, item: ArmItem, cluster: AzCluster, initial: Sequence[AzPool]) -> None:
        """Read the nodes in the body of a cluster (`item`).

        `initial` are the pools in its initialAgentPoolConfigurations.
        """
        self.item = item
        self.cluster = cluster
        self.initial = {pool.name: pool for pool in initial}
        by_name: dict[str, list[NodeReading]] = {}
        for name, node in iterate_named_items(item.read_objects("nodes")):
            by_name.setdefault(name, []).append(NodeReading(node, name, cluster, initial))
        self.nodes: list[NodeReading] = []
        # Further records of a node name, on other machines.
        self.duplicates: list[NodeReading] = []
        for records in by_name.values():
            first, *further_records = self._merge_duplicate_nodes(records)
            self.nodes.append(first)
            self.duplicates += further_records

    def _merge_duplicate_nodes(self, records: Sequence[NodeReading]) -> list[NodeReading]:
        """Merge the records of one node name to one per machine, with the largest sizes.

        Report several records. Records without a machine are dropped if another has one; else one
        of them is kept.
        """
        by_machine: dict[str, NodeReading] = {}
        # With a machine first.
        for record in sorted(records, key=lambda item: not item.machine):
            first = by_machine.setdefault(record.machine, record)
            first.figures = tuple(
                max(pair) for pair in zip(first.figures, record.figures, strict=True)
            )
        placed = [record for machine, record in by_machine.items() if machine]
        # The second record reports it.
        if len(records) > 1:
            consequence = "it is read once"
            if len(placed) > 1:
                consequence = (
                    f"the capacity on {format_count(len(placed) - 1, 'other machine')} counts as "
                    "used"
                )
            records[1].item.report(
                "name",
                "duplicate-node",
                (
                    f'a node "{records[0].name}" of {self.cluster.name} is listed twice: '
                    f"{consequence}."
                ),
                Severity.WARNING,
            )
        return placed or list(records[:1])


def _is_worker(node: ArmItem) -> bool:
    """Return True for a node of an agent pool, False for one of the control plane."""
    return bool(node.read_text("agentPoolId")) or not _is_control_plane(
        node, node.read_text("name", "")
    )


def report_unlisted_pools(clusters: Iterable[tuple[ClusterNodes, Iterable[AzPool]]]) -> None:
    """Add one warning about pools missing in the captured agent pools of their cluster.

    The nodes of these pools were captured.
    """
    # One node of each, by CLUSTER/POOL.
    unlisted_pools: dict[str, ArmItem] = {}
    for reading, captured_pools in clusters:
        pools = {CONTROL_PLANE, *(pool.name for pool in captured_pools)}
        unlisted_nodes = {node.pool: node.item for node in reading.nodes if node.pool not in pools}
        unlisted_pools |= {
            f"{reading.cluster.name}/{pool}": node for pool, node in unlisted_nodes.items()
        }
    if unlisted_pools:
        noun = select_word_form(len(unlisted_pools), "an agent pool", "agent pools")
        next(iter(unlisted_pools.values())).report(
            "agentPoolId",
            "nodes-in-unlisted-pools",
            f"nodes are of {noun} not in the captured list of the cluster's agent pools "
            f"({format_first_items(list(unlisted_pools), 4)}): treated as not captured. Capture "
            "clusters and agent "
            "pools again at the same time.",
            Severity.WARNING,
        )


def _is_control_plane(item: ArmItem, name: str) -> bool:
    """Return True for a node of the control plane.

    By its role, or else by its name (workers have `-md-` in theirs).
    """
    # Older exports lack it.
    role = item.read_text("role")
    return (
        role.lower() == "controlplane" if role is not None else _WORKER_SUFFIX.search(name) is None
    )


def _parse_pool_name(name: str, cluster: AzCluster, initial: Sequence[AzPool]) -> str:
    """Return the pool in a worker's name.

    The pool has a number (`-agentpool2-md-`: the second initial pool), else it is the longest known
    name in it, else the text between cluster name and hash.
    """
    text = name.lower()
    match = _NUMBERED_POOL.search(text)
    # The initial pools are numbered from 1.
    number = int(match[1]) if match is not None else 0
    if 1 <= number <= len(initial):
        return initial[number - 1].name
    matching_pools = [pool.name for pool in cluster.pools if f"-{pool.name.lower()}-" in text]
    if matching_pools:
        return max(matching_pools, key=len)
    # CLUSTER-POOL-HASH-md-SUFFIX without cluster, hash and suffix.
    infix = _WORKER_SUFFIX.sub("", text).removeprefix(f"{cluster.name.lower()}-")
    return _HASH.sub("", infix).strip("-") or _UNKNOWN_POOL


class DerivedAgentPool(Struct, frozen=True):
    """Pool known only from its nodes, with one of them as `item`, and the reason for mode System.

    The reason is "" for mode User. With `is_numbered`, its nodes are named like those
    of initial pools.
    """

    cluster: str
    pool: AzPool
    item: ArmItem
    is_numbered: bool
    system_reason: str = ""

    @property
    def title(self) -> str:
        """Cluster and pool, for messages."""
        return f"{self.cluster}/{self.pool.name}"


def complete_pools(reading: ClusterNodes) -> tuple[tuple[AzPool, ...], list[DerivedAgentPool]]:
    """Return all pools of a cluster.

    The second list repeats those known only from their nodes. Without a captured list, a pool
    counts its observed nodes, since its initial count may be outdated. A cluster needs a pool of
    mode System. If none is known, one of the derived pools gets this mode.
    """
    by_pool = group_by(reading.nodes, attrgetter("pool"))
    by_pool.pop(CONTROL_PLANE, None)
    pools = {pool.name: pool for pool in reading.cluster.pools}
    derived_pools: list[DerivedAgentPool] = []
    for name, nodes in by_pool.items():
        known_pool = pools.get(name) or reading.initial.get(name)
        if known_pool is None:
            derived_pools.append(_derive_pool_from_nodes(nodes, reading.cluster.name))
        elif name not in pools or not reading.cluster.has_pool_list:
            pools[name] = replace(known_pool, count=len(nodes))
    modes = {pool.mode for pool in pools.values()}
    modes.update(derived.pool.mode for derived in derived_pools)
    if derived_pools and _SYSTEM not in modes:
        # Prefer a pool with nodes named like those of initial pools, then the first by name.
        first = min(derived_pools, key=lambda derived: (not derived.is_numbered, derived.pool.name))
        system_pool = replace(first.pool, mode=_SYSTEM)
        index = derived_pools.index(first)
        derived_pools[index] = replace(first, pool=system_pool, system_reason=_REASON_MINIMUM)
    return (*pools.values(), *(derived.pool for derived in derived_pools)), derived_pools


def _derive_pool_from_nodes(nodes: Sequence[NodeReading], cluster: str) -> DerivedAgentPool:
    """Derive a pool from its nodes; labels and taints are those common to all nodes."""
    first = nodes[0]
    labels = set.intersection(*(set(read_agent_pool_labels(node.item)) for node in nodes))
    common_taints = set.intersection(*(set(read_taints(node.item)) for node in nodes))
    user_labels: list[tuple[str, str]] = []
    for key, value in labels:
        # "" for a key without one.
        domain = key.rpartition("/")[0]
        if not domain.endswith(_PLATFORM_DOMAINS):
            user_labels.append((key, value))
    pool = AzPool(
        name=first.pool,
        id="",
        count=len(nodes),
        vm_sku_name=first.sku_name,
        mode="User",
        labels=tuple(sorted(user_labels)),
        taints=tuple(taint for taint in read_taints(first.item) if taint in common_taints),
    )
    # The first node is named as one of an initial pool.
    is_numbered = _NUMBERED_POOL.search(first.name.lower()) is not None
    if _MODE_LABEL in labels:
        system_pool = replace(pool, mode=_SYSTEM)
        return DerivedAgentPool(cluster, system_pool, first.item, is_numbered, _REASON_LABEL)
    return DerivedAgentPool(cluster, pool, first.item, is_numbered)


def read_agent_pool_labels(item: ArmItem) -> Iterator[tuple[str, str]]:
    """Read the labels of a body, [{"key": "k", "value": "v"}]."""
    for part in item.read_objects("labels"):
        yield part.read_required_text("key") or "", part.read_text("value", "")


def read_taints(item: ArmItem) -> Iterator[AzTaint]:
    """Read the taints of a body, [{"key": "k", "value": "v:NoSchedule"}]."""
    for part in item.read_objects("taints"):
        value, _, effect = part.read_text("value", "").rpartition(":")
        yield AzTaint(part.read_required_text("key") or "", value, effect)


def report_derived_pools(
    readings: Iterable[ClusterNodes], derived: Sequence[DerivedAgentPool]
) -> None:
    """Add the warnings about pools that are not captured themselves.

    One is about pools derived from node names, one about pools known only from nodes (`derived`).
    """
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
        names = format_first_items([item.title for item in derived], _MAX_NAMES)
        system = [f"{item.title} ({item.system_reason})" for item in derived if item.system_reason]
        modes = enclose("System for ", format_first_items(system, _MAX_NAMES), ", ")
        other_modes = "User for the others" if system else "User"
        derived[0].item.report(
            "agentPoolId",
            "derived-value",
            f"only nodes are known of {format_count(len(derived), 'agent pool')} ({names}): "
            "count, VM SKU, labels and "
            f"taints come from nodes; zones count as all, and the mode as {modes}{other_modes}.",
            Severity.WARNING,
        )


def find_uncatalogued_vm_skus(
    readings: Sequence[ClusterNodes], catalogue: Mapping[str, VmSku]
) -> list[VmSku]:
    """Find the VM SKUs in use but absent in the catalogue, sorted by name.

    They are reported in one warning. A SKU has the largest size of its nodes, or without nodes the
    size in its name. SKUs of unknown size are left out.
    """
    # Sizes of nodes (vCPUs, memory and disk) by SKU.
    sizes: dict[str, set[tuple[int, ...]]] = {}
    # Node or cluster by SKU.
    first_uses: dict[str, ArmItem] = {}
    for reading in readings:
        for node in reading.nodes:
            first_uses.setdefault(node.sku_name, node.item)
            sizes.setdefault(node.sku_name, set()).add(node.figures)
        if reading.cluster.control_plane_sku is not None:
            first_uses.setdefault(reading.cluster.control_plane_sku, reading.item)
        for pool in reading.cluster.pools:
            first_uses.setdefault(pool.vm_sku_name, reading.item)
    uncatalogued = sorted(name for name in first_uses if name not in catalogue)
    largest_sizes = {
        name: tuple(max(column) for column in zip(*figures, strict=True))
        for name, figures in sizes.items()
    }
    inferred_skus = (_infer_vm_sku(name, largest_sizes.get(name)) for name in uncatalogued)
    # None: of unknown size.
    skus = [sku for sku in inferred_skus if sku is not None]
    if skus:
        names = format_names(skus, 6)
        differing = [name for name in uncatalogued if len(sizes.get(name, ())) > 1]
        note = enclose(
            " (nodes of ", format_first_items(differing, 3), " differ: the largest is used)"
        )
        first_uses[skus[0].name].report(
            "name",
            "unknown-vm-sku",
            f"{names} is not in the catalogue; the sizes of the nodes are used{note}.",
            Severity.WARNING,
        )
    return skus


def _infer_vm_sku(name: str, figures: tuple[int, ...] | None) -> VmSku | None:
    """Build a VM SKU from the given size (vCPUs, GiB of memory and disk), else from its name.

    Return None if its size is unknown. An unknown disk (0) is that of published SKUs if the name is
    of their form.
    """
    published = _PUBLISHED_SKU.fullmatch(name)
    # The P of NC_P46_224_v1.
    sku_type = name[3:4] if name.startswith("NC_") else ""
    # The vCPUs or the memory are unknown.
    if figures is None or 0 in figures[:2]:
        if published is None:
            return None
        # NC_P46_224_v1: 46 vCPUs, 224 GiB.
        figures = (int(published[2]), int(published[3]), _DEFAULT_DISK)
    vcpus, memory, disk = figures
    if published is not None:
        disk = disk or _DEFAULT_DISK
    return VmSku(
        name=name,
        vcpus=vcpus,
        emulator_vcpus=_EMULATOR_VCPUS.get(sku_type, 0),
        memory_gib=memory,
        disk_gib=disk,
        numa_cells=1,
        kind="",
    )


class ListedVm(Struct, frozen=True):
    """VM with the ARM id of its machine, "" until it is scheduled.

    `item` locates it in the document for findings.
    """

    vm: AzNode | AzVirtualMachine
    machine_id: str
    item: ArmItem


def read_creation_time(item: ArmItem) -> str:
    """Read the creation time of a resource, RFC 3339, "" if unknown."""
    return item.read_object_or_empty("systemData").read_text("createdAt", "")


def read_node_creation_times(items: Iterable[ArmItem]) -> dict[str, str]:
    """Read the creation time of each node in `kubectl get nodes -o json`, RFC 3339, by name."""
    times: dict[str, str] = {}
    for item in items:
        metadata = item.read_object_or_empty("metadata")
        name = metadata.read_text("name")
        creation_time = metadata.read_text("creationTimestamp")
        if name and creation_time:
            times[name] = creation_time
    return times


def read_agent_pools_by_cluster(items: Iterable[ArmItem]) -> dict[str, list[AzPool]]:
    """Read the agent pools by lower-case cluster id; report a second pool of the same id.

    Each list is sorted by creation time, then name.
    """
    by_cluster: dict[str, list[AzPool]] = {}
    first_items: dict[str, ArmItem] = {}
    for item in items:
        pool_id = item.read_required_text("id")
        count = item.read_required_number("count")
        sku = item.read_required_text("vmSkuName")
        if pool_id is None or count is None or sku is None:
            continue  # reported above
        owner, _, name = pool_id.strip().rstrip("/").rpartition("/")
        cluster_id = owner.rpartition("/")[0]  # without /agentPools
        if not cluster_id:
            item.report("id", "unexpected-id", f'"{pool_id}" is not the id of an agent pool.')
            continue
        first_item = first_items.setdefault(normalize_id(pool_id), item)
        if first_item is not item:
            title = f"{extract_name(cluster_id)}/{name}"
            report_duplicate(item, first_item, "agent pool", title)
            continue
        by_cluster.setdefault(normalize_id(cluster_id), []).append(
            _build_pool(item, name, pool_id, count, sku)
        )
    for pools in by_cluster.values():
        pools.sort(key=lambda pool: (pool.created_at, pool.name))
    return by_cluster


def _build_pool(item: ArmItem, name: str, pool_id: str, count: int, sku: str) -> AzPool:
    """Build a pool from its body, or from an entry of its cluster's initial pools (`pool_id` "").

    `sku` is its VM SKU.
    """
    upgrade = item.read_object_or_empty("upgradeSettings")
    options = item.read_object_or_empty("agentOptions")
    page_count = options.read_number("hugepagesCount", 0)  # per node
    page_size = options.read_text("hugepagesSize", _PAGE_SIZES[0])
    if page_size not in _PAGE_SIZES:
        options.report(
            "hugepagesSize", SHAPE, f'"{page_size}" is not a page size: use "2M" or "1G".'
        )
        page_count = 0
        page_size = ""
    return AzPool(
        name=item.read_text("name", name),
        id=pool_id,
        count=count,
        vm_sku_name=sku,
        mode=normalize_value("AgentPoolProperties.mode", item.read_text("mode", "User")),
        availability_zones=tuple(sorted(set(item.read_texts("availabilityZones")))),
        labels=tuple(sorted(read_agent_pool_labels(item))),
        taints=tuple(read_taints(item)),
        max_surge=upgrade.read_text("maxSurge"),
        max_unavailable=upgrade.read_text("maxUnavailable"),
        drain_timeout=upgrade.read_number("drainTimeout"),
        created_at=read_creation_time(item),
        hugepages=(page_count, page_size),
    )


def read_clusters(
    items: Iterable[ArmItem],
    pools: Mapping[str, list[AzPool]],
    clusters_with_pool_files: AbstractSet[str],
    catalogue: Mapping[str, VmSku],
    *,
    has_all_pools: bool = True,
) -> tuple[list[AzCluster], list[ListedVm], list[VmSku]]:
    """Return the clusters, the nodes of all clusters, and the VM SKUs absent in the catalogue.

    The nodes are not attached to the clusters yet. `pools` are the captured agent pools by
    lower-case cluster id. Pools not captured are derived from the nodes, and reported. Without
    `has_all_pools` a list of pools is incomplete.
    """
    cluster_readings = list(_read_clusters_with_agent_pools(items, pools, clusters_with_pool_files))
    readings = [reading for reading, _ in cluster_readings]
    skus = find_uncatalogued_vm_skus(readings, catalogue)
    known_skus = {**catalogue, **{sku.name: sku for sku in skus}}  # by name
    clusters: list[AzCluster] = []
    nodes: list[ListedVm] = []
    derived_pools: list[DerivedAgentPool] = []
    for reading in readings:
        cluster = reading.cluster
        nodes += [_build_node(node, cluster.name, known_skus) for node in reading.nodes]
        nodes += [
            _build_node(node, cluster.name, known_skus, is_duplicate=True)
            for node in reading.duplicates
        ]
        all_pools, cluster_derived_pools = complete_pools(reading)
        derived_pools += cluster_derived_pools
        # Without any pool, the list of pools counts as captured. Without requested nodes, the list
        # of nodes counts as captured, too.
        requested_count = cluster.control_plane_count + sum(pool.count for pool in cluster.pools)
        has_nodes = reading.item.read_value("nodes") is not None
        control_plane = reading.item.read_object_or_empty("controlPlaneNodeConfiguration")
        requests_none = requested_count == 0 and control_plane.read_value("count") is not None
        completed_cluster = replace(
            cluster,
            pools=all_pools,
            has_pool_list=(cluster.has_pool_list and has_all_pools) or not all_pools,
            has_node_list=has_nodes or requests_none,
            unlisted_pools=tuple(
                derived.pool.name for derived in cluster_derived_pools if cluster.has_pool_list
            ),
        )
        clusters.append(completed_cluster)
    report_derived_pools(readings, derived_pools)
    report_unlisted_pools(
        [(reading, captured) for reading, captured in cluster_readings if captured is not None]
    )
    return clusters, nodes, skus


def _read_clusters_with_agent_pools(
    items: Iterable[ArmItem],
    pools: Mapping[str, list[AzPool]],
    clusters_with_pool_files: AbstractSet[str],
) -> Iterator[tuple[ClusterNodes, list[AzPool] | None]]:
    """Yield every cluster with its pools in `pools` (by cluster id), None without a list.

    Report repeated names.
    """
    for name, item in iterate_unique_items(items, "cluster"):
        cluster_id = item.read_text("id", name)
        captured = pools.get(normalize_id(cluster_id))
        if captured is None and name.lower() in clusters_with_pool_files:
            # Its file of pools has no entries.
            captured = []
        pool_list = captured
        if captured == [] and any(map(_is_worker, item.read_objects("nodes"))):
            # A cluster with workers has pools: its initial ones replace the wrong list.
            pool_list = None
        initial_pools = _read_initial_pools(item)
        cluster = _build_cluster(
            item, name, cluster_id, initial_pools if pool_list is None else pool_list
        )
        cluster = replace(cluster, has_pool_list=pool_list is not None)
        yield ClusterNodes(item, cluster, initial_pools), captured


def _read_initial_pools(cluster: ArmItem) -> list[AzPool]:
    """Read the initial pools of a cluster, used if no agent pools were captured.

    Report and skip incomplete ones.
    """
    pools: list[AzPool] = []
    for item in cluster.read_objects("initialAgentPoolConfigurations"):
        name = item.read_required_text("name")
        count = item.read_required_number("count")
        sku = item.read_required_text("vmSkuName")
        if name is not None and count is not None and sku is not None:
            pools.append(_build_pool(item, name, pool_id="", count=count, sku=sku))
    return pools


def _build_cluster(item: ArmItem, name: str, cluster_id: str, pools: Sequence[AzPool]) -> AzCluster:
    """Build a cluster without its nodes."""
    control_plane = item.read_object_or_empty("controlPlaneNodeConfiguration")
    return AzCluster(
        name=name,
        id=cluster_id,
        kubernetes_version=item.read_text("kubernetesVersion"),
        control_plane_count=control_plane.read_number("count", 0),
        control_plane_sku=control_plane.read_text("vmSkuName"),
        control_plane_zones=tuple(sorted(set(control_plane.read_texts("availabilityZones")))),
        pools=tuple(pools),
        nodes=(),
        created_at=read_creation_time(item),
    )


def _build_node(
    node: NodeReading, cluster: str, skus: Mapping[str, VmSku], *, is_duplicate: bool = False
) -> ListedVm:
    """Build the VM of a node, with its machine's id ("": none) and JSON object.

    With `is_duplicate`, another record of this name, on another machine, is the node itself.
    """
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
    return ListedVm(vm, item.read_text("bareMetalMachineId", ""), item)


def _compute_node_shape(node: NodeReading, skus: Mapping[str, VmSku]) -> AzVmSize:
    """Compute the size of a node on its machine.

    Its SKU's with emulator threads, or its own if larger.
    """
    sku = skus.get(node.sku_name)
    cpus, memory, disk = node.figures
    if sku is None:
        return AzVmSize(cpus, memory, disk, numa_cells=1)  # as reported
    if cpus and memory and (cpus, memory) != (sku.vcpus, sku.memory_gib):
        node.item.report(
            "cpuCores" if cpus != sku.vcpus else "memorySizeGB",
            "node-sku-difference",
            f'the node "{node.name}" has {cpus} vCPUs and {memory} GiB, but its VM SKU {sku.name} '
            f"has {sku.vcpus} vCPUs and {sku.memory_gib} GiB. The larger sizes are used.",
            Severity.WARNING,
        )
    return AzVmSize(
        cpu_cores=max(cpus, sku.vcpus) + sku.emulator_vcpus,
        memory_gib=max(memory, ceil(sku.memory_gib)),
        disk_gib=max(disk, sku.disk_gib),
        numa_cells=sku.numa_cells,
    )


def read_virtual_machines(items: Iterable[ArmItem]) -> list[ListedVm]:
    """Read the virtual machines outside Kubernetes clusters.

    Report and skip invalid VMs and duplicate names.
    """
    vms = []
    for name, item in iterate_unique_items(items, "VM"):
        cores = item.read_required_number("cpuCores")
        memory = item.read_required_number("memorySizeGB")
        if cores is None or memory is None:
            continue  # reported above
        # An unknown size is an unread fact, and counts as 0.
        local_disk = read_local_disk(item) or 0
        vm = AzVirtualMachine(
            name=name,
            id=item.read_text("id", name),
            shape=AzVmSize(cores, memory, local_disk, numa_cells=1),
            placement=None,
            hints=tuple(_read_hints(item)),
            created_at=read_creation_time(item),
        )
        vms.append(ListedVm(vm, item.read_text("bareMetalMachineId", ""), item))
    return vms


def read_local_disk(vm: ArmItem) -> int | None:
    """Read the GiB of a VM on its machine's own disk, None if they are unknown.

    A persistent OS disk is on the storage appliance.
    """
    disk = vm.read_object_or_empty("storageProfile").read_object_or_empty("osDisk")
    is_persistent = disk.read_text("createOption", "").lower() == "persistent"
    return 0 if is_persistent else disk.read_number("diskSizeGB")


def _read_hints(item: ArmItem) -> Iterator[AzHint]:
    """Yield the placement hints of a VM.

    Report and skip those with other values: the API returns an empty scope.
    """
    for hint in item.read_objects("placementHints"):
        values = {name: hint.read_text(name, "") for name in _HINT_VALUES}
        unknown_names = [name for name, value in values.items() if value not in _HINT_VALUES[name]]
        for name in unknown_names:
            allowed = " or ".join(f'"{value}"' for value in _HINT_VALUES[name])
            detail = f'"{values[name]}" is not {allowed}: the placement hint is ignored.'
            hint.report(name, "hint-not-imported", detail, Severity.WARNING)
        if not unknown_names:
            execution = values["schedulingExecution"]
            yield AzHint(
                values["hintType"], hint.read_text("resourceId", ""), execution, values["scope"]
            )
