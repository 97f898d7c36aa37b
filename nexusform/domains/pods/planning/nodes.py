"""The nodes of the clusters, one record each, as pods and fleets see the VMs that stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.demands import CONTROL_PLANE_TAINT, NodeMarks, PlacedVm, PoolDemand, VmDemand
from nexusform.domains.pods.scheduling.admission import cells_of
from nexusform.domains.pods.scheduling.versions import version_of
from nexusform.domains.pods.scheduling.workloads import Node
from nexusform.planning.vms.sites import Thing, lay_ground
from nexusform.planning.vms.vm_object import VmKey, VmObject
from nexusform.ports import Kind, Registries, ResourceType
from nexusform.scheduling.kubelet import (
    MOST_CELLS,
    REFUSING,
    Kubelet,
    NodeSize,
    allocatable,
    capacity,
    extended,
    registered_labels,
    reserved_cpus,
)
from nexusform.scheduling.racks.vms import DEFAULT_SEED, VmSku

# Ordered: where a VNF has the id of an NKS cluster, the NKS cluster is meant.
_KINDS: Final = ("nks", "vnf")


class NodeCluster(Struct, frozen=True):
    """A cluster with known nodes. `skus` are those of its nodes, in their order, `total` what these
    registered with. `fresh` are the nodes that this plan makes anew under their old name, `new` those that it
    makes and nobody has seen: pods that state has on either are lost. `seed` is the tie-break of its site.
    `platform_names` are the platform's own names of VMs, with ours. `version` is the version of Kubernetes,
    major and minor, () where nobody says it.
    """

    id: str
    name: str
    site_id: str
    nodes: tuple[Node, ...]
    skus: tuple[VmSku, ...] = ()
    total: NodeSize = NodeSize(0, 0)
    fresh: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()
    seed: int = DEFAULT_SEED
    by_name: Mapping[str, Node] = field(default_factory=dict)
    platform_names: Mapping[str, str] = field(default_factory=dict)
    version: tuple[int, ...] = ()

    def node(self, name: str) -> Node | None:
        """One of its nodes."""
        return self.by_name.get(name)


def clusters_with_nodes(objects: Iterable[VmObject]) -> dict[str, NodeCluster]:
    """The clusters of a plan by id: NKS clusters with their separate pools, and VNFs."""
    parts: list[_Part] = []
    for vms in objects:
        attributes = vms.instance.planned
        if vms.asked.demand is None or vms.going or not attributes:
            continue
        seed = vms.asked.site.scheduler.seed if vms.asked.site is not None else DEFAULT_SEED
        placed = tuple(vms.placed_vms())
        again, arrive = frozenset(vms.asked.moves.again), frozenset(vms.asked.moves.arrive)
        parts.append(_Part(vms.instance.type, attributes, vms.asked.demand, placed, again, arrive, seed))
    return _clusters(parts)


def standing_clusters(
    things: Iterable[Thing], registries: Registries, catalogue: str
) -> dict[str, NodeCluster]:
    """The clusters that the objects of another state are, by id. `catalogue`: its SKU catalogue's version."""
    ground = lay_ground(things, registries, catalogue)
    parts: list[_Part] = []
    for kind, thing in sorted(ground.things, key=lambda pair: pair[0].phase):
        if kind.vms is None:
            continue
        demand, _ = kind.vms.demand(thing.attributes, ground.surroundings, thing.address)
        if demand is None:
            continue
        site = ground.sites.get(demand.site_id)
        seed = site.scheduler.seed if site is not None else DEFAULT_SEED
        vms = _in_order_of(demand, kind.vms.standing(thing.attributes))
        parts.append(_Part(kind, thing.attributes, demand, vms, seed=seed))
    return _clusters(parts)


def _in_order_of(demand: VmDemand, standing: Iterable[PlacedVm]) -> tuple[PlacedVm, ...]:
    """The VMs that are asked for among those that stand, pool by pool."""
    by_number = {(vm.pool, vm.number): vm for vm in standing}
    vms: list[PlacedVm] = []
    for pool in demand.pools:
        keys = [(pool.pool, number) for number in pool.numbers]
        vms += [by_number[key] for key in keys if key in by_number]
    return tuple(vms)


