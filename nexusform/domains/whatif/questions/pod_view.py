"""The pods of a world: nodes from clusters, templates from manifests, places from what was planned, and real
nodes with what runs there from clusters as kubectl printed them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.planning.contents import objects_on_clusters
from nexusform.domains.pods.importers.kubernetes_admission import read_budgets, read_quotas
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, read_manifests, unwrapped
from nexusform.domains.pods.importers.kubernetes_nodes import Observation
from nexusform.domains.pods.importers.kubernetes_volumes import read_offer
from nexusform.domains.pods.importers.kubernetes_workloads import workloads_of
from nexusform.domains.pods.planning.brought import PodKey
from nexusform.domains.pods.planning.disruptions import as_stated
from nexusform.domains.pods.planning.nodes import NodeCluster, cluster_attributes, node_of
from nexusform.domains.pods.planning.observed import ObservedCluster, bind, stand_where_seen
from nexusform.domains.pods.planning.rows import volumes_of
from nexusform.domains.pods.planning.templates import as_made
from nexusform.domains.pods.scheduling.scheduler import predict
from nexusform.domains.pods.scheduling.workloads import Cluster as PodCluster
from nexusform.domains.pods.scheduling.workloads import Node, StandingPod, Workload
from nexusform.domains.whatif.questions.pods_down import ClusterPods
from nexusform.placement_kinds.kinds import VM
from nexusform.planning.vms.sites import Thing
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.ports import Registries
from nexusform.scheduling.racks.vms import VmSku
from nexusform.worlds.world_view import Cluster, OwnerKind, WorldView


class Sight(Struct, frozen=True):
    """What kubectl printed of clusters, by id. Of the world after a plan, `remade` are the VMs that it
    removes or makes anew, and `planned` says that it has foretold the pods of its own workloads already.
    """

    clusters: Mapping[str, Observation] = field(default_factory=dict)
    remade: frozenset[str] = frozenset()
    planned: bool = False

    def bound(
        self, cluster_id: str, cluster: NodeCluster | None, brought: Collection[str]
    ) -> ObservedCluster | None:
        """A cluster with its real nodes, and what was seen to run there; None where nobody looked. `brought`
        are the keys of the workloads that objects of this configuration brought there.
        """
        observation = self.clusters.get(cluster_id)
        if observation is None:
            return None
        observed = bind(cluster_id, cluster, observation, self.remade)
        if not self.planned:
            return observed
        besides = tuple(pod for pod in observed.standing if pod.workload not in brought)
        own = tuple(pod for pod in observed.standing if pod.workload in brought)
        return replace(observed, standing=besides, own=own)


NOTHING_SEEN: Final = Sight()


def sight_after(plan: Plan, clusters: Mapping[str, Observation]) -> Sight:
    """What was seen of clusters before a plan, for the world after it."""
    remade: set[str] = set()
    for row in plan.placements:
        if row.kind == VM and row.action in (PlacementAction.REMOVE, PlacementAction.MOVE):
            remade |= {row.object, row.platform_name} - {""}
    return Sight(clusters, frozenset(remade), planned=True)


MANIFEST_TYPE = "fleet_hub_manifest"
MEMBER_TYPE = "fleet_member_cluster"


def view_pods(
    things: Iterable[Thing], world: WorldView, registries: Registries, sight: Sight = NOTHING_SEEN
) -> Mapping[str, ClusterPods]:
    """The pods of every cluster on which any are known, by cluster id.

    Pods of a manifest that no plan has placed yet are put where they would go. Where a cluster was looked at,
    its nodes are the real ones, and what runs there besides holds its room.
    """
    in_order = sorted(things, key=lambda thing: thing.creation)
    attributes = {str(thing.address): thing.attributes for thing in in_order}
    brought = _brought(in_order)
    views: dict[str, ClusterPods] = {}
    for cluster in world.clusters():
        if cluster.kind is not OwnerKind.VM and brought.reaches(cluster.id):
            nodes = _node_cluster(cluster, attributes, registries)
            observed = sight.bound(cluster.id, nodes, brought.placed.get(cluster.id, {}).keys())
            views[cluster.id] = _pods(nodes, brought, observed)
    return views


class _Brought(Struct, frozen=True):
    """What brings pods: the manifests of the hub, those of one cluster by its id, given directly or by
    placements, and where their pods are: by cluster id and workload.
    """

    hub: list[Manifest] = field(default_factory=list)
    direct: dict[str, list[Manifest]] = field(default_factory=dict)
    by_placements: dict[str, list[Manifest]] = field(default_factory=dict)
    placed: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)

    def reaches(self, cluster_id: str) -> bool:
        """Whether anything is known of a cluster's pods."""
        return cluster_id in self.direct or cluster_id in self.placed


