"""The pods of a world: nodes from clusters, templates from manifests, places from what was planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nexusform.importers.kubernetes_affinity import read_selector
from nexusform.importers.kubernetes_manifests import Manifest, read_manifests, unwrapped
from nexusform.importers.kubernetes_workloads import workloads_of
from nexusform.importers.manifest_fields import Fields
from nexusform.planning.room.ground import Thing
from nexusform.planning.vms.nodes import node_of
from nexusform.ports import Registries
from nexusform.scheduling.pods.model import Cluster as PodCluster
from nexusform.scheduling.pods.model import Node, StandingPod, Workload
from nexusform.scheduling.pods.scheduler import predict
from nexusform.whatif.pods_down import Budget, ClusterPods
from nexusform.whatif.world_view import CLUSTER_TYPE, Cluster, Kind, WorldView

MANIFEST_TYPE = "fleet_hub_manifest"
MEMBER_TYPE = "fleet_member_cluster"


def view_pods(things: Iterable[Thing], world: WorldView, registries: Registries) -> Mapping[str, ClusterPods]:
    """The pods of every cluster on which any are known, by cluster id.

    Pods of a manifest that no plan has placed yet are put where they would go.
    """
    everything = sorted(things, key=lambda thing: thing.creation)
    attributes = {str(thing.address): thing.attributes for thing in everything}
    members = {
        str(thing.attributes.get("name")): str(thing.attributes.get("kubernetes_cluster_id") or "")
        for thing in everything
        if thing.address.type == MEMBER_TYPE
    }
    hub: list[Manifest] = []
    direct: dict[str, list[Manifest]] = {}
    placed: dict[str, dict[str, Mapping[str, Any]]] = {}
    for thing in everything:
        target = str(thing.attributes.get("cluster_id") or "")
        if thing.address.type == MANIFEST_TYPE:
            text = str(thing.attributes.get("yaml_body") or "")
            found = unwrapped(read_manifests(str(thing.address), text).manifests).manifests
            (direct.setdefault(target, []) if target else hub).extend(found)
        for cluster_id, workloads in _placed(thing, target, members):
            placed.setdefault(cluster_id, {}).update(workloads)
    views = {}
    for site in world.sites.values():
        for cluster in site.clusters:
            if cluster.kind is Kind.VM or not (cluster.id in direct or cluster.id in placed):
                continue
            nodes = tuple(_nodes(cluster, attributes, registries))
            where = placed.get(cluster.id, {})
            views[cluster.id] = _pods(cluster, nodes, direct.get(cluster.id, []), hub, where)
    return views


def _placed(
    thing: Thing, target: str, members: Mapping[str, str]
) -> Iterable[tuple[str, dict[str, Mapping[str, Any]]]]:
    """Per cluster id, workload keys with their pods, as a manifest or a placement holds them."""
    shown = thing.attributes.get("workloads")
    if not isinstance(shown, Mapping):
        return
    if thing.address.type == MANIFEST_TYPE:
        if target:
            yield target, dict(shown)
        return
    for member, workloads in shown.items():
        cluster_id = members.get(member, "")
        if cluster_id and isinstance(workloads, Mapping):
            yield cluster_id, dict(workloads)


def _pods(
    cluster: Cluster,
    nodes: tuple[Node, ...],
    direct: list[Manifest],
    hub: list[Manifest],
    placed: Mapping[str, Mapping[str, Any]],
) -> ClusterPods:
    """Workloads given to the cluster directly, and those that placements put there."""
    selected = [w for w in workloads_of(hub).workloads if w.key in placed]
    workloads = (*workloads_of(direct, hub).workloads, *selected)
    model = PodCluster(cluster.name, nodes)
    known = {node.name for node in nodes}
    standing = [pod for workload in workloads for pod in _standing(workload, placed.get(workload.key), known)]
    if any(workload.key not in placed for workload in workloads):
        standing = list(predict(model, standing, workloads).standing())
    return ClusterPods(
        cluster.id, model, workloads, tuple(standing), tuple(_budgets([*direct, *(hub if selected else [])]))
    )


def _standing(workload: Workload, pods: Mapping[str, Any] | None, nodes: set[str]) -> Iterable[StandingPod]:
    for name, place in (pods or {}).items():
        node = str(place.get("node") or "") if isinstance(place, Mapping) else ""
        number = name.rpartition("-")[2]
        whole = int(number) if number.isdecimal() and workload.kind != "Pod" else 0
        yield StandingPod(workload.key, whole, node if node in nodes else "", workload.pod)


# --- nodes -------------------------------------------------------------------------------------


def _nodes(
    cluster: Cluster, attributes: Mapping[str, Mapping[str, Any]], registries: Registries
) -> Iterable[Node]:
    keys = _hardware_keys(cluster, attributes)
    for pool in cluster.pools:
        family = registries.resource_types[pool.address.type].vms
        assert family is not None, "only what has VMs has pools"
        own = attributes[str(pool.address)]
        for vm in pool.vms:
            yield node_of(vm, pool.sku, family.node(own, vm), keys)


def _hardware_keys(cluster: Cluster, attributes: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    for pool in cluster.pools:
        if pool.address.type == CLUSTER_TYPE:
            return tuple(attributes[str(pool.address)].get("hardware_label_keys") or ())
    return ()


# --- budgets -----------------------------------------------------------------------------------


def _budgets(manifests: Iterable[Manifest]) -> Iterable[Budget]:
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("policy", "PodDisruptionBudget"):
            continue
        spec = Fields(manifest, [], manifest.body).at("spec")
        selector = read_selector(spec, "selector")
        if selector is None:
            continue  # it selects no pod
        least, most = spec.data.get("minAvailable"), spec.data.get("maxUnavailable")
        yield Budget(
            manifest.namespace,
            manifest.name,
            selector,
            "" if least is None else str(least),
            "" if most is None else str(most),
        )
