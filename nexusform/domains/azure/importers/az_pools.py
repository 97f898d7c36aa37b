"""Which pool a node belongs to and which VM SKU it has, where exports do not say it.

Before API 2024-07 workers have no agentPoolId, and before 2023-07 no vmSkuName. Their names tell: those of
the pools that a cluster was made with are numbered (`NAME-1a2b3c4d-agentpool1-md-x7k2p`), those of later
pools hold the pool's name (`NAME-POOL-md-x7k2p`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.domains.azure.importers.arm import Item, id_key, name_of
from nexusform.domains.azure.importers.az_model import AzCluster, AzPool, AzTaint
from nexusform.scheduling.racks.vms import CONTROL_PLANE, VmSku
from nexusform.words import counted, first_of, form

_NUMBERED: Final = re.compile(r"-agentpool(\d{1,3})-md-")
_NAMED: Final = re.compile(r"-md-[a-z0-9-]+$")
_HASH: Final = re.compile(r"-[0-9a-f]{8}$")
_PUBLISHED: Final = re.compile(r"NC_([A-Z])(\d{1,3})_(\d{1,4})_v\d+")
# Types of SKU whose VMs have emulator threads of their own, and how many.
_EMULATOR_VCPUS: Final = dict.fromkeys("PEL", 2)
_DEFAULT_DISK: Final = 300  # GiB: the root disk of every published SKU but the L type
_UNTOLD: Final = "workers"
_MOST_NAMED: Final = 4
_SYSTEM: Final = "System"
_MODE_LABEL: Final = ("kubernetes.azure.com/mode", "system")
_LABELLED: Final = "its nodes' label says so"
_ONE_AT_LEAST: Final = "a cluster has one at least"
_OF_KUBERNETES: Final = ("kubernetes.io", "k8s.io", "kubernetes.azure.com")


class ReadNode:
    """A node of a cluster's body: its pool and SKU, said or derived. `figures` are its own: guest vCPUs,
    GiB of memory, GiB of disk (0: not said). `machine` is the key of its machine's id, "" without one.
    """

    __slots__ = ("figures", "item", "machine", "name", "pool", "pool_is_derived", "sku_name")

    def __init__(self, item: Item, name: str, cluster: AzCluster, initial: Sequence[AzPool]) -> None:
        self.item = item
        self.name = name
        self.machine = id_key(item.text("bareMetalMachineId") or "")
        pool_id = item.text("agentPoolId")
        self.pool = _as_listed(name_of(pool_id), (*cluster.pools, *initial)) if pool_id else ""
        self.pool_is_derived = False
        if not self.pool:
            self.pool = CONTROL_PLANE if _is_control_plane(item, name) else _pool_in(name, cluster, initial)
            self.pool_is_derived = self.pool != CONTROL_PLANE
        self.figures = tuple(item.whole(key) or 0 for key in ("cpuCores", "memorySizeGB", "diskSizeGB"))
        self.sku_name = item.text("vmSkuName") or _sku_of_pool(self.pool, cluster) or _size_name(self.figures)


class ClusterNodes:
    """The nodes of one cluster as its body lists them. `initial` are the pools that it was made with,
    `seconds` further records of nodes, on other machines.
    """

    __slots__ = ("cluster", "initial", "item", "nodes", "seconds")

    def __init__(self, item: Item, cluster: AzCluster, initial: Sequence[AzPool]) -> None:
        self.item = item
        self.cluster = cluster
        self.initial = {pool.name: pool for pool in initial}
        by_name: dict[str, list[ReadNode]] = {}
        for node in item.items("nodes"):
            name = node.needed_text("name")
            if name is not None:
                by_name.setdefault(name, []).append(ReadNode(node, name, cluster, initial))
        self.nodes: list[ReadNode] = []
        self.seconds: list[ReadNode] = []
        for records in by_name.values():
            first, *others = self._one_per_machine(records)
            self.nodes.append(first)
            self.seconds += others

    def _one_per_machine(self, records: Sequence[ReadNode]) -> list[ReadNode]:
        """The records of one name, one for each machine, those without a machine last; what stands twice on
        one machine has the larger figures.
        """
        by_machine: dict[str, ReadNode] = {}
        for record in sorted(records, key=lambda one: not one.machine):
            first = by_machine.setdefault(record.machine, record)
            first.figures = tuple(map(max, zip(first.figures, record.figures, strict=True)))
        placed = [one for machine, one in by_machine.items() if machine]
        if len(records) > 1:
            others = f"the room on {counted(len(placed) - 1, 'other machine')} counts as taken"
            records[1].item.report(
                "name",
                "duplicate-node",
                f'a node "{records[0].name}" of {self.cluster.name} stands further up already: '
                f"{others if len(placed) > 1 else 'it is read once'}.",
                Severity.WARNING,
            )
        return placed or list(records[:1])


def shows_workers(cluster: Item) -> bool:
    """Whether nodes of a cluster's body are of agent pools."""
    return any(
        node.text("agentPoolId") or not _is_control_plane(node, node.text("name") or "")
        for node in cluster.items("nodes")
    )


