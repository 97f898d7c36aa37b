"""Nodes, pods and applied objects of every cluster during planning."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.importers import appliance_claims
from nexusform.domains.pods.importers.appliance_claims import Claims
from nexusform.domains.pods.importers.device_objects import collect_device_inventory
from nexusform.domains.pods.importers.kubernetes_volumes import collect_cluster_storage
from nexusform.domains.pods.importers.kubernetes_workloads import (
    WorkloadContext,
    collect_workload_context,
    read_workloads,
)
from nexusform.domains.pods.importers.live_workloads import REPLICAS_PATH, LiveWorkload
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    is_cluster_scoped,
    select_manifests,
)
from nexusform.domains.pods.importers.object_needs import ClusterInventory
from nexusform.domains.pods.importers.pod_admission import (
    collect_pod_disruption_budgets,
    collect_resource_quotas,
)
from nexusform.domains.pods.planning import cluster_observation
from nexusform.domains.pods.planning.cluster_observation import ObservedCluster
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.object_pods import (
    ObjectPods,
    PriorPods,
    add_previous_maximums,
    build_prior_workloads,
)
from nexusform.domains.pods.planning.snapshot_uncertainty import describe_unlisted_pods
from nexusform.domains.pods.planning.template_matching import (
    create_replacement_check,
    estimate_replicas,
)
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    PodKey,
    ResourceQuota,
    Workload,
)
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.vm_demands import ClaimDemand

# Address of a hub manifest or a placement (as text), and the id of a cluster with its pods.
ObjectKey = tuple[str, str]
_ManifestKey = tuple[str, str, str, str]
NO_PRIOR_PODS: Final = PriorPods(address="", cluster_id="", workloads={})
_NOT_OBSERVED: Final = ObservedCluster(NodeCluster("", "", "", ()))


def build_cluster(
    cluster: NodeCluster,
    manifests: Sequence[Manifest],
    observed: ObservedCluster,
    *,
    quotas: tuple[ResourceQuota, ...],
    budget_manifests: Sequence[Manifest],
) -> Cluster:
    """Return a cluster as read by the scheduler: its nodes, and the effects of the objects on it.

    The budgets are those of `budget_manifests`.
    """
    storage = collect_cluster_storage(
        manifests, is_complete=observed.is_complete, has_all_classes=observed.has_all_classes
    )
    return Cluster(
        name=cluster.name,
        nodes=cluster.nodes,
        namespaces={
            item.name: item.labels for item in select_manifests(manifests, "", "Namespace")
        },
        quotas=quotas,
        budgets=cluster_observation.apply_observed_budget_status(
            collect_pod_disruption_budgets(budget_manifests), observed
        ),
        volumes=storage.volumes,
        claims=storage.claims,
        invalid_claims=storage.invalid_claims,
        attach_limits=storage.attach_limits,
        devices=collect_device_inventory(manifests, observed.objects),
        nominated_pods=observed.nominated_pods,
        version=cluster.version,
        observation_time=observed.snapshot.observation_time,
        extreme_image_values=observed.extreme_image_values,
    )


class PodsByCluster:
    """Clusters of one plan with their pods.

    A name is a cluster's id or, through `members`, a member's.
    """

    def __init__(
        self,
        clusters: Mapping[str, NodeCluster],
        prior: Iterable[PriorPods] = (),
        members: Mapping[str, str] = MappingProxyType({}),
        external_pods: Iterable[PriorPods] = (),
        observed_clusters: Mapping[str, ObservedCluster] = MappingProxyType({}),
    ) -> None:
        """Load the pods in state, and observed pods in their place.

        `prior` are of this state, `external_pods` of other states. `members` are the cluster ids by
        name of the Fleet member.
        """
        self.clusters = clusters
        self.members = members
        self._object_pods: dict[ObjectKey, ObjectPods] = {}
        # The same, by cluster id.
        self._object_pods_by_cluster: dict[str, dict[ObjectKey, ObjectPods]] = {}
        # Cluster ids by object address.
        self._clusters_by_address: dict[str, set[str]] = {}
        # By cluster id, as predicted so far.
        self._existing_pods: dict[str, dict[PodKey, ExistingPod]] = {}
        # By cluster id, all pods before their first prediction, and the lost ones among them.
        self._base_pods: dict[str, dict[PodKey, ExistingPod]] = {}
        self._base_lost_pods: dict[str, frozenset[PodKey]] = {}
        # By cluster id, pods of state on nodes created in this plan, until they are placed again.
        self._lost_pods: dict[str, frozenset[PodKey]] = {}
        # Pairs of cluster id and key; observed workloads do not count.
        self._recreated_workloads: set[tuple[str, str]] = set()
        # Objects with pods evicted since their last prediction.
        self._disturbed_keys: set[ObjectKey] = set()
        # Addresses of forgotten objects, whose pods keep running.
        self._forgotten_addresses: set[str] = set()
        # By cluster with unknown nodes.
        self._unlocated_manifests: list[tuple[str, tuple[Manifest, ...]]] = []
        # By cluster id, of existing objects outside of this plan.
        self._namespaces: dict[str, set[str]] = {}
        # By cluster id, until the objects on the cluster change.
        self._manifests: dict[str, tuple[Manifest, ...]] = {}
        self._workload_contexts: dict[str, WorkloadContext] = {}
        # By cluster id and namespace, labels that others have set.
        self._foreign_labels: dict[str, dict[str, dict[str, str]]] = {}
        # Of objects outside the targets (-target), not removed.
        self._kept_namespaces: dict[ObjectKey, set[str]] = {}
        objects = list(prior)
        self._prior_pods = {(item.address, item.cluster_id): item for item in objects}
        self._prior_pods_by_cluster = group_by(
            self._prior_pods.values(), lambda item: item.cluster_id
        )
        # By cluster id and workload.
        self._prior_workloads = build_prior_workloads(objects)
        for item in objects:
            self._load_prior_pods(item, self._prior_workloads[item.cluster_id])
            self._kept_namespaces[item.address, item.cluster_id] = list_namespaces(item.manifests)
        # Pods of other states use capacity and move only by preemption.
        external_objects = list(external_pods)
        external_workloads = build_prior_workloads(external_objects)
        for item in external_objects:
            existing_pods = self._existing_pods.setdefault(item.cluster_id, {})
            self._namespaces.setdefault(item.cluster_id, set()).update(
                list_namespaces(item.manifests)
            )
            for _, pod in item.list_existing_pods(external_workloads[item.cluster_id]):
                existing_pods.setdefault(pod.key, pod)
        self._observed_clusters: dict[str, ObservedCluster] = dict(observed_clusters)
        # Observed pods by cluster id and workload; their outcomes are recorded in state.
        self._observed_pods = {
            cluster_id: self._load_observed_pods(cluster_id, observed_cluster)
            for cluster_id, observed_cluster in self._observed_clusters.items()
        }

    def _load_prior_pods(self, prior: PriorPods, workloads: Mapping[str, Workload]) -> None:
        """Load the pods of an object in state.

        Those on nodes created in this plan are lost with the former nodes.
        """
        object_pods = self._get_object_pods(prior.address, prior.cluster_id)
        existing_pods = self._existing_pods.setdefault(prior.cluster_id, {})
        pods = list(object_pods.load_prior(prior, workloads))
        existing_pods.update({pod.key: pod for pod in pods})
        cluster = self.clusters.get(prior.cluster_id)
        if cluster is None:
            # It has no nodes in this plan.
            return
        created_nodes = cluster.recreated_nodes | cluster.new_nodes
        lost_pods = {pod.key for pod in pods if pod.node in created_nodes}
        self._lost_pods[prior.cluster_id] = (
            self._lost_pods.get(prior.cluster_id, frozenset()) | lost_pods
        )

    def _load_observed_pods(
        self, cluster_id: str, observed_cluster: ObservedCluster
    ) -> dict[str, list[ExistingPod]]:
        """Load pods at their observed nodes, next to those predicted in state.

        Return the observed ones by workload.
        """
        namespaces = self._namespaces.setdefault(cluster_id, set())
        namespaces |= list_namespaces(observed_cluster.objects)
        namespaces |= {pod.spec.namespace for pod in observed_cluster.existing_pods}
        existing_pods = self._existing_pods.setdefault(cluster_id, {})
        objects = self._object_pods_by_cluster.get(cluster_id, {}).values()
        prior_workloads = self._prior_workloads.get(cluster_id, {})
        # Observed pods replaced since by an applied plan do not count.
        is_replaced = create_replacement_check(
            objects, prior_workloads, is_complete=observed_cluster.is_complete
        )
        node_by_name = observed_cluster.cluster.node_by_name
        observed_pods = cluster_observation.merge_observed_pods(
            existing_pods, observed_cluster.existing_pods, node_by_name, is_replaced
        )
        observed_keys = {pod.key for pod in chain.from_iterable(observed_pods.values())}
        self._lost_pods[cluster_id] = self._lost_pods.get(cluster_id, frozenset()) - observed_keys
        return observed_pods

    def _get_observed_cluster(self, cluster_id: str) -> ObservedCluster:
        """Return the observation of a cluster; an empty one if it is not observed."""
        return self._observed_clusters.get(cluster_id, _NOT_OBSERVED)

    def describe_unlisted_pods(self, cluster_id: str) -> str:
        """Return a clause if pods of an observed cluster were not read; "" otherwise."""
        return describe_unlisted_pods(self._get_observed_cluster(cluster_id).snapshot)

    def _list_read_kinds(self, cluster_id: str) -> frozenset[str]:
        """Return the kinds listed whole: an object of them that was not read does not exist.

        If kubectl listed some namespaces only, these are the cluster-scoped kinds.
        """
        kinds = self._get_observed_cluster(cluster_id).snapshot.listed_kinds
        if not self.describe_unlisted_pods(cluster_id):
            return kinds
        return frozenset(kind for kind in kinds if is_cluster_scoped("", kind))

    def build_inventory(
        self, cluster_id: str, further: Sequence[Manifest] = ()
    ) -> ClusterInventory:
        """Return the objects on a cluster during this plan, to answer for needed ones.

        Objects in `further` count as if they were applied to it.
        """
        namespaces = set(self._namespaces.get(cluster_id, ()))
        for key, kept in self._kept_namespaces.items():
            if key[1] == cluster_id:
                namespaces |= kept
        manifests = (*further, *self._collect_manifests(cluster_id))
        return ClusterInventory(manifests, self._list_read_kinds(cluster_id), namespaces)

    @property
    def observed_cluster_ids(self) -> AbstractSet[str]:
        """Ids of the clusters with nodes and pods read from files."""
        return self._observed_clusters.keys()

    def _get_object_pods(self, address: str, cluster_id: str) -> ObjectPods:
        """Return the pods of an object on a cluster; add an empty collection at the first call."""
        self._clusters_by_address.setdefault(address, set()).add(cluster_id)
        key = (address, cluster_id)
        if key not in self._object_pods:
            self._forget_collected_manifests(cluster_id)
            self._object_pods[key] = ObjectPods()
            self._object_pods_by_cluster.setdefault(cluster_id, {})[key] = self._object_pods[key]
        return self._object_pods[key]

    def sum_requests(self, cluster_name: str) -> tuple[int, int]:
        """Return the requests of the scheduled pods on a cluster: thousandths of a CPU, and bytes.

        Like the property provider of KubeFleet (propertyprovider/azure/trackers/pods.go), count
        those of their containers only.
        """
        cluster_id = self.members.get(cluster_name, cluster_name)
        total_cpu = total_memory = 0
        for pod in self._existing_pods.get(cluster_id, {}).values():
            if pod.node:
                cpu, memory = pod.spec.container_requests
                total_cpu = total_cpu + cpu
                total_memory = total_memory + memory
        return total_cpu, total_memory

    def _map_pods_to_nodes(self, cluster_id: str) -> dict[PodKey, str]:
        return {key: pod.node for key, pod in self._existing_pods.get(cluster_id, {}).items()}

    def _build_cluster(self, cluster: NodeCluster) -> Cluster:
        """Return a cluster as read by the scheduler.

        It has its nodes, and the effects of all objects on it.
        """
        manifests = self._collect_manifests(cluster.id)
        return build_cluster(
            cluster,
            manifests,
            self._get_observed_cluster(cluster.id),
            quotas=self._collect_quotas(manifests, cluster.id),
            budget_manifests=manifests,
        )

    def _collect_quotas(
        self, manifests: Iterable[Manifest], cluster_id: str
    ) -> tuple[ResourceQuota, ...]:
        """Return the quotas of a cluster with their usage by pods outside of predictions.

        Predictions add their own.
        """
        quotas = collect_resource_quotas(manifests)
        # Workloads that are in predictions, or deleted.
        excluded_keys = self._list_managed_keys(cluster_id)
        excluded_keys |= {
            key for other_id, key in self._recreated_workloads if other_id == cluster_id
        }
        # Pending pods of forgotten objects and of other states are among the existing
        # pods of predictions.
        excluded_keys |= {
            pod.workload for pod in self._existing_pods.get(cluster_id, {}).values() if not pod.node
        }
        return cluster_observation.apply_observed_usage(
            quotas, self._get_observed_cluster(cluster_id), excluded_keys
        )

    def _list_managed_keys(self, cluster_id: str) -> set[str]:
        """Return the keys of the workloads of all objects on a cluster, those in state included."""
        objects = self._object_pods_by_cluster.get(cluster_id, {}).values()
        return set().union(*[item.list_keys() | item.prior_pods.keys() for item in objects])

    def _collect_manifests(self, cluster_id: str) -> Sequence[Manifest]:
        """Return the objects on a cluster at this point of the plan, collected after each change.

        The planned ones, those in state but unchanged so far (or only forgotten), and observed ones
        outside the plan.
        """
        if cluster_id not in self._manifests:
            self._manifests[cluster_id] = self._collect_current_manifests(cluster_id)
        return self._manifests[cluster_id]

    def _forget_collected_manifests(self, cluster_id: str) -> None:
        """Let the objects on a cluster be collected again: those of an object have changed."""
        self._manifests.pop(cluster_id, None)
        self._workload_contexts.pop(cluster_id, None)

    def _collect_current_manifests(self, cluster_id: str) -> tuple[Manifest, ...]:
        manifests: list[Manifest] = []
        planned_keys: set[_ManifestKey] = set()
        for key, object_pods in self._object_pods_by_cluster.get(cluster_id, {}).items():
            address, _ = key
            manifests += object_pods.manifests
            prior_manifests = self._prior_pods.get(key, NO_PRIOR_PODS).manifests
            keeps_running = key in self._kept_namespaces or address in self._forgotten_addresses
            if keeps_running and not object_pods.manifests:
                manifests += prior_manifests
            planned_keys.update(
                manifest.identity for manifest in (*object_pods.manifests, *prior_manifests)
            )
        # Objects applied or removed by this plan take precedence over observed ones.
        observed_objects = self._get_observed_cluster(cluster_id).objects
        return (
            *self._add_foreign_labels(manifests, cluster_id),
            *(manifest for manifest in observed_objects if manifest.identity not in planned_keys),
        )

    def list_objects(self, cluster_name: str) -> Sequence[Manifest]:
        """Return the known objects on a cluster (id or member), observed ones included."""
        return self._collect_manifests(self.members.get(cluster_name, cluster_name))

    def _add_foreign_labels(self, manifests: Sequence[Manifest], cluster_id: str) -> list[Manifest]:
        """Return the objects with the labels that others set on the Namespaces of the cluster.

        An apply removes only the labels of its own former manifest.
        """
        if cluster_id not in self._foreign_labels:
            self._foreign_labels[cluster_id] = self._find_foreign_labels(cluster_id)
        labels = self._foreign_labels[cluster_id]
        return [
            replace(item, labels={**labels[item.name], **item.labels})
            if item.is_namespace and item.name in labels
            else item
            for item in manifests
        ]

    def _find_foreign_labels(self, cluster_id: str) -> dict[str, dict[str, str]]:
        """Return the labels of Namespaces that no manifest in state has set, by namespace."""
        observed = self._get_observed_cluster(cluster_id).objects
        prior = chain.from_iterable(
            item.manifests for item in self._prior_pods_by_cluster.get(cluster_id, ())
        )
        own_labels = {item.name: item.labels for item in select_manifests(prior, "", "Namespace")}
        labels: dict[str, dict[str, str]] = {}
        for item in select_manifests(observed, "", "Namespace"):
            own_names = own_labels.get(item.name, {})
            labels[item.name] = {
                name: value for name, value in item.labels.items() if name not in own_names
            }
        return labels

    @property
    def findings(self) -> list[tuple[str, Problem]]:
        """Problems of the manifests, with the address of their object."""
        return [
            (address, finding)
            for (address, _), item in self._object_pods.items()
            for finding in item.findings
        ]

    def _read_workloads(self, object_pods: ObjectPods, key: ObjectKey) -> None:
        """Read the workloads of an object's manifests.

        They have the live fields they leave to other managers. If Fleet applies them (`is_placed`),
        kubectl is another manager, too.
        """
        _, cluster_id = key
        observed_cluster = self._get_observed_cluster(cluster_id)
        live_workloads = self._collect_live_workloads(
            key, object_pods.manifests, observed_cluster, is_placed=object_pods.is_placed
        )
        for other_id, name in self._recreated_workloads:
            if other_id == cluster_id:
                # The workload is deleted first, so its live fields are lost.
                live_workloads.pop(name, None)
        reading = read_workloads(
            self._add_foreign_labels(object_pods.manifests, cluster_id),
            self._get_workload_context(cluster_id),
            live_workloads=live_workloads,
            previous_manifests=self._prior_pods.get(key, NO_PRIOR_PODS).manifests,
        )
        object_pods.findings = reading.findings
        object_pods.workloads = add_previous_maximums(
            reading.workloads, self._prior_workloads.get(cluster_id, {})
        )

    def _get_workload_context(self, cluster_id: str) -> WorkloadContext:
        """Return what the objects on a cluster decide on the pods of all workloads."""
        if cluster_id not in self._workload_contexts:
            observed_cluster = self._get_observed_cluster(cluster_id)
            self._workload_contexts[cluster_id] = collect_workload_context(
                self._collect_manifests(cluster_id),
                is_complete=observed_cluster.is_complete,
                has_all_classes=observed_cluster.has_all_classes,
                read_kinds=self._list_read_kinds(cluster_id),
                version=self.clusters[cluster_id].version,
            )
        return self._workload_contexts[cluster_id]

    def _collect_live_workloads(
        self,
        key: ObjectKey,
        manifests: Iterable[Manifest],
        observed_cluster: ObservedCluster,
        *,
        is_placed: bool,
    ) -> dict[str, LiveWorkload]:
        """Return the live workloads of manifests by key, with their fields set by other managers.

        The live ReplicaSets that they own are included. The fields are as observed, else only the
        replicas estimated from the pods are known. The manager of the object `key` (address and
        cluster id) is Fleet (`is_placed`), or this plan with kubectl.
        """
        _, cluster_id = key
        prior = self._prior_pods.get(key, NO_PRIOR_PODS)
        jobs = list(select_manifests(prior.manifests, "batch", "Job"))
        # A cluster has pods of many other objects.
        names = {manifest.workload_key for manifest in (*manifests, *jobs)}
        known_pods = self._existing_pods.get(cluster_id, {}).values()
        all_pods = (*known_pods, *observed_cluster.nominated_pods, *observed_cluster.waiting_pods)
        pods = [pod for pod in all_pods if pod.workload in names]
        known_keys = {pod.workload for pod in pods}
        replicas = estimate_replicas(pods).items()
        # A field: its path, value, and whether kubectl has set it. Estimated replicas count as set
        # by another manager.
        live_workloads = {
            name: LiveWorkload(name, ((REPLICAS_PATH, count, False),)) for name, count in replicas
        }
        for job in jobs:
            name = job.workload_key
            # A Job recorded without its pods has ended, unless it has pods again.
            had_pods = self._prior_workloads[cluster_id][name].replicas > 0
            has_ended = had_pods and prior.workloads.get(name) == {} and name not in known_keys
            # Fleet re-creates a Job that was deleted by its time to live.
            is_repeated = is_placed and "ttlSecondsAfterFinished" in get_mapping(job.body, "spec")
            if has_ended and not is_repeated:
                live_workloads[name] = LiveWorkload(name, remaining_pods=0)
        for name, live in observed_cluster.cluster.live_workloads.items():
            if name not in names and live.owner not in names:
                continue
            fields = live.foreign_fields
            # The plan applies as kubectl, so fields of kubectl are not those of another manager.
            if not is_placed:
                fields = tuple(
                    [
                        (path, value, is_kubectl)
                        for path, value, is_kubectl in fields
                        if not is_kubectl
                    ]
                )
            live_workloads[name] = replace(live, foreign_fields=fields)
        return live_workloads

    def compute_storage_demand(self) -> dict[str, tuple[ClaimDemand, ClaimDemand]]:
        """Return the storage demand of each known cluster (id) before and after this plan."""
        known_ids = self._object_pods_by_cluster.keys() | self._observed_clusters.keys()
        return {
            cluster_id: self._compute_cluster_storage_demand(cluster_id)
            for cluster_id in sorted(known_ids)
        }

    def _compute_cluster_storage_demand(self, cluster_id: str) -> tuple[ClaimDemand, ClaimDemand]:
        """Return the demand of a cluster's claims on storage appliances, before and after.

        Pods are counted before and after, too: each pod of some workloads has claims of its own.
        """
        prior_objects = self._prior_pods_by_cluster.get(cluster_id, [])
        object_pods = self._object_pods_by_cluster.get(cluster_id, {})
        prior_manifests: dict[_ManifestKey, Manifest] = {}
        # Number of pods by workload.
        pods_before: dict[str, int] = {}
        for item in prior_objects:
            prior_manifests.update((manifest.identity, manifest) for manifest in item.manifests)
            pods_before |= {key: len(pods) for key, pods in item.workloads.items()}
        # Observed objects take precedence.
        observed_objects = self._get_observed_cluster(cluster_id).objects
        prior_manifests.update((item.identity, item) for item in observed_objects)
        manifests = self._collect_manifests(cluster_id)
        pods_after = dict(pods_before)
        for applied_pods in object_pods.values():
            pods_after |= {
                item.key: len(applied_pods.list_outcomes(item.key))
                for item in applied_pods.workloads
            }
        prior_claims = self._collect_claims(list(prior_manifests.values()), pods_before, cluster_id)
        planned_claims = self._collect_claims(manifests, pods_after, cluster_id)
        stateful_sets = {
            (item.namespace, item.name)
            for item in select_manifests(manifests, "apps", "StatefulSet")
        }
        removed_namespaces = list_namespaces(prior_manifests.values()) - list_namespaces(manifests)
        planned = appliance_claims.compute_planned_storage_demand(
            prior_claims, planned_claims, stateful_sets, removed_namespaces
        )
        return appliance_claims.compute_storage_demand(prior_claims), planned

    def _collect_claims(
        self, manifests: Sequence[Manifest], pod_counts: Mapping[str, int], cluster_id: str
    ) -> Claims:
        """Return the claims of these objects on storage appliances.

        Observed claims may have a volume already.
        """
        observed_cluster = self._get_observed_cluster(cluster_id)
        observed_claims = select_manifests(observed_cluster.objects, "", "PersistentVolumeClaim")
        observed_names = {(claim.namespace, claim.name) for claim in observed_claims}
        # Without an observation, other claims may exist as well.
        has_all_claims = cluster_id in self._observed_clusters and observed_cluster.is_complete
        return appliance_claims.collect_appliance_claims(
            manifests, pod_counts, observed_names, is_complete=has_all_claims
        )


def list_namespaces(manifests: Iterable[Manifest]) -> set[str]:
    """Return the names of the Namespace objects among these manifests."""
    return {manifest.name for manifest in select_manifests(manifests, "", "Namespace")}