class _Part(Struct, frozen=True):
    # What one object adds to its cluster: its VMs, and those of them that are made anew or are new.
    type: ResourceType
    attributes: Mapping[str, Any]
    demand: VmDemand
    vms: tuple[PlacedVm, ...]
    again: frozenset[VmKey] = frozenset()
    arrive: frozenset[VmKey] = frozenset()
    seed: int = DEFAULT_SEED


def _clusters(parts: Iterable[_Part]) -> dict[str, NodeCluster]:
    """The clusters by id, of parts in any order; owners that are neither an NKS cluster nor a VNF are left
    out.
    """
    by_owner: dict[str, list[_Part]] = {}
    for part in parts:
        by_owner.setdefault(part.demand.owner, []).append(part)
    clusters: dict[str, NodeCluster] = {}
    for owner in sorted(by_owner):
        kind, _, cluster_id = owner.partition(":")
        if kind in _KINDS and cluster_id not in clusters:
            clusters[cluster_id] = _cluster(cluster_id, by_owner[owner])
    return clusters


def _cluster(cluster_id: str, parts: list[_Part]) -> NodeCluster:
    """The cluster of an NKS cluster and its separate pools, or of a VNF."""
    first = parts[0]
    attributes = cluster_attributes((part.type.kind, part.attributes) for part in parts)
    nodes: list[Node] = []
    skus: list[VmSku] = []
    fresh: set[str] = set()
    new: set[str] = set()
    own_names: dict[str, str] = {}
    for part in parts:
        pools = {pool.pool: pool for pool in part.demand.pools}
        for vm in part.vms:
            nodes.append(_node(part, vm, pools[vm.pool], attributes))
            skus.append(pools[vm.pool].sku)
            if (vm.pool, vm.number) in part.again:
                fresh.add(vm.name)
            elif (vm.pool, vm.number) in part.arrive:
                new.add(vm.name)
            if vm.platform_name:
                own_names[vm.platform_name] = vm.name
    return NodeCluster(
        id=cluster_id,
        name=first.demand.cluster,
        site_id=first.demand.site_id,
        nodes=tuple(nodes),
        skus=tuple(skus),
        total=total_of(capacity(sku) for sku in skus),
        fresh=frozenset(fresh),
        new=frozenset(new),
        seed=first.seed,
        by_name={node.name: node for node in nodes},
        platform_names=own_names,
        version=version_of(str((attributes or {}).get("kubernetes_version") or "")),
    )


def cluster_attributes(parts: Iterable[tuple[Kind, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
    """The attributes of the cluster among a cluster and its separate pools; None for what is none (a VNF)."""
    return next((attributes for kind, attributes in parts if kind is Kind.CLUSTER), None)


def total_of(sizes: Iterable[NodeSize]) -> NodeSize:
    """CPU and memory of several nodes."""
    listed = list(sizes)
    return NodeSize(sum(size.cpu for size in listed), sum(size.memory for size in listed))


def _node(part: _Part, vm: PlacedVm, pool: PoolDemand, cluster: Mapping[str, Any] | None) -> Node:
    """The node that a VM of a part is; `cluster` are the attributes of its cluster, None for a VNF."""
    family = part.type.vms
    assert family is not None, "only what has VMs is asked"
    of_cluster = part.attributes if cluster is None else cluster
    return node_of(vm, pool.sku, family.node(part.attributes, vm, of_cluster))


def node_of(vm: PlacedVm, sku: VmSku, marks: NodeMarks) -> Node:
    """The node that a VM is."""
    place, kubelet = vm.placement, marks.kubelet
    size = allocatable(sku, kubelet)
    return Node(
        vm.name,
        {**_own_labels(vm.name, marks), **marks.labels},
        marks.taints,
        size.cpu,
        size.memory,
        machine=place.machine,
        rack=place.rack,
        zone=place.availability_zone,
        others=size.others,
        policy=kubelet.policy,
        cells=_cells(sku, kubelet),
    )


def _cells(sku: VmSku, kubelet: Kubelet) -> tuple[Mapping[str, int], ...]:
    if kubelet.policy not in REFUSING:
        return ()
    count = min(kubelet.cells or sku.numa_cells, MOST_CELLS)
    return cells_of(sku.vcpus, reserved_cpus(sku, kubelet), extended(sku, kubelet), count)


def _own_labels(name: str, marks: NodeMarks) -> dict[str, str]:
    """What the kubelet of every node sets, and kubeadm on a control plane."""
    return registered_labels(name, control_plane=CONTROL_PLANE_TAINT in marks.taints)