def _brought(things: Sequence[Thing]) -> _Brought:
    """What these objects bring pods with, and where their pods are."""
    members = _clusters_of_members(things)
    brought = _Brought()
    for thing in things:
        target = str(thing.attributes.get("cluster_id") or "")
        if thing.address.type == MANIFEST_TYPE:
            text = str(thing.attributes.get("yaml_body") or "")
            manifests = unwrapped(read_manifests(str(thing.address), text).manifests).manifests
            destination = brought.direct.setdefault(target, []) if target else brought.hub
            destination.extend(manifests)
        for cluster_id, workloads in _placed(thing, target, members):
            brought.placed.setdefault(cluster_id, {}).update(workloads)
        for member, objects in (objects_on_clusters(thing.attributes, thing.note) or {}).items():
            on_cluster = brought.by_placements.setdefault(members.get(member, ""), [])
            on_cluster.extend(unwrapped(objects).manifests)
    return brought


def _clusters_of_members(things: Iterable[Thing]) -> dict[str, str]:
    """The id of the cluster that each member of the fleet is, by the member's name."""
    members = [thing.attributes for thing in things if thing.address.type == MEMBER_TYPE]
    return {str(values.get("name")): str(values.get("kubernetes_cluster_id") or "") for values in members}


def _placed(
    thing: Thing, target: str, members: Mapping[str, str]
) -> Iterable[tuple[str, dict[str, Mapping[str, Any]]]]:
    """Per cluster id, workload keys with their pods, as a manifest or a placement holds them. `target` is the
    cluster that a manifest names, "" for the hub; `members` the clusters of members.
    """
    attribute = thing.attributes.get("workloads")
    if not isinstance(attribute, Mapping):
        return
    if thing.address.type == MANIFEST_TYPE:
        if target:
            yield target, dict(attribute)
        return
    for member, workloads in attribute.items():
        cluster_id = members.get(member, "")
        if cluster_id and isinstance(workloads, Mapping):
            yield cluster_id, dict(workloads)


def _pods(cluster: NodeCluster, brought: _Brought, observed: ObservedCluster | None) -> ClusterPods:
    """Workloads given to the cluster directly, and those that placements put there."""
    direct, placed = brought.direct.get(cluster.id, []), brought.placed.get(cluster.id, {})
    # An imported placement notes no objects: they are those on the hub.
    by_placements = brought.by_placements.get(cluster.id, brought.hub)
    # What is brought is as it says, not as kubectl saw it.
    named = {_identity(each) for each in (*direct, *by_placements)}
    objects_seen = observed.objects if observed is not None else ()
    seen = [each for each in objects_seen if _identity(each) not in named]
    candidates = workloads_of(by_placements, [*brought.hub, *seen]).workloads
    selected = [workload for workload in candidates if workload.key in placed]
    workloads = (*workloads_of(direct, [*brought.hub, *seen]).workloads, *selected)
    everything = [*direct, *by_placements, *seen]
    objects = [*direct, *(by_placements if selected else []), *seen]
    nodes = cluster.nodes if observed is None else observed.cluster.nodes
    offer = read_offer(everything, is_whole=observed is None or observed.is_whole)
    model = PodCluster(
        cluster.name,
        nodes,
        quotas=read_quotas(everything),
        budgets=as_stated(read_budgets(objects), observed),
        volumes=offer.volumes,
        claims=offer.claims,
        wrong=offer.wrong,
        namespaces=_namespaces(everything),
        promised=observed.promised if observed is not None else (),
        version=cluster.version if observed is None else observed.cluster.version,
    )
    names = {node.name for node in nodes}
    standing: dict[PodKey, StandingPod] = {}
    for workload in workloads:
        for pod in _standing(workload, placed.get(workload.key), names):
            standing[pod.workload, pod.number] = pod
    if observed is not None:
        _stand_where_seen(standing, observed, workloads)
    pods = tuple(standing.values())
    if any(workload.key not in placed for workload in workloads):
        pods = predict(model, pods, workloads).standing()
    return ClusterPods(cluster.id, model, workloads, pods)


