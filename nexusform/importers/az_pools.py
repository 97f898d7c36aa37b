"""Which pool a node belongs to and which VM SKU it has, where exports do not say it.

Before API 2024-07 workers have no agentPoolId, and before 2023-07 no vmSkuName. Their names tell: those of
the pools that a cluster was made with are numbered (`NAME-1a2b3c4d-agentpool1-md-x7k2p`), those of later
pools hold the pool's name (`NAME-POOL-md-x7k2p`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics import Severity
from nexusform.importers.arm import Item, name_of
from nexusform.importers.az_model import AzCluster, AzPool
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


class ReadNode:
    """A node of a cluster's body: its pool and SKU, said or derived. `figures` are its own: guest vCPUs,
    GiB of memory, GiB of disk (0: not said).
    """

    __slots__ = ("figures", "item", "name", "pool", "pool_is_derived", "sku_name")

    def __init__(self, item: Item, name: str, cluster: AzCluster, initial: Sequence[AzPool]) -> None:
        self.item = item
        self.name = name
        pool_id = item.text("agentPoolId")
        self.pool = name_of(pool_id) if pool_id else ""
        self.pool_is_derived = False
        if not self.pool:
            self.pool = CONTROL_PLANE if _is_control_plane(item, name) else _pool_in(name, cluster, initial)
            self.pool_is_derived = self.pool != CONTROL_PLANE
        self.figures = tuple(item.whole(key) or 0 for key in ("cpuCores", "memorySizeGB", "diskSizeGB"))
        self.sku_name = item.text("vmSkuName") or _sku_of_pool(self.pool, cluster) or _size_name(self.figures)


class ClusterNodes:
    """The nodes of one cluster as its body lists them. `initial` are the pools that it was made with."""

    __slots__ = ("cluster", "item", "nodes")

    def __init__(self, item: Item, cluster: AzCluster, initial: Sequence[AzPool]) -> None:
        self.item = item
        self.cluster = cluster
        nodes: dict[str, ReadNode] = {}
        for node in item.items("nodes"):
            name = node.needed_text("name")
            if name in nodes:
                detail = f'a node "{name}" of {cluster.name} stands further up already: this one is not read.'
                node.report("name", "duplicate-node", detail, Severity.WARNING)
            elif name is not None:
                nodes[name] = ReadNode(node, name, cluster, initial)
        self.nodes = list(nodes.values())


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


def _sku_of_pool(pool: str, cluster: AzCluster) -> str:
    if pool == CONTROL_PLANE:
        return cluster.control_plane_sku or ""
    return next((one.vm_sku_name for one in cluster.pools if one.name == pool), "")


def _size_name(figures: Iterable[int]) -> str:
    """A name for a size that no SKU name stands for."""
    return "size-" + "-".join(str(figure) for figure in figures)


def say_derived_pools(readings: Iterable[ClusterNodes]) -> None:
    """Say once that pools were read from the names of nodes."""
    derived = [node for reading in readings for node in reading.nodes if node.pool_is_derived]
    if derived:
        derived[0].item.report(
            "name",
            "derived-at-reading",
            f"{counted(len(derived), 'worker')} without agentPoolId (exports before API 2024-07): the pool "
            "comes from the name of the node.",
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
    published = _PUBLISHED.fullmatch(name)
    kind = published[1] if published else name[3:4] if name.startswith("NC_") else ""
    if figures is None or 0 in figures[:2]:
        if published is None:
            return None
        figures = (int(published[2]), int(published[3]), _DEFAULT_DISK)
    vcpus, memory, disk = figures
    return VmSku(name, vcpus, _EMULATOR_VCPUS.get(kind, 0), memory, disk, 1, kind="")
