"""The nodes that pods may use, cluster by cluster, as they stand after phase 4 of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.demands import PoolDemand
from nexusform.planning.vms.surroundings import CLUSTER_TYPE
from nexusform.planning.vms.vm_phase import VmObject
from nexusform.scheduling.catalogue import allocatable_cpus
from nexusform.scheduling.matching import Taint
from nexusform.scheduling.pods.model import HOSTNAME, Node
from nexusform.scheduling.racks.model import CONTROL_PLANE, DEFAULT_SEED, Placement

# What keeps ordinary pods off the nodes of a control plane.
CONTROL_PLANE_KEY: Final = "node-role.kubernetes.io/control-plane"
_GIB: Final = 2**30
# Ordered: where a VNF has the id of an NKS cluster, the NKS cluster is meant.
_KINDS: Final = ("nks", "vnf")


class NodeCluster(Struct, frozen=True):
    """A cluster with known nodes. `fresh` are the nodes that this plan makes anew under their old
    name: their pods are lost. `seed` is the tie-break of its site.
    """

    id: str
    name: str
    site_id: str
    nodes: tuple[Node, ...]
    fresh: frozenset[str]
    seed: int = DEFAULT_SEED
    by_name: Mapping[str, Node] = field(default_factory=dict)

    def node(self, name: str) -> Node | None:
        """One of its nodes."""
        return self.by_name.get(name)


def clusters_with_nodes(objects: Iterable[VmObject]) -> dict[str, NodeCluster]:
    """The clusters of a plan by id: NKS clusters with their separate pools, and VNFs."""
    everything = [o for o in objects if o.wanted is not None and not o.going and o.instance.planned]
    keys = {
        o.instance.type.identify(o.instance.planned or {}): _hardware_keys(o)
        for o in everything
        if o.instance.type.name == CLUSTER_TYPE
    }
    by_owner: dict[str, list[VmObject]] = {}
    for found in everything:
        assert found.wanted is not None
        by_owner.setdefault(found.wanted.owner, []).append(found)
    clusters: dict[str, NodeCluster] = {}
    for owner in sorted(by_owner):
        kind, _, cluster_id = owner.partition(":")
        if kind not in _KINDS or cluster_id in clusters:
            continue
        parts = by_owner[owner]
        wanted = parts[0].wanted
        assert wanted is not None
        site = parts[0].site
        nodes = tuple(node for part in parts for node in _nodes(part, keys.get(cluster_id, ())))
        clusters[cluster_id] = NodeCluster(
            cluster_id,
            wanted.cluster,
            wanted.site_id,
            nodes,
            frozenset(name for part in parts for name in _remade(part)),
            site.scheduler.seed if site is not None else DEFAULT_SEED,
            {node.name: node for node in nodes},
        )
    return clusters


def _hardware_keys(found: VmObject) -> tuple[str, ...]:
    return tuple((found.instance.planned or {}).get("hardware_label_keys") or ())


def _remade(found: VmObject) -> Iterable[str]:
    return (vm.name for vm in found.placed_vms() if (vm.pool, vm.number) in found.moves.again)


def _nodes(found: VmObject, keys: tuple[str, ...]) -> Iterable[Node]:
    assert found.wanted is not None
    labels = _shown_labels(found)
    pools = {pool.pool: pool for pool in found.wanted.pools}
    for vm in found.placed_vms():
        pool, shown = pools[vm.pool], labels.get(vm.name, {})
        taints = _taints(found, pool, shown)
        own = dict(shown)
        if any(taint.key == CONTROL_PLANE_KEY for taint in taints):
            own[CONTROL_PLANE_KEY] = ""
        else:
            own |= dict.fromkeys(keys, vm.placement.machine)
        yield _node(vm.name, own, taints, pool, vm.placement)


def _shown_labels(found: VmObject) -> dict[str, Mapping[str, str]]:
    """The labels of every node, by name, as expressions read them."""
    instance = found.instance
    labels: dict[str, Mapping[str, str]] = {}
    for name in ("nodes", "vnfcs"):
        planned = instance.planned or {}
        present = instance.type.present
        shown = present(planned, name) if present is not None else planned.get(name)
        for node, values in shown.items() if isinstance(shown, Mapping) else ():
            labels[node] = values.get("labels") or {}
    return labels


def _taints(found: VmObject, pool: PoolDemand, labels: Mapping[str, str]) -> tuple[Taint, ...]:
    # The VMs of a VNF are labelled where they are workers.
    vnf = found.wanted is not None and found.wanted.owner.startswith("vnf:")
    if pool.pool == CONTROL_PLANE or (vnf and not labels):
        return (Taint(CONTROL_PLANE_KEY),)
    values: Any = found.instance.planned
    for step in pool.path:
        values = values.get(step) if isinstance(values, Mapping) else None
    written = values.get("taint") if isinstance(values, Mapping) else None
    return tuple(Taint(str(t["key"]), str(t.get("value") or ""), str(t["effect"])) for t in written or ())


def _node(
    name: str, labels: Mapping[str, str], taints: tuple[Taint, ...], pool: PoolDemand, place: Placement
) -> Node:
    # The kubelet of every node sets its hostname, whatever else labels it.
    return Node(
        name,
        {HOSTNAME: name, **labels},
        taints,
        1000 * allocatable_cpus(pool.sku),
        pool.sku.memory_gib * _GIB,
        machine=place.machine,
        rack=place.rack,
        zone=place.availability_zone,
    )
