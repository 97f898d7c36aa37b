"""Pods of a cluster snapshot.

Nodes are from clusters, templates from manifests, locations from plans, and observed nodes and
pods from kubectl.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.importers.kubectl_snapshot import KubectlSnapshot
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.importers.pod_admission import collect_resource_quotas
from nexusform.domains.pods.planning.cluster_observation import (
    ObservedCluster,
    apply_observed_usage,
    match_cluster_snapshot,
    merge_observed_pods,
)
from nexusform.domains.pods.planning.cluster_pods import build_cluster
from nexusform.domains.pods.planning.manifest_blocks import (
    collect_hub_objects,
    collect_prior_members,
    list_prior_pods,
)
from nexusform.domains.pods.planning.node_clusters import NodeCluster, build_existing_clusters
from nexusform.domains.pods.planning.object_pods import PriorPods
from nexusform.domains.pods.planning.template_matching import assign_template_specs
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodKey, Workload
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.interfaces.plugins import PluginRegistries
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

    Such a controller is not in `workloads`.
    """
    manifest_keys = {workload.key for workload in workloads}
    for key, own_pods in group_by(existing, lambda pod: pod.workload).items():
        namespace, kind, name = key.split("/", 2)
        # Pods in deletion or of a DaemonSet are not placed again.
        if key not in manifest_keys and kind not in ("Terminating", "DaemonSet"):
            # The spec of the first pod is taken for all of its pods.
            spec = own_pods[0].spec
            yield Workload(kind, namespace, name, replicas=len(own_pods), pod=spec)


class _PodSources(Struct, frozen=True):
    """Sources of pods: manifests on the hub, and the pods of each object by cluster id."""

    hub: tuple[Manifest, ...]
    prior_pods: Mapping[str, Sequence[PriorPods]]

    def has_pods(self, cluster_id: str) -> bool:
        """Return True if pods of a cluster are known."""
        prior_pods = self.prior_pods.get(cluster_id, ())
        return any(prior.workloads or _is_direct(prior) for prior in prior_pods)


def _is_direct(prior: PriorPods) -> bool:
    """Return whether a manifest applies the pods to their cluster, without a placement."""
    return parse_address(prior.address).type == MANIFEST_TYPE


def _collect_pod_sources(state: State, registries: PluginRegistries) -> _PodSources:
    """Collect manifests and planned locations of pods, by creation."""
    members = collect_prior_members(state.instances, registries)
    prior_pods = list_prior_pods(state.instances, registries, members)
    return _PodSources(
        collect_hub_objects(state.instances, registries),
        group_by(prior_pods, lambda prior: prior.cluster_id),
    )


def _build_cluster_pods(
    cluster: NodeCluster, sources: _PodSources, observations: ClusterObservations
) -> ClusterPods:
    """Build the pods of a cluster.

    They are the pods of workloads applied directly or by placements, and those listed by kubectl.
    If a workload has no planned pods in state, pods are placed now.
    """
    direct: list[Manifest] = []
    by_placements: list[Manifest] = []
    placed_workloads: set[str] = set()
    prior_pods = sources.prior_pods.get(cluster.id, ())
    for prior in prior_pods:
        (direct if _is_direct(prior) else by_placements).extend(prior.manifests)
        placed_workloads.update(prior.workloads)
    observed = observations.bind_cluster(cluster.id, cluster, placed_workloads) or ObservedCluster(
        cluster
    )
    # Applied objects are used as configured, not as listed by kubectl.
    own_identities = {manifest.identity for manifest in (*direct, *by_placements)}
    other_objects = [
        manifest for manifest in observed.objects if manifest.identity not in own_identities
    ]
    # With Services, quotas ... affecting the workloads.
    context_objects = [*sources.hub, *other_objects]
    candidates = collect_workloads(by_placements, context_objects).workloads
    # Workloads placed on this cluster.
    selected = [workload for workload in candidates if workload.key in placed_workloads]
    workloads = (*collect_workloads(direct, context_objects).workloads, *selected)
    all_objects = [*direct, *by_placements, *other_objects]
    # Without a workload placed here, no placement is known to apply its budgets to this cluster.
    budget_objects = [*direct, *(by_placements if selected else []), *other_objects]
    managed_keys = {workload.key for workload in workloads}
    quotas = apply_observed_usage(collect_resource_quotas(all_objects), observed, managed_keys)
    model = build_cluster(
        observed.cluster, all_objects, observed, quotas=quotas, budget_manifests=budget_objects
    )
    existing = _list_existing_pods(workloads, prior_pods, observed)
    # Without planned pods: place them now.
    if any(workload.key not in placed_workloads for workload in workloads):
        existing = predict(model, existing, workloads).list_existing_pods()
    workloads = (*workloads, *_build_unmanaged_workloads(workloads, existing))
    return ClusterPods(cluster.id, model, workloads, existing)


def _list_existing_pods(
    workloads: Sequence[Workload], prior_pods: Iterable[PriorPods], observed: ObservedCluster
) -> tuple[ExistingPod, ...]:
    """List the pods planned in state, and those listed by kubectl."""
    node_names = {node.name for node in observed.cluster.nodes}
    by_key = {workload.key: workload for workload in workloads}
    existing: dict[PodKey, ExistingPod] = {}
    for prior in prior_pods:
        for _, pod in prior.list_existing_pods(by_key):
            if pod.workload in by_key:
                # "": its node is removed.
                node = pod.node if pod.node in node_names else ""
                existing[pod.key] = replace(pod, node=node)
    _add_observed_pods(existing, observed, workloads)
    return tuple(existing.values())


def _add_observed_pods(
    existing: dict[PodKey, ExistingPod], observed: ObservedCluster, workloads: Iterable[Workload]
) -> None:
    """Add observed pods, replacing planned ones of equal number.

    Pods of `workloads` get the specs of templates.
    """
    observed_pods = merge_observed_pods(
        existing, observed.existing_pods, observed.cluster.node_by_name
    )
    for workload in workloads:
        own_pods = observed_pods.get(workload.key, ())
        for pod in assign_template_specs(workload, own_pods, is_complete=observed.is_complete):
            existing[pod.workload, pod.number] = pod