def _identity(manifest: Manifest) -> tuple[str, str, str, str]:
    return (manifest.group, manifest.kind, manifest.namespace, manifest.name)


def _namespaces(manifests: Iterable[Manifest]) -> dict[str, Mapping[str, str]]:
    """The labels of namespaces, by name."""
    return {each.name: each.labels for each in manifests if (each.group, each.kind) == ("", "Namespace")}


def _stand_where_seen(
    standing: dict[PodKey, StandingPod], observed: ObservedCluster, workloads: Iterable[Workload]
) -> None:
    """Let what was seen hold its room; pods of these workloads are as they were made."""
    facts = stand_where_seen(standing, observed.standing, observed.cluster.by_name)
    for workload in workloads:
        seen = facts.get(workload.key, ())
        for pod in as_made(workload, seen, is_whole=observed.is_whole):
            standing[pod.workload, pod.number] = pod


def _standing(workload: Workload, pods: Mapping[str, Any] | None, nodes: set[str]) -> Iterable[StandingPod]:
    """The pods of a workload as they were planned; on no node where that one is not there any more."""
    for name, place in (pods or {}).items():
        node = _node_named(place)
        yield StandingPod(
            workload.key,
            _number(workload, name),
            node if node in nodes else "",
            workload.pod,
            volumes=volumes_of(place) if isinstance(place, Mapping) else (),
        )


def _node_named(place: Any) -> str:
    return str(place.get("node") or "") if isinstance(place, Mapping) else ""


def _number(workload: Workload, pod: str) -> int:
    """The number in a pod's name as `Workload.pod_name` makes it."""
    digits = pod.rpartition("-")[2]
    return int(digits) if digits.isdecimal() and workload.kind != "Pod" else 0


# --- nodes -------------------------------------------------------------------------------------


def _node_cluster(
    cluster: Cluster, attributes: Mapping[str, Mapping[str, Any]], registries: Registries
) -> NodeCluster:
    """A cluster with the nodes that its VMs are."""
    kinds = registries.resource_types
    values = [(kinds[pool.address.type].kind, attributes[str(pool.address)]) for pool in cluster.pools]
    whose = cluster_attributes(values)
    nodes: list[Node] = []
    skus: list[VmSku] = []
    platform_names: dict[str, str] = {}
    for pool in cluster.pools:
        family = kinds[pool.address.type].vms
        assert family is not None, "only what has VMs has pools"
        of_pool = attributes[str(pool.address)]
        of_cluster = of_pool if whose is None else whose
        for vm in pool.vms:
            nodes.append(node_of(vm, pool.sku, family.node(of_pool, vm, of_cluster)))
            skus.append(pool.sku)
            if vm.platform_name:
                platform_names[vm.platform_name] = vm.name
    return NodeCluster(
        cluster.id,
        cluster.name,
        cluster.site_id,
        tuple(nodes),
        tuple(skus),
        by_name={node.name: node for node in nodes},
        platform_names=platform_names,
    )