def say_unlisted_pools(lists: Iterable[tuple[ClusterNodes, Iterable[AzPool]]]) -> None:
    """Say once that nodes are of pools that the captured list of their cluster's agent pools lacks."""
    places: dict[str, Item] = {}
    for reading, pools in lists:
        known = {CONTROL_PLANE, *(pool.name for pool in pools)}
        beyond = {node.pool: node.item for node in reading.nodes if node.pool not in known}
        places |= {f"{reading.cluster.name}/{pool}": item for pool, item in beyond.items()}
    if places:
        pools_are = form(len(places), "an agent pool", "agent pools")
        next(iter(places.values())).report(
            "agentPoolId",
            "nodes-of-unlisted-pools",
            f"nodes are of {pools_are} that the captured list of the cluster's agent pools lacks "
            f"({first_of(list(places), 4)}): taken as not captured. Capture clusters and agent pools again, "
            "at one time.",
            Severity.WARNING,
        )


def _is_control_plane(item: Item, name: str) -> bool:
    role = item.text("role")
    if role is not None:
        return role.lower() == "controlplane"
    return _NAMED.search(name) is None


def _pool_in(name: str, cluster: AzCluster, initial: Sequence[AzPool]) -> str:
    """The pool that a worker's name tells."""
    text = name.lower()
    numbered = _NUMBERED.search(text)
    if numbered is not None and 1 <= int(numbered[1]) <= len(initial):
        return initial[int(numbered[1]) - 1].name
    held = [pool.name for pool in cluster.pools if f"-{pool.name.lower()}-" in text]
    if held:
        return max(held, key=len)
    between = _NAMED.sub("", text).removeprefix(f"{cluster.name.lower()}-")
    return _HASH.sub("", between).strip("-") or _UNTOLD


def _as_listed(name: str, pools: Iterable[AzPool]) -> str:
    """The name of a pool as its body has it: case does not matter in an id."""
    return next((pool.name for pool in pools if pool.name.lower() == name.lower()), name)


def _sku_of_pool(pool: str, cluster: AzCluster) -> str:
    if pool == CONTROL_PLANE:
        return cluster.control_plane_sku or ""
    return next((one.vm_sku_name for one in cluster.pools if one.name == pool), "")


def _size_name(figures: Iterable[int]) -> str:
    """A name for a size that no SKU name stands for."""
    return "size-" + "-".join(str(figure) for figure in figures)


# --- pools of which nothing but nodes tells ------------------------------------------------------


class DerivedPool(Struct, frozen=True):
    """A pool of a cluster (its name) that only nodes tell of, with one of them, and why it is a System pool
    ("" = it is none).
    """

    cluster: str
    pool: AzPool
    item: Item
    why_system: str = ""


def pools_with_nodes(reading: ClusterNodes, derived: list[DerivedPool]) -> tuple[AzPool, ...]:
    """The cluster's pools, and after them those that only nodes tell of, with as many VMs as there are; these
    join `derived`. As many have pools that were not captured: what a cluster was made with says nothing of
    later counts.
    """
    by_pool: dict[str, list[ReadNode]] = {}
    for node in reading.nodes:
        if node.pool != CONTROL_PLANE:
            by_pool.setdefault(node.pool, []).append(node)
    pools = {pool.name: pool for pool in reading.cluster.pools}
    if not reading.cluster.pools_listed:
        pools = {
            name: replace(pool, count=len(by_pool.get(name, ())) or pool.count)
            for name, pool in pools.items()
        }
    lacking = {name: nodes for name, nodes in by_pool.items() if name not in pools}
    for name in [name for name in lacking if name in reading.initial]:
        pools[name] = replace(reading.initial[name], count=len(lacking.pop(name)))
    has_system = any(pool.mode == _SYSTEM for pool in pools.values())
    of_nodes = [_derived(nodes, reading.cluster.name) for nodes in lacking.values()]
    if of_nodes and not has_system and not any(one.why_system for one in of_nodes):
        first = min(of_nodes, key=lambda one: (_is_later(lacking[one.pool.name]), one.pool.name))
        of_nodes[of_nodes.index(first)] = _as_system(first, _ONE_AT_LEAST)
    derived += of_nodes
    return (*pools.values(), *(one.pool for one in of_nodes))


