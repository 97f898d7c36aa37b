"""Planning phase of pods: existing pods, and the placement of pods of objects and placements.

Existing pods are kept. Pods on removed or re-created nodes are placed again; those of removed
workloads are deleted first. Later calls see the results of earlier ones.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    is_reserved_namespace,
    unwrap_envelopes,
)
from nexusform.domains.pods.importers.object_outcomes import list_local_volumes
from nexusform.domains.pods.planning import template_matching
from nexusform.domains.pods.planning.cluster_pods import (
    NO_PRIOR_PODS,
    ObjectKey,
    PodsByCluster,
    list_namespaces,
)
from nexusform.domains.pods.planning.need_assessment import list_need_doubts, list_need_warnings
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.object_pods import (
    ObjectPods,
    PodMap,
    PredictionInput,
    PriorPods,
)
from nexusform.domains.pods.planning.pod_rows import RecordedPod, build_pod_row, build_rejected_rows
from nexusform.domains.pods.planning.snapshot_uncertainty import find_pods_in_doubt
from nexusform.domains.pods.pod_kind import LEFT_OBJECTS
from nexusform.domains.pods.scheduling import assumptions, decision_kinds, pod_outcomes
from nexusform.domains.pods.scheduling.assumptions import PredictionScenario
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodKey, PodSpec, Workload
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import (
    collect_pod_warnings,
    list_displaced_warnings,
)
from nexusform.domains.pods.scheduling.preemption import find_drain_obstacles
from nexusform.domains.pods.scheduling.workload_warnings import WorkloadWarning
from nexusform.doubts.doubt import Doubt
from nexusform.planning.phases import ScheduledPod
from nexusform.plans.maintenance import DrainObstacles
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.resources.address import parse_address

BINDING_REMOVED: Final = "binding_removed"
OBJECT_REPLACED: Final = "object_replaced"
# Their absence rejects pods.
_ADMITTING_KINDS: Final = ("PriorityClass", "RuntimeClass", "ServiceAccount", "Namespace")
# Limit for pods that evict each other in turns.
_MAX_PREDICTIONS: Final = 20
# Assumption behind a pod whose volume was on the disk of a re-created node.
_LOCAL_VOLUME: Final = "a local volume on the new node"


class CheckablePrediction(Struct, frozen=True):
    """Prediction that a real scheduler can repeat.

    `pods` has by key the address of the pod's object, and the outcome. `manifests` are those of the
    plan on the cluster. `dump` has the attributes of its data block, `node_names` the names of
    nodes in the plan by those in the dump.
    """

    inputs: PredictionInput
    pods: dict[PodKey, tuple[str, PodOutcome]]
    manifests: tuple[Manifest, ...]
    dump: Mapping[str, Any]
    node_names: Mapping[str, str]


class PlannedPod(Struct, frozen=True):
    """Pod of the plan, the input of its first prediction, and the other pods afterwards."""

    cluster: NodeCluster
    outcome: PodOutcome
    inputs: PredictionInput
    other_pods: tuple[ExistingPod, ...]


class PodPhase(PodsByCluster):
    """Placement of the pods of one plan.

    Call `place_pods` for each object applied to a cluster, in order, and `remove_pods` for objects
    no longer applied. A name is a cluster's id or, through `members`, a member's name.
    """

    def _import_observed_pods(self, object_pods: ObjectPods, cluster: NodeCluster) -> None:
        """Assign observed pods to the workloads of an object, and adjust these to their pods.

        Requests and images may be changed on admission, and pods may be stuck.
        """
        observed_pods = self._observed_pods.get(cluster.id)
        if observed_pods is None:
            # The cluster is not observed.
            return
        workloads: list[Workload] = []
        for workload in object_pods.workloads:
            # Each observed pod belongs to one object.
            workload_pods = observed_pods.pop(workload.key, [])
            next_number = 1 + max((pod.number for pod in workload_pods), default=-1)
            # The pods of a re-created workload are deleted.
            if (cluster.id, workload.key) not in self._recreated_workloads:
                workload_pods += self._list_waiting_pods(
                    object_pods, workload, cluster.id, next_number
                )
            prior_template = object_pods.prior_templates.get(workload.key)
            # By this plan.
            is_changed = prior_template not in (None, workload.pod.template)
            is_complete = self._get_observed_cluster(cluster.id).is_complete
            adjusted = template_matching.add_observed_changes(
                workload, workload_pods, is_complete=is_complete, is_changed=is_changed
            )
            orphans = self._take_orphaned_pods(object_pods, workload, cluster.id, workload_pods)
            pods = template_matching.assign_template_specs(
                adjusted, workload_pods, orphans, is_complete=is_complete
            )
            is_stuck = assumptions.has_permanent_failure(adjusted, pods)
            # If adopted pods make too many, it is unknown if the ReplicaSet deletes these
            # or its own.
            has_orphans = (
                workload.kind == "ReplicaSet" and bool(orphans) and len(pods) > adjusted.replicas
            )
            workloads.append(replace(adjusted, is_stuck=is_stuck, has_orphans=has_orphans))
            self._existing_pods[cluster.id] |= {pod.key: pod for pod in pods}
            for pod in pods:
                object_pods.import_pod(pod, cluster, workload.pod.template)
        object_pods.workloads = tuple(workloads)

    def _take_orphaned_pods(
        self,
        object_pods: ObjectPods,
        workload: Workload,
        cluster_id: str,
        own_pods: Sequence[ExistingPod],
    ) -> list[ExistingPod]:
        """Remove and return the observed pods adopted by a workload.

        They have no controller, and are numbered as its own pods. Pods with a manifest, or recorded
        in state, are never adopted. Those replaced since by an applied plan are removed, but not
        returned. `own_pods` are the other pods of the workload.
        """
        if workload.kind not in template_matching.ADOPTING_KINDS:
            return []
        # Observed pods by workload key: a pod without a controller is its own workload.
        observed_pods = self._observed_pods[cluster_id]
        observed_cluster = self._observed_clusters[cluster_id]
        managed_keys = self._list_managed_keys(cluster_id)
        unmanaged_keys = sorted(observed_pods.keys() - managed_keys)
        candidates = list(chain.from_iterable(observed_pods[key] for key in unmanaged_keys))
        waiting_pods = [
            pod for pod in observed_cluster.waiting_pods if pod.workload not in managed_keys
        ]
        # Pods with gates do not wait for a node.
        candidates += [pod for pod in waiting_pods if not pod.spec.gates]
        orphans = list(
            template_matching.find_orphan_pods(workload, object_pods.manifests, candidates)
        )
        if not orphans:
            return []
        self._remove_observed_pods(cluster_id, orphans)
        orphans = [
            pod
            for pod in orphans
            if not template_matching.is_replaced_orphan(object_pods, workload, pod)
        ]
        own_numbers = {pod.number for pod in own_pods}
        known_pods = self._existing_pods.get(cluster_id, {}).items()
        # The nodes of the workload's pods in state, without those in `own_pods`.
        recorded_nodes = {
            number: pod.node
            for (key, number), pod in known_pods
            if key == workload.key and number not in own_numbers
        }
        return template_matching.assign_pod_numbers(workload, orphans, recorded_nodes, own_numbers)

    def _remove_observed_pods(self, cluster_id: str, pods: Sequence[ExistingPod]) -> None:
        """Remove observed pods without a controller from a cluster.

        These are pods with a node, and waiting pods.
        """
        for pod in pods:
            self._observed_pods[cluster_id].pop(pod.workload, None)
            self._existing_pods[cluster_id].pop(pod.key, None)
        cluster = self._observed_clusters[cluster_id]
        keys = {pod.workload for pod in pods}
        waiting_pods = tuple(pod for pod in cluster.waiting_pods if pod.workload not in keys)
        self._observed_clusters[cluster_id] = replace(cluster, waiting_pods=waiting_pods)

    def _list_waiting_pods(
        self, object_pods: ObjectPods, workload: Workload, cluster_id: str, first_number: int
    ) -> list[ExistingPod]:
        """Return the observed Pending pods of a workload, numbered from `first_number`.

        The result is None if state has its own.
        """
        observed = self._observed_clusters[cluster_id]
        # Pods with scheduling gates do not wait for a node.
        pods = [
            pod
            for pod in observed.waiting_pods
            if pod.workload == workload.key and not pod.spec.gates
        ]
        if any(not pod.node for pod in object_pods.prior_pods.get(workload.key, {}).values()):
            # The Pending pods in state are the same ones.
            return []
        if workload.kind == "StatefulSet":
            # Their numbers are their ordinals.
            return pods
        return [replace(pod, number=number) for number, pod in enumerate(pods, first_number)]

    def place_pods(
        self,
        placement_address: str,
        cluster_name: str,
        manifests: tuple[Manifest, ...],
        prior_workloads: Mapping[str, Any],
        *,
        previous: tuple[Manifest, ...] = (),
        overrides_changed: bool = False,
    ) -> PodMap:
        """Place the pods of a placement on a cluster, and return the location of each pod.

        The locations are by workload and name. `prior_workloads` are the pods in state. If it is
        empty, but there are existing pods, the object is re-created: these are removed first.
        `previous` are the former manifests, if other than `manifests`. `overrides_changed` means
        that overrides alone changed the template.
        """
        cluster_id = self.members.get(cluster_name, cluster_name)
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            # Without known nodes there is no prediction.
            return {}
        key = (placement_address, cluster_id)
        # Its pods in state are not loaded yet.
        if prior_workloads and key not in self._object_pods:
            prior_manifests = unwrap_envelopes(previous or manifests).manifests
            workloads = collect_workloads(
                prior_manifests, self._collect_manifests(cluster_id)
            ).by_key
            self._load_prior_pods(
                PriorPods(placement_address, cluster_id, prior_workloads), workloads
            )
        object_pods = self._get_object_pods(*key)
        # It is re-created.
        if object_pods.prior_pods and not prior_workloads and not object_pods.outcomes:
            self.remove_pods(placement_address, cluster_id)
        # Its manifests list its namespaces from now on.
        self._kept_namespaces.pop(key, None)
        object_pods.manifests = unwrap_envelopes(manifests).manifests
        self._forget_collected_manifests(cluster_id)
        object_pods.overrides_changed = overrides_changed
        object_pods.is_placed = True
        self._read_workloads(object_pods, key)
        self._read_workloads_of_classes(object_pods.manifests, cluster_id)
        # In the first call for these pods.
        if not object_pods.outcomes:
            self._apply_prior_manifests(
                object_pods, cluster_id, unwrap_envelopes(previous).manifests
            )
            self._update_unchanged_specs(object_pods, cluster_id)
        self._import_observed_pods(object_pods, cluster)
        self._predict_changed_objects([key], cluster)  # sets `values`
        return object_pods.values

    def place_objects(
        self, cluster_name: str, objects: Sequence[tuple[str, tuple[Manifest, ...]]]
    ) -> dict[str, PodMap]:
        """Place the pods of objects (address, manifests) in one queue.

        Return locations by address, workload, name.
        """
        cluster_id = self.members.get(cluster_name, cluster_name)
        cluster = self.clusters.get(cluster_id)
        # Without known nodes there is no prediction.
        if cluster is None:
            self._unlocated_manifests += [(cluster_name, manifests) for _, manifests in objects]
            return {address: {} for address, _ in objects}
        for address, manifests in objects:
            object_pods = self._get_object_pods(address, cluster_id)
            # Its manifests list its namespaces from now on.
            self._kept_namespaces.pop((address, cluster_id), None)
            object_pods.manifests = unwrap_envelopes(manifests).manifests
        self._forget_collected_manifests(cluster_id)
        keys: list[ObjectKey] = []
        # Once all manifests are set, as a PriorityClass of one object applies to the pods of all.
        for address, _ in objects:
            object_pods = self._object_pods[address, cluster_id]
            self._read_workloads(object_pods, (address, cluster_id))
            self._update_unchanged_specs(object_pods, cluster_id)
            self._import_observed_pods(object_pods, cluster)
            keys.append((address, cluster_id))
        for address, _ in objects:
            self._read_workloads_of_classes(
                self._object_pods[address, cluster_id].manifests, cluster_id
            )
        self._predict_changed_objects(keys, cluster)
        return {address: self._object_pods[address, cluster_id].values for address, _ in objects}

    def _read_workloads_of_classes(self, manifests: Iterable[Manifest], cluster_id: str) -> None:
        """Read the workloads with uncreated pods again if the manifests may be the reason.

        The controllers of the workloads try again after PriorityClasses, RuntimeClasses,
        ServiceAccounts and new labels of a Namespace.
        """
        if any(manifest.kind in _ADMITTING_KINDS for manifest in manifests):
            for key, object_pods in self._object_pods_by_cluster[cluster_id].items():
                if object_pods.uncreated_keys:
                    self._read_workloads(object_pods, key)

    def remove_pods(
        self,
        placement_address: str,
        cluster_name: str,
        trigger: str = BINDING_REMOVED,
        *,
        keeps_running: bool = False,
    ) -> None:
        """Remove all pods of an object from a cluster.

        With `keeps_running`, they are removed only from state, because the object is forgotten.
        """
        cluster_id = self.members.get(cluster_name, cluster_name)
        object_pods = self._object_pods.get((placement_address, cluster_id))
        self._kept_namespaces.pop((placement_address, cluster_id), None)
        self._forget_collected_manifests(cluster_id)
        if object_pods is None:
            # It has no pods there.
            return
        object_pods.workloads = ()
        object_pods.manifests = ()
        object_pods.warnings = ()
        object_pods.values = {}
        object_pods.rejections = []
        object_pods.outcomes.clear()
        existing_pods = dict(self._existing_pods.get(cluster_id, {}))
        for key, pods in object_pods.prior_pods.items():
            self._remove_workload(object_pods, cluster_id, key, pods, trigger)
        # The removal from the nodes is undone: the pods still use their capacity.
        if keeps_running:
            self._existing_pods[cluster_id] = existing_pods
            self._forgotten_addresses.add(placement_address)
            self._forget_collected_manifests(cluster_id)
        else:
            prior = self._prior_pods.get((placement_address, cluster_id), NO_PRIOR_PODS)
            self._remove_observed_workloads(cluster_id, prior.workloads)
        object_pods.prior_pods = {}
        object_pods.prior_templates = {}

    def recreate_workloads(self, address: str, workloads: Collection[str]) -> None:
        """Remove the pods of these workloads, which are re-created on the hub."""
        for cluster_id in sorted(self._clusters_by_address.get(address, ())):
            object_pods = self._object_pods[address, cluster_id]
            for key in list(object_pods.prior_pods):
                if key in workloads:
                    pods = object_pods.prior_pods.pop(key)
                    self._remove_workload(object_pods, cluster_id, key, pods, OBJECT_REPLACED)
            self._remove_observed_workloads(cluster_id, workloads)

    def _remove_observed_workloads(self, cluster_id: str, keys: Iterable[str]) -> None:
        """Forget the observed pods of deleted workloads.

        Workloads re-created by this plan start without pods.
        """
        for key in keys:
            self._recreated_workloads.add((cluster_id, key))
            for pod in self._observed_pods.get(cluster_id, {}).pop(key, []):
                self._existing_pods[cluster_id].pop(pod.key, None)

    def _predict_changed_objects(self, keys: Sequence[ObjectKey], cluster: NodeCluster) -> None:
        """Predict the pods of the objects `keys`, then unstable objects until no pod moves.

        Unstable objects of the cluster are predicted again. An object is unstable if some of its
        pods are not created, do not run, have a former template, or were evicted.
        """
        self._predict_pods(keys, cluster)
        for _ in range(_MAX_PREDICTIONS):
            # Of objects predicted before (with `inputs`).
            unstable_keys = [
                key
                for key, item in self._object_pods_by_cluster.get(cluster.id, {}).items()
                if item.inputs is not None and (key in self._disturbed_keys or not item.is_stable())
            ]
            self._disturbed_keys.clear()
            nodes_before = self._map_pods_to_nodes(cluster.id)
            # Without any, no pod moves.
            self._predict_pods(unstable_keys, cluster)
            if self._map_pods_to_nodes(cluster.id) == nodes_before:
                # No pod has moved.
                return

    def verify_certainty(
        self,
        now: str,
        missing_namespaces: Mapping[ObjectKey, Collection[str]],
        clusters_in_doubt: Mapping[str, str] = MappingProxyType({}),
        clusters_with_left_objects: Collection[str] = (),
    ) -> None:
        """Record the pods with an uncertain node, and why.

        They get another node under other assumptions, their namespace is missing, or nothing on
        their cluster is certain (`clusters_in_doubt`: the assumption by id). On clusters (ids) with
        objects left by others, no decision is certain. `now` is the time of planning (ISO 8601).
        `missing_namespaces` are listed by object.
        """
        for cluster_id, base_pods in self._base_pods.items():
            objects = self._object_pods_by_cluster.get(cluster_id, {})
            outcomes = list(
                chain.from_iterable(item.list_all_outcomes() for item in objects.values())
            )
            outcomes += chain.from_iterable(item.removed_outcomes for item in objects.values())
            # Found without another prediction.
            direct_doubts: list[tuple[PodKey, Doubt]] = []
            inventory = self.build_inventory(cluster_id)
            for key, object_pods in objects.items():
                direct_doubts += object_pods.list_controller_doubts(missing_namespaces.get(key, ()))
                direct_doubts += list_need_doubts(object_pods, inventory)
                object_pods.warnings += tuple(list_need_warnings(object_pods, inventory))
            scene = self._build_scene(cluster_id, base_pods)
            direct_doubts += _list_uncompared_doubts(scene, outcomes)
            observed = self._get_observed_cluster(cluster_id)
            manifests = self._collect_manifests(cluster_id)
            direct_doubts += _list_volume_doubts(self.clusters[cluster_id], manifests, outcomes)
            workloads = {workload.key: workload for workload in scene.workloads}
            doubts_of_inputs = find_pods_in_doubt(
                outcomes,
                workloads,
                observed,
                manifests,
                now,
                has_chosen_removals=self.clusters[cluster_id].has_chosen_removals,
            )
            direct_doubts = [*doubts_of_inputs.items(), *direct_doubts]
            doubts = assumptions.find_doubtful_pods(scene, outcomes)
            if cluster_id in clusters_in_doubt:
                # A hub observes none of its pods.
                doubt = Doubt("pods", reason=clusters_in_doubt[cluster_id])
                doubts |= {outcome.key: doubt for outcome in outcomes}
            elif cluster_id in clusters_with_left_objects:
                # Without a trigger, nothing is decided on the pod.
                left = Doubt("pods", reason=LEFT_OBJECTS)
                doubts |= {outcome.key: left for outcome in outcomes if outcome.trigger}
            for pod_key, doubt in direct_doubts:
                # No doubt so far, or a random choice with a certain result (None).
                if doubts.get(pod_key) is None:
                    doubts[pod_key] = doubt
            for object_pods in objects.values():
                object_pods.record_doubts(doubts)
                object_pods.update_values(self.clusters[cluster_id])

    def _build_scene(
        self, cluster_id: str, base_pods: Mapping[PodKey, ExistingPod]
    ) -> PredictionScenario:
        """Return the input to predict a cluster's objects again under other assumptions.

        The prediction starts from `base_pods`.
        """
        cluster = self.clusters[cluster_id]
        observed = self._get_observed_cluster(cluster_id)
        object_pods_list = self._object_pods_by_cluster.get(cluster_id, {}).values()
        workloads = tuple(
            chain.from_iterable(object_pods.workloads for object_pods in object_pods_list)
        )
        own_keys = {workload.key for workload in workloads}
        other_pods = [
            pod
            for pod in observed.waiting_pods
            if pod.workload not in own_keys and not pod.spec.gates
        ]
        return PredictionScenario(
            cluster=self._build_cluster(cluster),
            existing_pods=tuple(base_pods.values()),
            workloads=workloads,
            seed=cluster.seed,
            lost_pods=self._base_lost_pods.get(cluster_id, frozenset()),
            waiting_pods=tuple(other_pods),
            unready_nodes=observed.unready_nodes,
        )

    def _record_pods_before_prediction(self, keys: Sequence[ObjectKey], cluster_id: str) -> None:
        """Record the pods of a cluster before their first prediction.

        They are the input to predict all of them again. The first call records all pods. Later
        calls replace only the pods of objects without a prediction so far.
        """
        existing_pods = self._existing_pods.get(cluster_id, {})
        if cluster_id not in self._base_pods:
            self._base_pods[cluster_id] = dict(existing_pods)
            self._base_lost_pods[cluster_id] = self._lost_pods.get(cluster_id, frozenset())
            return
        unpredicted_objects = [
            self._object_pods[key] for key in keys if self._object_pods[key].inputs is None
        ]
        workload_keys = set(chain.from_iterable(map(ObjectPods.list_keys, unpredicted_objects)))
        base_pods = {
            key: pod
            for key, pod in self._base_pods[cluster_id].items()
            if pod.workload not in workload_keys
        }
        new_pods = {key: pod for key, pod in existing_pods.items() if pod.workload in workload_keys}
        self._base_pods[cluster_id] = base_pods | new_pods

    def _update_unchanged_specs(self, object_pods: ObjectPods, cluster_id: str) -> None:
        """Set the current spec on pods in state with an unchanged or unknown template (None)."""
        for workload in object_pods.workloads:
            prior_template = object_pods.prior_templates.get(workload.key)
            if prior_template in (None, workload.pod.template):
                self._replace_workload_spec(object_pods, cluster_id, workload.key, workload.pod)

    def _apply_prior_manifests(
        self, object_pods: ObjectPods, cluster_id: str, manifests: tuple[Manifest, ...]
    ) -> None:
        """Set the specs and template hashes of pods in state by their workloads' manifests.

        Pods of other workloads stay unchanged.
        """
        workloads = collect_workloads(manifests, self._collect_manifests(cluster_id)).by_key
        for key in object_pods.prior_pods:
            if key in workloads:
                object_pods.prior_templates[key] = workloads[key].pod.template
                self._replace_workload_spec(object_pods, cluster_id, key, workloads[key].pod)

    def _replace_workload_spec(
        self, object_pods: ObjectPods, cluster_id: str, key: str, spec: PodSpec
    ) -> None:
        """Replace the spec of a workload's pods in state."""
        existing_pods = self._existing_pods.setdefault(cluster_id, {})
        for pod in object_pods.replace_spec(key, spec):
            if (key, pod.number) in existing_pods:
                existing_pods[key, pod.number] = pod

    def _predict_pods(self, keys: Sequence[ObjectKey], cluster: NodeCluster) -> None:
        """Predict the pods of the objects `keys` in one queue.

        Record their outcomes, warnings and planned values.
        """
        workloads: list[Workload] = []
        for key in keys:
            self._remove_former_workloads(self._object_pods[key], cluster.id)
            workloads += self._object_pods[key].workloads
        if not workloads:
            for key in keys:
                self._object_pods[key].values.clear()
            # No pods to predict.
            return
        self._record_pods_before_prediction(keys, cluster.id)
        cluster_model = self._build_cluster(cluster)
        existing_pods = tuple(self._existing_pods.get(cluster.id, {}).values())
        lost_pods = self._lost_pods.get(cluster.id, frozenset())
        inputs = PredictionInput(
            cluster_model, existing_pods, tuple(workloads), cluster.seed, lost_pods
        )
        prediction = predict(
            cluster_model, existing_pods, workloads, seed=cluster.seed, lost_pods=lost_pods
        )
        self._existing_pods[cluster.id] = {pod.key: pod for pod in prediction.list_existing_pods()}
        # A pod is lost only once: after this it has its new node.
        decided_outcomes = (*prediction.outcomes, *prediction.displaced_outcomes)
        self._lost_pods[cluster.id] = lost_pods.difference(item.key for item in decided_outcomes)
        warnings = collect_pod_warnings(cluster_model, prediction)
        for key in keys:
            object_pods = self._object_pods[key]
            # Those of the first prediction.
            object_pods.inputs = object_pods.inputs or inputs
            own_keys = object_pods.list_keys()
            object_pods.record_uncreated_pods(prediction.forecasts)
            object_pods.record_outcomes(
                [outcome for outcome in prediction.outcomes if outcome.workload in own_keys]
            )
            object_pods.update_warnings(
                [warning for warning in warnings if warning.workload in own_keys]
            )
            object_pods.update_values(cluster)
        displaced_outcomes = prediction.displaced_outcomes
        unmanaged_outcomes = [
            item for item in displaced_outcomes if not self._record_evicted_pod(item, cluster.id)
        ]
        # Evictions of pods of no object are reported with the first object.
        self._object_pods[keys[0]].warnings += tuple(
            list_displaced_warnings(cluster_model, unmanaged_outcomes)
        )

    def _record_evicted_pod(self, outcome: PodOutcome, cluster_id: str) -> bool:
        """Record the outcome of an evicted pod in its object.

        Return False if no object of this plan has the pod.
        """
        for key, object_pods in self._object_pods_by_cluster.get(cluster_id, {}).items():
            if (
                outcome.workload in object_pods.prior_pods
                or outcome.workload in object_pods.outcomes
            ):
                object_pods.record_eviction_by_other(outcome)
                self._disturbed_keys.add(key)
                return True
        return False

    def _remove_former_workloads(self, object_pods: ObjectPods, cluster_id: str) -> None:
        """Remove the pods of workloads no longer in the object."""
        own_keys = object_pods.list_keys()
        for key, pods in list(object_pods.prior_pods.items()):
            if key not in own_keys:
                self._remove_workload(
                    object_pods, cluster_id, key, pods, pod_outcomes.WORKLOAD_REMOVED
                )

    def _remove_workload(
        self,
        object_pods: ObjectPods,
        cluster_id: str,
        key: str,
        pods: Mapping[str, ExistingPod],
        trigger: str,
    ) -> None:
        """Remove the pods of a workload from the plan, and record removed existing ones."""
        existing_pods = self._existing_pods.get(cluster_id, {})
        for pod in pods.values():
            # Its pods before the prediction.
            self._base_pods.get(cluster_id, {}).pop((key, pod.number), None)
            if existing_pods.pop((key, pod.number), None) is not None:
                object_pods.removed_outcomes.append(pod_outcomes.build_removal(pod, trigger))
        object_pods.outcomes.pop(key, None)

    def build_rows(
        self, clusters_in_doubt: Mapping[str, str] = MappingProxyType({})
    ) -> list[PlacementChange]:
        """Return the rows of all pods, object by object.

        The rows of removed pods come first, then those of the others and of pods never created. The
        removal of a pod from one of the `clusters_in_doubt` (assumption by id) is uncertain.
        """
        rows: list[PlacementChange] = []
        for (address, cluster_id), object_pods in self._object_pods.items():
            outcomes = list(object_pods.removed_outcomes)
            for workload in object_pods.workloads:
                outcomes += object_pods.list_outcomes(workload.key)
            if not (outcomes or object_pods.rejections):
                continue
            cluster = self.clusters.get(cluster_id)
            owner = parse_address(address)
            assumption = clusters_in_doubt.get(cluster_id, "")
            for outcome in outcomes:
                row = build_pod_row(
                    address=owner,
                    cluster_id=cluster_id,
                    cluster=cluster,
                    outcome=outcome,
                    record=object_pods.records.get((outcome.workload, outcome.name), RecordedPod()),
                    keeps_running=address in self._forgotten_addresses,
                )
                rows.append(_add_doubt_about_removal(row, assumption) if assumption else row)
            if cluster is None:
                # A removed cluster rejects no pods.
                continue
            for rejected in object_pods.rejections:
                pods = object_pods.list_outcomes(rejected.workload.key)
                rows += build_rejected_rows(owner, cluster, rejected, pods)
        return rows

    @property
    def warnings(self) -> list[tuple[str, str, WorkloadWarning]]:
        """Warnings about pods, each with the address of its object and the name of the cluster."""
        risks: list[tuple[str, str, WorkloadWarning]] = []
        for (address, cluster_id), object_pods in self._object_pods.items():
            risks += [
                (address, self.clusters[cluster_id].name, warning)
                for warning in object_pods.warnings
            ]
        return risks

    def find_disruptions(self, cluster_id: str, nodes: Collection[str]) -> DrainObstacles:
        """Return the obstacles for draining nodes: exhausted budgets, and single-pod workloads."""
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            # No pods are known there.
            return DrainObstacles()
        existing_pods = tuple(self._existing_pods.get(cluster_id, {}).values())
        return find_drain_obstacles(self._build_cluster(cluster).budgets, existing_pods, nodes)

    def list_object_clusters(self) -> dict[str, set[str]]:
        """Return the clusters (ids) with workloads of each object (address)."""
        clusters: dict[str, set[str]] = {}
        for (address, cluster_id), object_pods in self._object_pods.items():
            if object_pods.workloads:
                clusters.setdefault(address, set()).add(cluster_id)
        return clusters

    def list_missing_namespaces(self) -> Iterator[tuple[str, str, set[str]]]:
        """Yield the namespaces used by an object and missing on a cluster.

        Each item is (object address, cluster id, namespaces).
        """
        known_namespaces = {
            cluster_id: set(names) for cluster_id, names in self._namespaces.items()
        }
        for key, object_pods in self._object_pods.items():
            # An object outside the targets (-target) has no manifests in this plan.
            created_namespaces = list_namespaces(
                object_pods.manifests
            ) or self._kept_namespaces.get(key, set())
            _, cluster_id = key
            known_namespaces.setdefault(cluster_id, set()).update(created_namespaces)
        for (address, cluster_id), object_pods in self._object_pods.items():
            manifests = object_pods.manifests
            used_namespaces = {
                item.namespace for item in manifests if not is_reserved_namespace(item.namespace)
            }
            # "": cluster-scoped objects.
            missing_names = used_namespaces - known_namespaces[cluster_id] - {""}
            if missing_names:
                yield address, cluster_id, missing_names

    def find_planned_pods(self, address: str, name: str) -> list[PlannedPod]:
        """Return the predicted pods of an object with this name, cluster by cluster.

        They come with their prediction's input.
        """
        planned_pods: list[PlannedPod] = []
        for (object_address, cluster_id), object_pods in self._object_pods.items():
            if object_address != address or object_pods.inputs is None:
                # Another object, or never predicted.
                continue
            cluster = self.clusters[cluster_id]
            existing_pods = self._existing_pods.get(cluster_id, {})
            for outcome in object_pods.list_all_outcomes():
                if outcome.name != name:
                    continue
                other_pods = tuple(pod for key, pod in existing_pods.items() if key != outcome.key)
                planned_pods.append(PlannedPod(cluster, outcome, object_pods.inputs, other_pods))
        return planned_pods

    def list_checkable_predictions(self) -> Iterator[CheckablePrediction]:
        """Yield each first prediction once, with its pods and the objects behind it."""
        # By the id of the input: objects predicted together share one.
        predictions: dict[int, CheckablePrediction] = {}
        for (address, cluster_id), object_pods in self._object_pods.items():
            inputs = object_pods.inputs
            if inputs is None:
                continue  # never predicted
            if id(inputs) not in predictions:
                observed = self._get_observed_cluster(cluster_id)
                objects = self._object_pods_by_cluster.get(cluster_id, {}).values()
                predictions[id(inputs)] = CheckablePrediction(
                    inputs,
                    {},
                    tuple(chain.from_iterable(item.manifests for item in objects)),
                    observed.attributes,
                    observed.plan_names,
                )
            for outcome in object_pods.list_all_outcomes():
                predictions[id(inputs)].pods[outcome.key] = (address, outcome)
        yield from predictions.values()

    def find_object_pods(self, address: str, cluster_id: str) -> ObjectPods:
        """Return the pods of an object on a cluster, empty if it has none."""
        return self._object_pods.get((address, cluster_id), ObjectPods())

    def is_cluster_certain(self, cluster_id: str) -> bool:
        """Return whether every outcome of a pod on a cluster is certain."""
        objects = self._object_pods_by_cluster.get(cluster_id, {}).values()
        outcomes = chain.from_iterable(map(ObjectPods.list_all_outcomes, objects))
        return all(outcome.is_certain for outcome in outcomes)

    def build_input(self, cluster: NodeCluster) -> PredictionInput:
        """Build the input to predict all objects on a cluster again, after this plan.

        The input has the cluster's pods on nodes after this plan.
        """
        objects = self._object_pods_by_cluster.get(cluster.id, {}).values()
        workloads = chain.from_iterable(item.workloads for item in objects)
        existing_pods = tuple(
            pod for pod in self._existing_pods.get(cluster.id, {}).values() if pod.node
        )
        return PredictionInput(
            self._build_cluster(cluster), existing_pods, tuple(workloads), cluster.seed, frozenset()
        )

    def build_initial_input(self, cluster: NodeCluster) -> PredictionInput:
        """Build the input to predict a cluster's objects again, from its pods before this plan."""
        existing_pods = tuple(self._base_pods.get(cluster.id, {}).values())
        lost_pods = self._base_lost_pods.get(cluster.id, frozenset())
        return replace(self.build_input(cluster), existing_pods=existing_pods, lost_pods=lost_pods)

    def list_scheduled_pods(self) -> list[ScheduledPod]:
        """Return all pods with a node after the plan, those of others too.

        Each workload of a manifest on a cluster with unknown nodes counts as a pod without a node.
        """
        pods: list[ScheduledPod] = []
        # Pairs of cluster id and key.
        planned_keys: set[tuple[str, PodKey]] = set()
        for (_, cluster_id), object_pods in self._object_pods.items():
            for outcome in object_pods.list_all_outcomes():
                planned_keys.add((cluster_id, outcome.key))
                if outcome.node:
                    pod = _build_scheduled_pod(cluster_id, outcome.node, outcome.spec, outcome.name)
                    pods.append(
                        replace(pod, trigger=outcome.trigger, is_certain=outcome.is_certain)
                    )
        for cluster_id, existing_pods in self._existing_pods.items():
            for existing in existing_pods.values():
                is_other = (cluster_id, existing.key) not in planned_keys
                if is_other and existing.node and not existing.spec.is_terminating:
                    name = existing.condition.name or existing.name
                    pods.append(
                        _build_scheduled_pod(cluster_id, existing.node, existing.spec, name)
                    )
        for cluster_name, manifests in self._unlocated_manifests:
            pods += list_unlocated_pods(cluster_name, manifests)
        return pods


