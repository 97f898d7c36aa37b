"""Pods of a cluster snapshot.

Nodes from clusters, templates from manifests, locations from plans, and observed nodes and pods
from kubectl.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.importers.kubectl_snapshot import KubectlSnapshot
from nexusform.domains.pods.importers.kubernetes_volumes import collect_cluster_storage
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest
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
from nexusform.domains.pods.planning.manifest_blocks import (
    collect_hub_objects,
    collect_prior_members,
    list_prior_pods,
)
from nexusform.domains.pods.planning.node_clusters import NodeCluster, build_existing_clusters
from nexusform.domains.pods.planning.object_pods import parse_pod_number
from nexusform.domains.pods.planning.pod_rows import parse_volumes
from nexusform.domains.pods.planning.template_matching import assign_template_specs
from nexusform.domains.pods.scheduling.cluster_records import Cluster as PodCluster
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodKey, Workload
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.placement_kinds.placement_kind import VM
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.resources.address import parse_address
from nexusform.snapshots.snapshot import list_state_objects
from nexusform.state.objects import State

MANIFEST_TYPE = "fleet_hub_manifest"


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
    state: State, registries: PluginRegistries, observations: ClusterObservations = NO_OBSERVATIONS
) -> Mapping[str, ClusterPods]:
    """Build the known pods of every cluster with VMs, by cluster id.

    Pods of a manifest without a planned location are placed. Clusters listed by kubectl use their
    listed nodes and all of their workloads.
    """
    sources = _collect_pod_sources(state, registries)
    clusters = _build_state_clusters(state, registries)
    return {
        cluster_id: _build_cluster_pods(cluster, sources, observations)
        for cluster_id, cluster in clusters.items()
        if sources.has_pods(cluster_id) or cluster_id in observations.clusters
    }


def build_observed_pods(
    state: State, registries: PluginRegistries, observations: ClusterObservations
) -> Mapping[str, ClusterPods]:
    """Build the pods of every cluster listed by kubectl, by cluster id.

    All workloads of the cluster are included.
    """
    sources = _collect_pod_sources(state, registries)
    clusters = _build_state_clusters(state, registries)
    pods_by_cluster: dict[str, ClusterPods] = {}
    for cluster_id in observations.clusters:
        # Without VMs in the state, it has the listed nodes only.
        cluster = clusters.get(cluster_id) or NodeCluster(cluster_id, cluster_id, "", nodes=())
        pods_by_cluster[cluster_id] = _build_cluster_pods(cluster, sources, observations)
    return pods_by_cluster


def _build_state_clusters(state: State, registries: PluginRegistries) -> Mapping[str, NodeCluster]:
    """Build the clusters with VMs in a state, by id."""
    return build_existing_clusters(list_state_objects(state), registries, state.catalogue)


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
    the pod locations by cluster id and workload.
    """

    hub: tuple[Manifest, ...]
    direct: dict[str, list[Manifest]] = field(default_factory=dict)
    by_placements: dict[str, list[Manifest]] = field(default_factory=dict)
    placed: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)

    def has_pods(self, cluster_id: str) -> bool:
        """Return True if pods of a cluster are known."""
        return cluster_id in self.direct or cluster_id in self.placed


def _collect_pod_sources(state: State, registries: PluginRegistries) -> _PodSources:
    """Collect manifests and planned locations of pods, by creation.

    Applied to clusters, to the hub, by placements.
    """
    sources = _PodSources(hub=collect_hub_objects(state.instances, registries))
    members = collect_prior_members(state.instances, registries)
    for prior in list_prior_pods(state.instances, registries, members):
        is_placement = parse_address(prior.address).type != MANIFEST_TYPE
        by_cluster = sources.by_placements if is_placement else sources.direct
        by_cluster.setdefault(prior.cluster_id, []).extend(prior.manifests)
        if prior.workloads or not is_placement:
            sources.placed.setdefault(prior.cluster_id, {}).update(prior.workloads)
    return sources


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
