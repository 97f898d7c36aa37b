"""The pods of a world: nodes from clusters, templates from manifests, places from what was planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nexusform.importers.kubernetes_affinity import read_selector
from nexusform.importers.kubernetes_manifests import Manifest, read_manifests, unwrapped
from nexusform.importers.kubernetes_workloads import workloads_of
from nexusform.importers.manifest_fields import Fields
from nexusform.planning.room.ground import Thing
from nexusform.ports import Registries
from nexusform.resource_types.nks_pools import capacity
from nexusform.scheduling.matching import Taint
from nexusform.scheduling.pods.model import HOSTNAME, Node, StandingPod, Workload
from nexusform.scheduling.pods.model import Cluster as PodCluster
from nexusform.scheduling.pods.scheduler import predict
from nexusform.whatif.pods_down import Budget, ClusterPods
from nexusform.whatif.world_view import Cluster, Kind, Pool, Vm, WorldView

MANIFEST_TYPE = "fleet_hub_manifest"
MEMBER_TYPE = "fleet_member_cluster"
# What keeps ordinary pods off the nodes of a control plane.
CONTROL_PLANE_TAINT = Taint("node-role.kubernetes.io/control-plane")
_GIB = 2**30


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
    for pool in cluster.pools:
        own = attributes.get(str(pool.address), {})
        labels = _labels(pool, own, registries)
        taints = tuple(_taints(pool, own))
        cpu = int(capacity([(pool.sku, 1)])["allocatable"]["cpu"]) * 1000
        for vm in pool.vms:
            yield _node(vm, labels.get(vm.name, {}), taints, cpu, pool.sku.memory_gib * _GIB)


def _node(vm: Vm, labels: Mapping[str, str], taints: tuple[Taint, ...], cpu: int, memory: int) -> Node:
    place = vm.placement
    # The kubelet of every node sets its hostname, whatever else labels it.
    return Node(
        vm.name,
        {HOSTNAME: vm.name, **labels},
        taints,
        cpu,
        memory,
        machine=place.machine,
        rack=place.rack,
        zone=place.availability_zone,
    )


def _labels(
    pool: Pool, attributes: Mapping[str, Any], registries: Registries
) -> Mapping[str, Mapping[str, str]]:
    """The labels of every node, by name, as expressions would read them."""
    kind = registries.resource_types.get(pool.address.type)
    found: dict[str, Mapping[str, str]] = {}
    for name in ("nodes", "vnfcs"):
        shown = kind.present(attributes, name) if kind and kind.present else attributes.get(name)
        for node, values in shown.items() if isinstance(shown, Mapping) else ():
            found[node] = values.get("labels") or {}
    return found


def _taints(pool: Pool, attributes: Mapping[str, Any]) -> Iterable[Taint]:
    if pool.control_plane:
        yield CONTROL_PLANE_TAINT
        return
    values: Any = attributes
    for step in pool.demand.path:
        values = values.get(step, {}) if isinstance(values, Mapping) else {}
    for taint in values.get("taint") or [] if isinstance(values, Mapping) else []:
        yield Taint(str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect")))


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
