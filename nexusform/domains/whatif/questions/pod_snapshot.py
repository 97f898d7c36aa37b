"""Pods of a cluster snapshot.

Nodes from clusters, templates from manifests, locations from plans, and observed nodes and pods
from kubectl.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.fleet.planning.placement_records import list_cluster_objects
from nexusform.domains.pods.importers.kubectl_snapshot import KubectlSnapshot
from nexusform.domains.pods.importers.kubernetes_volumes import collect_cluster_storage
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest, unwrap_envelopes
from nexusform.domains.pods.importers.pod_admission import (
    collect_pod_disruption_budgets,
    collect_resource_quotas,
)
from nexusform.domains.pods.planning.cluster_observation import (
    ObservedCluster,
    apply_observed_budget_status,
    apply_observed_usage,
    match_cluster_snapshot,
    merge_observed_pods,
)
from nexusform.domains.pods.planning.manifest_blocks import parse_objects
from nexusform.domains.pods.planning.node_clusters import (
    NodeCluster,
    build_node,
    find_cluster_attributes,
)
from nexusform.domains.pods.planning.object_pods import parse_pod_number
from nexusform.domains.pods.planning.pod_rows import parse_volumes
from nexusform.domains.pods.planning.template_matching import assign_template_specs
from nexusform.domains.pods.scheduling.cluster_records import Cluster as PodCluster
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, Node, PodKey, Workload
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.placement_kinds.placement_kind import VM
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.plans.site_capacity.occupancy import VmOwnerKind
from nexusform.scheduling.racks.vms import VmSku
from nexusform.snapshots.snapshot import Snapshot, VmOwnerSnapshot

MANIFEST_TYPE = "fleet_hub_manifest"
MEMBER_TYPE = "fleet_member_cluster"


class ClusterObservations(Struct, frozen=True):
    """Clusters listed by kubectl, by id.

    After a plan, `recreated` are the VMs it removes or re-creates, and `has_planned_pods` is True,
    since it predicted its own pods.
    """

    clusters: Mapping[str, KubectlSnapshot] = field(default_factory=dict)
    recreated: frozenset[str] = frozenset()
    has_planned_pods: bool = False

    def bind_cluster(
        self, cluster_id: str, cluster: NodeCluster | None, own_workloads: Collection[str]
    ) -> ObservedCluster | None:
        """Return a cluster with its observed nodes and pods, None if not observed.

        After a plan, the observed pods of `own_workloads` (keys) become `replaced_pods`, as the
        plan has predicted others in their place.
        """
        observation = self.clusters.get(cluster_id)
        # No data block lists it.
        if observation is None:
            return None
        observed = match_cluster_snapshot(cluster_id, cluster, observation, self.recreated)
        # Every observed pod is current.
        if not self.has_planned_pods:
            return observed
        other_pods = tuple(
            pod for pod in observed.existing_pods if pod.workload not in own_workloads
        )
        own_pods = tuple(pod for pod in observed.existing_pods if pod.workload in own_workloads)
        return replace(observed, existing_pods=other_pods, replaced_pods=own_pods)


NO_OBSERVATIONS: Final = ClusterObservations()


def build_observations_after(
    plan: Plan, clusters: Mapping[str, KubectlSnapshot]
) -> ClusterObservations:
    """Return the observations for the snapshot after a plan.

    They include the names of VMs removed or moved by it.
    """
    recreated: set[str] = set()
    for row in plan.placements:
        if row.kind == VM and row.action in (PlacementAction.REMOVE, PlacementAction.MOVE):
            # "": no known platform name.
            recreated |= {row.object, row.platform_name} - {""}
    return ClusterObservations(clusters, frozenset(recreated), has_planned_pods=True)


def build_pods(
    objects: Iterable[SiteObject],
    snapshot: Snapshot,
    registries: PluginRegistries,
    observations: ClusterObservations = NO_OBSERVATIONS,
) -> Mapping[str, ClusterPods]:
    """Build the known pods of every cluster, by cluster id.

    Pods of a manifest without a planned location are placed. Clusters listed by kubectl use their
    listed nodes and all of their workloads.
    """
    sources = _collect_pod_sources(objects)
    pods_by_cluster: dict[str, ClusterPods] = {}
    for cluster in snapshot.list_clusters():
        has_pods = sources.has_pods(cluster.id) or cluster.id in observations.clusters
        # A single VM has no pods.
        if cluster.kind is not VmOwnerKind.VM and has_pods:
            node_cluster = _build_node_cluster(cluster, sources.attributes, registries)
            pods_by_cluster[cluster.id] = _build_cluster_pods(node_cluster, sources, observations)
    return pods_by_cluster


def build_observed_pods(
    objects: Iterable[SiteObject],
    snapshot: Snapshot,
    registries: PluginRegistries,
    observations: ClusterObservations,
) -> Mapping[str, ClusterPods]:
    """Build the pods of every cluster listed by kubectl, by cluster id.

    All workloads of the cluster are included.
    """
    sources = _collect_pod_sources(objects)
    clusters = {
        cluster.id: cluster
        for cluster in snapshot.list_clusters()
        if cluster.kind is not VmOwnerKind.VM
    }
    pods_by_cluster: dict[str, ClusterPods] = {}
    for cluster_id in observations.clusters:
        # If not in the snapshot.
        node_cluster = NodeCluster(id=cluster_id, name=cluster_id, site_id="", nodes=())
        if cluster_id in clusters:
            node_cluster = _build_node_cluster(clusters[cluster_id], sources.attributes, registries)
        pods_by_cluster[cluster_id] = _build_cluster_pods(node_cluster, sources, observations)
    return pods_by_cluster


def _build_unmanaged_workloads(
    workloads: Iterable[Workload], existing: Iterable[ExistingPod]
) -> Iterable[Workload]:
    """Yield a workload for each controller without a manifest, built from its pods.

    Not in `workloads`.
    """
    manifest_keys = {workload.key for workload in workloads}
    for key, own_pods in group_by(existing, lambda pod: pod.workload).items():
        namespace, kind, name = key.split("/", 2)
        # Pods in deletion or of a DaemonSet are not placed again.
        if key not in manifest_keys and kind not in ("Terminating", "DaemonSet"):
            # taken for all of its pods.
            spec = own_pods[0].spec
            yield Workload(kind, namespace, name, replicas=len(own_pods), pod=spec)


class _PodSources(Struct, frozen=True):
    """Sources of pods: manifests on the hub.

    `direct` (applied without a placement) and `by_placements` have them by cluster id. `placed` has
    the pod locations by cluster id and workload, and `attributes` those of all objects by address.
    """

    attributes: Mapping[str, Mapping[str, Any]]
    hub: list[Manifest] = field(default_factory=list)
    direct: dict[str, list[Manifest]] = field(default_factory=dict)
    by_placements: dict[str, list[Manifest]] = field(default_factory=dict)
    placed: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)

    def has_pods(self, cluster_id: str) -> bool:
        """Return True if pods of a cluster are known."""
        return cluster_id in self.direct or cluster_id in self.placed


def _collect_pod_sources(objects: Iterable[SiteObject]) -> _PodSources:
    """Collect manifests and planned locations of pods, by creation.

    Applied to clusters, to the hub, by placements.
    """
    ordered_objects = sorted(objects, key=lambda site_object: site_object.creation)
    # A member without a cluster of its own is known by its name, as in a plan.
    cluster_id_by_member = {
        str(site_object.attributes.get("name")): cluster_id
        for site_object in ordered_objects
        if site_object.address.type == MEMBER_TYPE
        for cluster_id in (get_text(site_object.attributes, "kubernetes_cluster_id"),)
        if cluster_id
    }
    sources = _PodSources(
        {str(site_object.address): site_object.attributes for site_object in ordered_objects}
    )
    for site_object in ordered_objects:
        # Of a manifest; "": applied on the hub.
        target = str(site_object.attributes.get("cluster_id") or "")
        if site_object.address.type == MANIFEST_TYPE:
            manifests = parse_objects(site_object.attributes)
            destination = sources.direct.setdefault(target, []) if target else sources.hub
            destination.extend(manifests)
        for cluster_id, workloads in _list_placed_workloads(
            site_object, target, cluster_id_by_member
        ):
            sources.placed.setdefault(cluster_id, {}).update(workloads)
        # The objects applied by a placement to each member; None if state has none.
        recorded_objects = list_cluster_objects(site_object.attributes, site_object.note)
        for member, member_objects in (recorded_objects or {}).items():
            cluster_manifests = sources.by_placements.setdefault(
                cluster_id_by_member.get(member, member), []
            )
            cluster_manifests.extend(unwrap_envelopes(member_objects).manifests)
    return sources


def _list_placed_workloads(
    site_object: SiteObject, target: str, cluster_id_by_member: Mapping[str, str]
) -> Iterable[tuple[str, dict[str, Mapping[str, Any]]]]:
    """Yield pairs of a cluster id and the pods by workload, as recorded with an object.

    A manifest has the pods on its `target`. A placement has pods on each member. The id "" means
    the hub.
    """
    attribute = site_object.attributes.get("workloads")
    # An object without pods.
    if not isinstance(attribute, Mapping):
        return
    if site_object.address.type == MANIFEST_TYPE:
        yield target, dict(attribute)
        return
    for member, workloads in attribute.items():
        if isinstance(workloads, Mapping):
            yield cluster_id_by_member.get(member, member), dict(workloads)


def _build_cluster_pods(
    cluster: NodeCluster, sources: _PodSources, observations: ClusterObservations
) -> ClusterPods:
    """Build the pods of a cluster.

    Those of workloads applied directly or by placements, and those listed by kubectl. If a workload
    has no planned pods in state, pods are placed now.
    """
    direct = sources.direct.get(cluster.id, [])
    placed_workloads = sources.placed.get(cluster.id, {})
    observed = observations.bind_cluster(
        cluster.id, cluster, placed_workloads.keys()
    ) or ObservedCluster(cluster)
    # State does not record the objects applied by an imported placement, so all objects of the hub
    # are candidates.
    by_placements = sources.by_placements.get(cluster.id, sources.hub)
    # Applied objects are used as configured, not as listed by kubectl.
    own_identities = {manifest.identity for manifest in (*direct, *by_placements)}
    other_objects = [
        manifest for manifest in observed.objects if manifest.identity not in own_identities
    ]
    # With Services, quotas ... affecting the workloads.
    context_objects = [*sources.hub, *other_objects]
    candidates = collect_workloads(by_placements, context_objects).workloads
    # placed on this cluster.
    selected = [workload for workload in candidates if workload.key in placed_workloads]
    workloads = (*collect_workloads(direct, context_objects).workloads, *selected)
    all_objects = [*direct, *by_placements, *other_objects]
    # Without a workload placed here, no placement is known to apply its budgets to this cluster.
    budget_objects = [*direct, *(by_placements if selected else []), *other_objects]
    model = _build_pod_cluster(cluster.name, observed, all_objects, budget_objects, workloads)
    existing = _list_existing_pods(workloads, placed_workloads, observed)
    # Without planned pods: place them now.
    if any(workload.key not in placed_workloads for workload in workloads):
        existing = predict(model, existing, workloads).list_existing_pods()
    workloads = (*workloads, *_build_unmanaged_workloads(workloads, existing))
    return ClusterPods(cluster.id, model, workloads, existing)


def _build_pod_cluster(
    name: str,
    observed: ObservedCluster,
    all_objects: Sequence[Manifest],
    budget_objects: Sequence[Manifest],
    workloads: Sequence[Workload],
) -> PodCluster:
    """Build the cluster for scheduling.

    Its nodes (listed ones, if any), quotas, budgets, volumes and namespaces.
    """
    storage = collect_cluster_storage(
        all_objects, is_complete=observed.is_complete, has_all_classes=observed.has_all_classes
    )
    managed_keys = {workload.key for workload in workloads}
    return PodCluster(
        name,
        observed.cluster.nodes,
        quotas=apply_observed_usage(collect_resource_quotas(all_objects), observed, managed_keys),
        budgets=apply_observed_budget_status(
            collect_pod_disruption_budgets(budget_objects), observed
        ),
        volumes=storage.volumes,
        claims=storage.claims,
        invalid_claims=storage.invalid_claims,
        attach_limits=storage.attach_limits,
        namespaces={
            manifest.name: manifest.labels
            for manifest in all_objects
            if (manifest.group, manifest.kind) == ("", "Namespace")
        },
        nominated_pods=observed.nominated_pods,
        version=observed.cluster.version,
    )


def _list_existing_pods(
    workloads: Sequence[Workload], placed_workloads: Mapping[str, Any], observed: ObservedCluster
) -> tuple[ExistingPod, ...]:
    """List the pods planned in state, and those listed by kubectl.

    `placed_workloads` are locations by workload key.
    """
    node_names = {node.name for node in observed.cluster.nodes}
    existing: dict[PodKey, ExistingPod] = {}
    for workload in workloads:
        for pod in _build_planned_pods(
            workload, get_mapping(placed_workloads, workload.key), node_names
        ):
            existing[pod.workload, pod.number] = pod
    _add_observed_pods(existing, observed, workloads)
    return tuple(existing.values())


def _add_observed_pods(
    existing: dict[PodKey, ExistingPod], observed: ObservedCluster, workloads: Iterable[Workload]
) -> None:
    """Add observed pods, replacing planned ones of equal number.

    Those of `workloads` get the specs of templates.
    """
    observed_pods = merge_observed_pods(
        existing, observed.existing_pods, observed.cluster.node_by_name
    )
    for workload in workloads:
        own_pods = observed_pods.get(workload.key, ())
        for pod in assign_template_specs(workload, own_pods, is_complete=observed.is_complete):
            existing[pod.workload, pod.number] = pod


def _build_planned_pods(
    workload: Workload, pods: Mapping[str, Any], nodes: set[str]
) -> Iterable[ExistingPod]:
    """Build the planned pods of a workload.

    `pods`: recorded locations by name; `nodes`: names of existing nodes.
    """
    for name, location in pods.items():
        node = get_text(location, "node")
        yield ExistingPod(
            workload.key,
            parse_pod_number(workload.key, name),
            # Its node is removed.
            node if node in nodes else "",
            workload.pod,
            volumes=parse_volumes(location) if isinstance(location, Mapping) else (),
        )


def _build_node_cluster(
    cluster: VmOwnerSnapshot,
    attributes: Mapping[str, Mapping[str, Any]],
    registries: PluginRegistries,
) -> NodeCluster:
    """Build a cluster with its VMs as nodes."""
    types = registries.resource_types
    values = [
        (types[pool.address.type].kind, attributes[str(pool.address)]) for pool in cluster.pools
    ]
    # None for a VNF.
    cluster_values = find_cluster_attributes(values)
    nodes: list[Node] = []
    skus: list[VmSku] = []
    # names of VMs by platform name.
    platform_names: dict[str, str] = {}
    for pool in cluster.pools:
        family = types[pool.address.type].vms
        assert family is not None, "only objects with VMs have pools"
        pool_values = attributes[str(pool.address)]
        owner_values = pool_values if cluster_values is None else cluster_values
        for vm in pool.vms:
            nodes.append(
                build_node(vm, pool.sku, family.describe_node(pool_values, vm, owner_values))
            )
            skus.append(pool.sku)
            if vm.platform_name:
                platform_names[vm.platform_name] = vm.name
    return NodeCluster(
        id=cluster.id,
        name=cluster.name,
        site_id=cluster.site_id,
        nodes=tuple(nodes),
        skus=tuple(skus),
        node_by_name={node.name: node for node in nodes},
        platform_names=platform_names,
    )