def _list_uncompared_doubts(
    scene: PredictionScenario, outcomes: Iterable[PodOutcome]
) -> Iterator[tuple[PodKey, Doubt]]:
    """Yield the doubt about each pod whose kinds of objects were never compared."""
    kinds = decision_kinds.list_uncompared_kinds(
        scene.cluster.version, decision_kinds.load_comparisons()
    )
    workloads = {workload.key: workload for workload in scene.workloads}
    # Pods of one workload, spec and trigger have the same kinds.
    reasons: dict[tuple[object, ...], str] = {}
    for outcome in outcomes:
        # Without a trigger, nothing is decided on the pod.
        if not outcome.trigger:
            continue
        group = (outcome.workload, id(outcome.spec), outcome.trigger, bool(outcome.victims))
        if group not in reasons:
            decision = decision_kinds.Decision(
                outcome, scene.cluster, workloads.get(outcome.workload)
            )
            reasons[group] = decision_kinds.find_uncompared_kind(decision, kinds)
        if reasons[group]:
            yield outcome.key, Doubt("pods", reason=reasons[group])


def _list_volume_doubts(
    cluster: NodeCluster, manifests: Iterable[Manifest], outcomes: Iterable[PodOutcome]
) -> Iterator[tuple[PodKey, Doubt]]:
    """Yield the doubt about each pod with claims on a re-created node that had a local volume."""
    if not cluster.recreated_nodes:
        return
    names = cluster.platform_names
    volume_nodes = {
        names.get(node, node) for volume in list_local_volumes(manifests) for node in volume.nodes
    }
    for outcome in outcomes:
        has_claims = bool(outcome.spec.volumes or outcome.spec.claims)
        is_lost = outcome.node in volume_nodes and outcome.node in cluster.recreated_nodes
        if outcome.trigger and has_claims and is_lost:
            yield outcome.key, Doubt("pods", reason=_LOCAL_VOLUME)


def _add_doubt_about_removal(row: PlacementChange, assumption: str) -> PlacementChange:
    """Return the row of a pod, uncertain for this assumption if the pod is removed."""
    if row.action is not PlacementAction.REMOVE:
        return row
    return row.add_doubt(Doubt("pod", row.object, reason=assumption))


def list_unlocated_pods(cluster_name: str, manifests: Sequence[Manifest]) -> list[ScheduledPod]:
    """Return each workload of the manifests on a cluster as a pod without a node.

    Its nodes are unknown.
    """
    workloads = collect_workloads(unwrap_envelopes(manifests).manifests).by_key.values()
    return [
        _build_scheduled_pod(cluster_name, "", workload.pod, workload.name)
        for workload in workloads
    ]


def _build_scheduled_pod(cluster_id: str, node: str, spec: PodSpec, name: str) -> ScheduledPod:
    """Build a pod with the namespace and labels of its spec."""
    return ScheduledPod(cluster_id, node, spec.namespace, name, dict(spec.labels))
