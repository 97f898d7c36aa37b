"""The nodes of the clusters, one record each, as pods and fleets see the VMs that stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.demands import CONTROL_PLANE_TAINT, NodeMarks, PlacedVm, PoolDemand
from nexusform.planning.vms.vm_object import VmObject
from nexusform.ports import Kind
from nexusform.scheduling.catalogue import allocatable_cpus
from nexusform.scheduling.pods.model import HOSTNAME, Node
from nexusform.scheduling.racks.model import DEFAULT_SEED, VmSku

_GIB: Final = 2**30
# Ordered: where a VNF has the id of an NKS cluster, the NKS cluster is meant.
_KINDS: Final = ("nks", "vnf")


class NodeCluster(Struct, frozen=True):
    """A cluster with known nodes. `skus` are those of its nodes, in their order. `fresh` are the nodes that
    this plan makes anew under their old name: their pods are lost. `seed` is the tie-break of its site.
    """

    id: str
    name: str
    site_id: str
    nodes: tuple[Node, ...]
    skus: tuple[VmSku, ...] = ()
    fresh: frozenset[str] = frozenset()
    seed: int = DEFAULT_SEED
    by_name: Mapping[str, Node] = field(default_factory=dict)

    def node(self, name: str) -> Node | None:
        """One of its nodes."""
        return self.by_name.get(name)


def clusters_with_nodes(objects: Iterable[VmObject]) -> dict[str, NodeCluster]:
    """The clusters of a plan by id: NKS clusters with their separate pools, and VNFs."""
    by_owner: dict[str, list[VmObject]] = {}
    for vms in objects:
        if vms.demand is not None and not vms.going and vms.instance.planned:
            by_owner.setdefault(vms.demand.owner, []).append(vms)
    clusters: dict[str, NodeCluster] = {}
    for owner in sorted(by_owner):
        kind, _, cluster_id = owner.partition(":")
        if kind in _KINDS and cluster_id not in clusters:
            clusters[cluster_id] = _cluster(cluster_id, by_owner[owner])
    return clusters


def _cluster(cluster_id: str, parts: list[VmObject]) -> NodeCluster:
    """The cluster of an NKS cluster and its separate pools, or of a VNF."""
    first = parts[0]
    assert first.demand is not None, "only what has VMs is asked"
    keys = _hardware_keys(parts)
    nodes: list[Node] = []
    skus: list[VmSku] = []
    fresh: set[str] = set()
    for part in parts:
        pools = {pool.pool: pool for pool in part.demand.pools} if part.demand is not None else {}
        for vm in part.placed_vms():
            nodes.append(_node(part, vm, pools[vm.pool], keys))
            skus.append(pools[vm.pool].sku)
            if (vm.pool, vm.number) in part.moves.again:
                fresh.add(vm.name)
    return NodeCluster(
        cluster_id,
        first.demand.cluster,
        first.demand.site_id,
        tuple(nodes),
        tuple(skus),
        frozenset(fresh),
        first.site.scheduler.seed if first.site is not None else DEFAULT_SEED,
        {node.name: node for node in nodes},
    )


def _hardware_keys(parts: Iterable[VmObject]) -> tuple[str, ...]:
    """The label keys that the cluster has set to the machine's name, on the workers of separate pools too."""
    for part in parts:
        if part.instance.type.kind is Kind.CLUSTER:
            return tuple(_planned(part).get("hardware_label_keys") or ())
    return ()


def _planned(vms: VmObject) -> Mapping[str, Any]:
    return vms.instance.planned or {}


def _node(vms: VmObject, vm: PlacedVm, pool: PoolDemand, hardware_keys: Iterable[str]) -> Node:
    assert vms.instance.type.vms is not None, "only what has VMs is asked"
    return node_of(vm, pool.sku, vms.instance.type.vms.node(_planned(vms), vm), hardware_keys)


def node_of(vm: PlacedVm, sku: VmSku, marks: NodeMarks, hardware_keys: Iterable[str] = ()) -> Node:
    """The node that a VM is. `hardware_keys` are labels that workers carry beside their own."""
    place = vm.placement
    # The kubelet of every node sets its hostname, whatever else labels it.
    labels = {HOSTNAME: vm.name, **marks.labels}
    if CONTROL_PLANE_TAINT in marks.taints:
        labels[CONTROL_PLANE_TAINT.key] = ""
    else:
        labels |= dict.fromkeys(hardware_keys, place.machine)
    return Node(
        vm.name,
        labels,
        marks.taints,
        1000 * allocatable_cpus(sku),
        sku.memory_gib * _GIB,
        machine=place.machine,
        rack=place.rack,
        zone=place.availability_zone,
    )