def _derived(nodes: Sequence[ReadNode], cluster: str) -> DerivedPool:
    """A pool as its nodes show it: labels and taints are those that all of them have."""
    node = nodes[0]
    labels = set.intersection(*(set(read_labels(one.item)) for one in nodes))
    taints = [read_taint(part) for part in node.item.items("taints")]
    others = [{read_taint(part) for part in one.item.items("taints")} for one in nodes[1:]]
    pool = AzPool(
        name=node.pool,
        id="",
        count=len(nodes),
        vm_sku_name=node.sku_name,
        mode="User",
        labels=tuple(sorted(label for label in labels if not _is_of_kubernetes(label[0]))),
        taints=tuple(taint for taint in taints if all(taint in other for other in others)),
    )
    one = DerivedPool(cluster, pool, node.item)
    return _as_system(one, _LABELLED) if _MODE_LABEL in labels else one


def _as_system(one: DerivedPool, why: str) -> DerivedPool:
    return replace(one, pool=replace(one.pool, mode=_SYSTEM), why_system=why)


def _is_later(nodes: Sequence[ReadNode]) -> bool:
    """Whether a pool came after its cluster was made: those that it was made with have numbers in names."""
    return _NUMBERED.search(nodes[0].name.lower()) is None


def _is_of_kubernetes(key: str) -> bool:
    """Whether a label is one that the platform sets, and no pool's."""
    domain = key.rpartition("/")[0]
    return domain.endswith(_OF_KUBERNETES)


def read_labels(item: Item) -> Iterator[tuple[str, str]]:
    """The labels of a body, [{"key": "k", "value": "v"}]."""
    for part in item.items("labels"):
        yield part.needed_text("key") or "", part.text("value") or ""


def read_taint(item: Item) -> AzTaint:
    """A taint: {"key": "k", "value": "v:NoSchedule"}."""
    value, _, effect = (item.text("value") or "").rpartition(":")
    return AzTaint(item.needed_text("key") or "", value, effect)


def say_derived_pools(readings: Iterable[ClusterNodes], derived: Sequence[DerivedPool]) -> None:
    """Say once that pools were read from the names of nodes, and once what their nodes told of pools."""
    unsaid = [node for reading in readings for node in reading.nodes if node.pool_is_derived]
    if unsaid:
        unsaid[0].item.report(
            "name",
            "derived-at-reading",
            f"{counted(len(unsaid), 'worker')} without agentPoolId (exports before API 2024-07): the pool "
            "comes from the name of the node.",
            Severity.WARNING,
        )
    if derived:
        names = first_of([f"{one.cluster}/{one.pool.name}" for one in derived], _MOST_NAMED)
        system = [f"{one.cluster}/{one.pool.name} ({one.why_system})" for one in derived if one.why_system]
        modes = f"System for {first_of(system, _MOST_NAMED)}, " if system else ""
        rest = "User for the others" if system else "User"
        derived[0].item.report(
            "agentPoolId",
            "derived-at-reading",
            f"only nodes tell of {counted(len(derived), 'agent pool')} ({names}): count, VM SKU, labels and "
            f"taints are theirs, zones are taken as all, and the mode as {modes}{rest}.",
            Severity.WARNING,
        )


# --- sizes that the catalogue does not have ------------------------------------------------------


def sizes_beyond(readings: Sequence[ClusterNodes], catalogue: Mapping[str, VmSku]) -> list[VmSku]:
    """The VM SKUs in use that the catalogue lacks, by name, with the largest figures that nodes of them
    have; where no node tells, those that the SKU's name does. One that nothing tells of is left out.
    """
    figures: dict[str, tuple[int, ...]] = {}
    places: dict[str, Item] = {}
    differing: list[str] = []
    for reading in readings:
        for node in reading.nodes:
            places.setdefault(node.sku_name, node.item)
            seen = figures.get(node.sku_name)
            largest = tuple(map(max, zip(seen or node.figures, node.figures, strict=True)))
            if seen is not None and seen != node.figures and node.sku_name not in catalogue:
                differing.append(node.sku_name)
            figures[node.sku_name] = largest
        for name in _skus_named(reading.cluster):
            places.setdefault(name, reading.item)
    beyond = sorted(name for name in places if name not in catalogue)
    skus = [sku for name in beyond if (sku := _size(name, figures.get(name))) is not None]
    if skus:
        names = first_of([sku.name for sku in skus], 6)
        some = f" (nodes of {first_of(sorted(set(differing)), 3)} differ: the largest)" if differing else ""
        places[skus[0].name].report(
            "name",
            "unknown-vm-sku",
            f"the catalogue does not have {names}; the figures of the nodes themselves are used{some}.",
            Severity.WARNING,
        )
    return skus


def _skus_named(cluster: AzCluster) -> Iterable[str]:
    if cluster.control_plane_sku:
        yield cluster.control_plane_sku
    for pool in cluster.pools:
        yield pool.vm_sku_name


def _size(name: str, figures: tuple[int, ...] | None) -> VmSku | None:
    """A VM SKU from the figures given, else from those in its own name; None when neither tell."""
    published = _PUBLISHED.fullmatch(name)
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
