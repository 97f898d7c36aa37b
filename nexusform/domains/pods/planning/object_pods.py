"""Pods of one object on one cluster: their records in state, and their outcomes.

The pods of an object may be predicted several times in one plan, since later pods can satisfy their
affinity or take their nodes; a plan shows the combined change of a pod.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.documents.scalars import parse_integer
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.importers.pod_admission import AdmissionRejection
from nexusform.domains.pods.planning import pod_rows
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.pod_rows import OBSERVED, RecordedPod, RejectedPods
from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    PodKey,
    PodSpec,
    PodState,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, WorkloadForecast
from nexusform.domains.pods.scheduling.workload_warnings import (
    NO_EXECUTE_EVICTS,
    PREEMPTS,
    WorkloadWarning,
)
from nexusform.doubts.doubt import Doubt

OVERRIDE_CHANGED: Final = "override_changed"

# Kinds without a replacement for failed pods: a Job gives up after some.
_PERMANENT_FAILURE_KINDS: Final = ("Pod", "Job")

PodMap = dict[str, dict[str, Any]]
_QUOTA: Final = "a full quota"
_QUOTA_PLUGIN: Final = "ResourceQuota"
_MISSING_NAMESPACE: Final = "a missing namespace"
# Triggers of a repeated prediction that continue an earlier change of the same plan.
_CONTINUING_TRIGGERS: Final = ("", pod_outcomes.NEW, pod_outcomes.PREEMPTED)


NO_REJECTION: Final = AdmissionRejection("", "")


def build_rejection(forecast: WorkloadForecast) -> AdmissionRejection:
    """Return the admission plugin that rejects pods of a workload, and why ("" if none does)."""
    if not forecast.has_rejected_pods:
        return NO_REJECTION
    plugin = forecast.workload.rejected_by if forecast.workload.admission_error else _QUOTA_PLUGIN
    return AdmissionRejection(plugin, forecast.rejection)


class PriorPods(Struct, frozen=True):
    """Pods of one object on one cluster in state.

    `manifests` are their source as far as recorded. The pods of an object that `is_outside_targets`
    are kept unchanged.
    """

    address: str
    cluster_id: str
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]]
    manifests: tuple[Manifest, ...] = ()
    is_outside_targets: bool = False

    def list_existing_pods(
        self, workloads: Mapping[str, Workload]
    ) -> Iterator[tuple[RecordedPod, ExistingPod]]:
        """Yield the record in state and the existing pod of each pod.

        `workloads` have the known specs, by key. Of a pod of another workload, only the
        namespace is known. A pod failed for good gets its recorded reason as its rejection, so
        it is not placed again.
        """
        for key, pods in self.workloads.items():
            spec = (
                workloads[key].pod if key in workloads else PodSpec(namespace=key.partition("/")[0])
            )
            for name, values in pods.items():
                record = pod_rows.parse_pod_record(values)
                # A key is the namespace, kind and name of the workload.
                _, kind, _ = key.split("/", 2)
                is_permanent = record.state == PodState.FAILED and kind in _PERMANENT_FAILURE_KINDS
                rejection = (record.reason or "") if is_permanent else ""
                pod = ExistingPod(
                    key,
                    parse_pod_number(key, name),
                    record.node,
                    _find_pod_spec_in_state(spec, record),
                )
                # Not evicted: the plan (-target) does not change its object.
                is_protected = self.is_outside_targets
                yield (
                    record,
                    replace(
                        pod, rejection=rejection, volumes=record.volumes, is_protected=is_protected
                    ),
                )


def build_prior_workloads(objects: Iterable[PriorPods]) -> dict[str, dict[str, Workload]]:
    """Return the workloads of the pods in state, by cluster id and key."""
    manifests_by_cluster: dict[str, list[Manifest]] = {}
    for prior_pods in objects:
        manifests_by_cluster.setdefault(prior_pods.cluster_id, []).extend(prior_pods.manifests)
    # Parsed together: a PriorityClass or LimitRange of one object applies to the pods of all.
    return {
        cluster_id: collect_workloads(cluster_manifests).by_key
        for cluster_id, cluster_manifests in manifests_by_cluster.items()
    }


def add_previous_maximums(
    workloads: Iterable[Workload], previous_workloads: Mapping[str, Workload]
) -> tuple[Workload, ...]:
    """Return workloads that this plan scales, with their maximum number of pods before it.

    The number includes surge. It is as observed, else as in state (`previous_workloads`, by key).
    """
    scaled: list[Workload] = []
    for workload in workloads:
        prior = previous_workloads.get(workload.key, workload)
        # The observed number; 0 without one.
        maximum = workload.previous_max_pods
        is_scaled = prior.replicas != workload.replicas and not workload.keeps_replicas
        if not maximum and is_scaled:
            maximum = prior.replicas + prior.max_surge
        scaled.append(replace(workload, previous_max_pods=maximum))
    return tuple(scaled)


class PredictionInput(Struct, frozen=True):
    """Input of a prediction, kept to replay it for an explanation."""

    cluster: Cluster
    existing_pods: tuple[ExistingPod, ...]
    workloads: tuple[Workload, ...]
    seed: int
    lost_pods: frozenset[PodKey]


class ObjectPods(Struct):
    """Pods of one object on one cluster.

    `prior_pods` are those of state by workload and name, `records` their records; `prior_templates`
    are template hashes by workload. `workloads` and `manifests` are those of the last call,
    `values` is the returned value, `outcomes` has the outcome of each pod (by workload and number),
    `displacements` those of pods evicted for other objects. `uncreated_keys` are workloads without
    some of their pods, `rejection` is why some of them are not created on any number of nodes (see
    WorkloadForecast); `rejections` are pods rejected permanently. `findings` are problems of the
    manifests, applied by Fleet (`is_placed`) or by the plan.
    """

    prior_pods: dict[str, dict[str, ExistingPod]] = field(default_factory=dict)
    records: dict[tuple[str, str], RecordedPod] = field(default_factory=dict)
    prior_templates: dict[str, str] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    findings: tuple[Problem, ...] = ()
    is_placed: bool = False
    outcomes: dict[str, dict[int, PodOutcome]] = field(default_factory=dict)
    displacements: dict[PodKey, PodOutcome] = field(default_factory=dict)
    removed_outcomes: list[PodOutcome] = field(default_factory=list)
    values: PodMap = field(default_factory=dict)
    warnings: tuple[WorkloadWarning, ...] = ()
    overrides_changed: bool = False
    uncreated_keys: set[str] = field(default_factory=set)
    rejection: AdmissionRejection = NO_REJECTION
    rejections: list[RejectedPods] = field(default_factory=list)
    inputs: PredictionInput | None = None

    def list_outcomes(self, workload: str) -> list[PodOutcome]:
        """Return the outcomes of a workload's pods by number."""
        outcome_by_number = self.outcomes.get(workload, {})
        return [outcome_by_number[number] for number in sorted(outcome_by_number)]

    def list_all_outcomes(self) -> Iterator[PodOutcome]:
        """Yield the outcomes of all pods."""
        for outcome_by_number in self.outcomes.values():
            yield from outcome_by_number.values()

    def list_keys(self) -> set[str]:
        """Return the keys of the workloads."""
        return {workload.key for workload in self.workloads}

    def is_stable(self) -> bool:
        """Return whether all pods are created and running, and none has a former template."""
        if self.uncreated_keys:
            return False
        for workload in self.workloads:
            pods = self.list_outcomes(workload.key)
            current_count = sum(
                bool(pod.node) and pod.spec.template == workload.pod.template for pod in pods
            )
            # A DaemonSet has one pod per node.
            requested_count = 0 if workload.kind == "DaemonSet" else workload.replicas
            if current_count < max(len(pods), requested_count):
                return False
        return True

    def load_prior(
        self, prior: PriorPods, workloads: Mapping[str, Workload]
    ) -> Iterator[ExistingPod]:
        """Load the pods of state and yield them as existing pods."""
        self.prior_templates = {
            key: workloads[key].pod.template for key in prior.workloads if key in workloads
        }
        for record, pod in prior.list_existing_pods(workloads):
            key = pod.workload
            name = pod.name
            self.records[key, name] = record
            self.prior_pods.setdefault(key, {})[name] = pod
            yield pod

    def list_nodes_with_outdated_pods(self) -> dict[str, set[str]]:
        """Return, by workload, the nodes with possibly outdated pods in state.

        Such pods were observed, or have a former template.
        """
        nodes: dict[str, set[str]] = {}
        for workload, pods in self.prior_pods.items():
            workload_nodes = nodes.setdefault(workload, set())
            for pod in pods.values():
                record = self.records[workload, pod.name]
                if record.provenance == OBSERVED or record.former_template:
                    workload_nodes.add(pod.node)
        return nodes

    def import_pod(self, pod: ExistingPod, cluster: NodeCluster, template: str) -> None:
        """Add an observed pod of this workload and template to the object, as if from state."""
        _, machine, zone = cluster.find_place(pod.node)
        state = str(PodState.SCHEDULED if pod.node else PodState.PENDING)
        record = RecordedPod(
            pod.node, machine, zone, is_certain=True, provenance=OBSERVED, state=state
        )
        if pod.spec.template != template:
            record = replace(
                record,
                former_template=pod.spec.template,
                former_pod=pod_rows.format_pod_spec(pod.spec),
            )
        self.prior_pods.setdefault(pod.workload, {})[pod.name] = pod
        self.records[pod.workload, pod.name] = record

    def replace_spec(self, key: str, spec: PodSpec) -> Iterator[ExistingPod]:
        """Replace the spec of a workload's pods in state, and yield the pods."""
        pods = self.prior_pods.get(key, {})
        for name, pod in list(pods.items()):
            pods[name] = replace(pod, spec=_find_pod_spec_in_state(spec, self.records[key, name]))
            yield pods[name]

    def record_outcomes(self, outcomes: Iterable[PodOutcome]) -> None:
        """Record the outcome of each pod.

        A pod created and removed by this plan has no outcome.
        """
        for outcome in outcomes:
            outcome_by_number = self.outcomes.setdefault(outcome.workload, {})
            if outcome.is_removed:
                # Otherwise this plan created it.
                if outcome.name in self.prior_pods.get(outcome.workload, {}):
                    self.removed_outcomes.append(outcome)
                outcome_by_number.pop(outcome.number, None)
            else:
                self._merge_pod_outcome(outcome)

    def record_uncreated_pods(self, forecasts: Mapping[str, WorkloadForecast]) -> None:
        """Record the workloads with pods not created, and those with rejected pods.

        They are found in the forecasts of workloads.
        """
        self.uncreated_keys = set()
        self.rejections = []
        self.rejection = NO_REJECTION
        for workload in self.workloads:
            forecast = forecasts[workload.key]
            if not self.rejection.reason:
                self.rejection = build_rejection(forecast)
            if forecast.uncreated:
                self.uncreated_keys.add(workload.key)
                if forecast.workload.admission_error:
                    rejected = RejectedPods(
                        forecast.workload, forecast.uncreated, forecast.rejection
                    )
                    self.rejections.append(rejected)

    def record_eviction_by_other(self, outcome: PodOutcome) -> None:
        """Record the outcome of a pod evicted for one of another object."""
        self.displacements[outcome.key] = outcome
        pods = self.prior_pods.get(outcome.workload, {})
        if outcome.name in pods:
            pods[outcome.name] = replace(pods[outcome.name], node=outcome.node)
        if outcome.number in self.outcomes.get(outcome.workload, {}):  # predicted before
            self._merge_pod_outcome(outcome)

    def _merge_pod_outcome(self, outcome: PodOutcome) -> None:
        """Record the outcome of a pod.

        If the pod has changed earlier in this plan, both changes are recorded as one: from the node
        before the plan to the new one, with the first trigger.
        """
        outcome_by_number = self.outcomes.setdefault(outcome.workload, {})
        # Its eviction for another object of this plan.
        displacement = self.displacements.get(outcome.key)
        # By an earlier prediction.
        earlier_outcome = outcome_by_number.get(outcome.number, displacement)
        if (
            earlier_outcome is not None
            and earlier_outcome.trigger
            and outcome.trigger in _CONTINUING_TRIGGERS
        ):
            has_same_node = earlier_outcome.node == outcome.node != ""
            # No further change: the pod keeps its node.
            if has_same_node and not outcome.trigger:
                outcome = earlier_outcome
            else:
                outcome = replace(
                    outcome,
                    action=pod_outcomes.MOVE if earlier_outcome.previous else pod_outcomes.PLACE,
                    previous=earlier_outcome.previous,
                    trigger=earlier_outcome.trigger,
                    preempted_by=earlier_outcome.preempted_by,
                )
        elif outcome.trigger == pod_outcomes.TEMPLATE_CHANGED and self.overrides_changed:
            # By the overrides of its placement alone.
            outcome = replace(outcome, trigger=OVERRIDE_CHANGED)
        outcome_by_number[outcome.number] = outcome

    def list_controller_doubts(
        self, missing_namespaces: Collection[str]
    ) -> Iterator[tuple[PodKey, Doubt]]:
        """Yield doubts about pods because of their controllers.

        Each has the workload and number of its pod. In a missing namespace the API server rejects
        new objects, so each pod to place is in doubt. If some pods are not created (a full
        quota), the controller of a Deployment in a rollout retries at any time. Then all its pods
        are in doubt.
        """
        for workload in self.workloads:
            outcomes = self.list_outcomes(workload.key)
            if workload.namespace in missing_namespaces:
                for outcome in outcomes:
                    # Else no node is chosen for the pod in this plan.
                    if outcome.feasible_nodes is not None:
                        yield outcome.key, Doubt("pods", reason=_MISSING_NAMESPACE)
            # A full quota, and not an error that the controller gets at every retry.
            is_over_quota = bool(self.uncreated_keys) and not workload.admission_error
            is_rollout = any(
                outcome.trigger == pod_outcomes.TEMPLATE_CHANGED for outcome in outcomes
            )
            if workload.kind == "Deployment" and is_over_quota and is_rollout:
                yield from ((outcome.key, Doubt("pods", reason=_QUOTA)) for outcome in outcomes)

    def record_doubts(self, doubts: Mapping[PodKey, Doubt | None]) -> None:
        """Record the doubtful outcomes.

        A pod with no doubt (None) is certain despite random choices.
        """
        for outcome_by_number in self.outcomes.values():
            for number, outcome in outcome_by_number.items():
                outcome_by_number[number] = _set_outcome_certainty(outcome, doubts)
        self.removed_outcomes = [
            _set_outcome_certainty(outcome, doubts) for outcome in self.removed_outcomes
        ]

    def update_warnings(self, warnings: Sequence[WorkloadWarning]) -> None:
        """Set the warnings of the newest prediction.

        Of earlier warnings, keep valid preemptions and all evictions.
        """
        repeated_keys = {(warning.workload, warning.kind) for warning in warnings}
        preempting_workloads = {
            pod.workload for pod in self.list_all_outcomes() if pod.node and pod.victims
        }
        kept_preemptions: list[WorkloadWarning] = []
        kept_evictions: list[WorkloadWarning] = []
        for earlier in self.warnings:
            if (earlier.workload, earlier.kind) in repeated_keys:
                # A new pod replaces it.
                continue
            # Its pods still evict others.
            if earlier.kind == PREEMPTS and earlier.workload in preempting_workloads:
                kept_preemptions.append(earlier)
            elif earlier.kind == NO_EXECUTE_EVICTS:
                # Not predicted again: these pods have moved to other nodes.
                kept_evictions.append(earlier)
        self.warnings = (*warnings, *kept_preemptions, *kept_evictions)

    def update_values(self, cluster: NodeCluster) -> None:
        """Update the values of the object in place, as callers keep the mapping."""
        self.values.clear()
        for workload in self.workloads:
            # In state, an empty entry of a Job means that it has ended. With pods still to be
            # created it gets no entry.
            if (
                workload.kind == "Job"
                and workload.key in self.uncreated_keys
                and not self.outcomes.get(workload.key)
            ):
                continue
            self.values[workload.key] = {
                outcome.name: pod_rows.build_pod_values(
                    cluster, workload, outcome, self.records.get((outcome.workload, outcome.name))
                )
                for outcome in self.list_outcomes(workload.key)
            }


def _set_outcome_certainty(
    outcome: PodOutcome, doubts: Mapping[PodKey, Doubt | None]
) -> PodOutcome:
    """Return an outcome with the doubt about it: certain for None, unchanged without an entry."""
    if outcome.key not in doubts:
        return outcome
    doubt = doubts[outcome.key]
    if doubt is None:
        return replace(outcome, is_certain=True, doubt="")
    return replace(
        outcome, is_certain=False, doubt=outcome.doubt or doubt.reason, alternative=doubt.otherwise
    )


def _find_pod_spec_in_state(spec: PodSpec, record: RecordedPod) -> PodSpec:
    """Return the spec of a pod in state.

    This is the spec of its workload (`spec`), or that of its former template as recorded.
    """
    if not record.former_template:
        return spec
    return replace(
        pod_rows.parse_pod_spec(record.former_pod) or spec, template=record.former_template
    )


def parse_pod_number(workload: str, pod: str) -> int:
    """Return the number in a pod name built by `format_pod_name`.

    2 in web-2, 0 for a bare Pod or another name.
    """
    is_bare_pod = workload.split("/")[1:2] == ["Pod"]  # of `namespace/kind/name`
    return 0 if is_bare_pod else parse_integer(pod.rpartition("-")[2]) or 0
