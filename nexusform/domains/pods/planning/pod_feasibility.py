"""Feasibility of an object's pods on a cluster: now, or after the fewest additional nodes. The pods of all objects on
the cluster count together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count
from nexusform.domains.pods.planning.node_additions import (
    WaitingPods,
    can_run,
    compute_search_limit,
    count_waiting_pods,
    find_additions,
)
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.object_pods import PredictionInput
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.domains.pods.scheduling.cluster_records import Workload
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, compute_placeable_range
from nexusform.domains.pods.scheduling.pod_prediction import PodPredictor, predict
from nexusform.domains.pods.scheduling.scheduling_session import SchedulingSession
from nexusform.plans.plan import FeasibilityResult, LossEffect

_MAX_REPLICAS: Final = 10_000
MAX_LOST_PODS: Final = 20_000  # places times pods; more would take minutes per cluster
_REJECTED: Final = "a quota or an admission rule rejects pods"
_SCALABLE_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet")


class ObjectFeasibility(Struct, frozen=True):
    """Feasibility of one object on one cluster. `missing_nodes` by pool are needed for RUNS_AFTER."""

    result: FeasibilityResult
    missing_nodes: Mapping[str, int] = {}
    reason: str = ""
    replicas_requested: int = 0
    replicas_max: int | None = None
    is_certain: bool = False


class ClusterPodCapacity:
    """Pods and capacity of a cluster, computed once for the feasibility of all objects on it."""

    def __init__(self, pods: PodPhase, cluster: NodeCluster) -> None:
        self.pods = pods
        self.cluster = cluster
        self.waiting_pods: WaitingPods = {}

    @cached_property
    def is_certain(self) -> bool:
        """Whether every pod of the cluster is certain."""
        return self.pods.is_cluster_certain(self.cluster.id)

    @cached_property
    def initial_prediction_input(self) -> PredictionInput:
        """Input of a prediction from the pods before the plan."""
        return self.pods.build_initial_input(self.cluster)

    @cached_property
    def _session(self) -> SchedulingSession:
        inputs = self.pods.build_input(self.cluster)
        return PodPredictor(inputs.cluster, inputs.existing_pods, (), inputs.seed, (), ()).session

    def compute_maximum_replicas(self, workloads: Sequence[Workload], running: int) -> int | None:
        """Compute the largest replica count of the only scalable workload; None without exactly one."""
        scalable = [workload for workload in workloads if workload.kind in _SCALABLE_KINDS]
        if len(scalable) != 1 or scalable[0].pod.claims:
            return None
        return running + compute_placeable_range(self._session.get_scheduler(scalable[0].pod), _MAX_REPLICAS).minimum


def find_object_feasibility(address: str, capacity: ClusterPodCapacity) -> ObjectFeasibility | None:
    """Return the feasibility of an object on a cluster; None without workloads."""
    pods, cluster = capacity.pods, capacity.cluster
    workloads = pods.list_workloads(address, cluster.id)
    if not workloads:
        return None
    outcomes = [outcome for outcome in pods.list_outcomes(address, cluster.id) if outcome.action != "remove"]
    requested = sum(workload.replicas for workload in workloads if workload.kind != "DaemonSet")
    waiting = [outcome for outcome in outcomes if not outcome.node]
    running = sum(bool(outcome.node) and _get_workload_kind(outcome) != "DaemonSet" for outcome in outcomes)
    is_certain = all(outcome.is_certain for outcome in outcomes)
    if not waiting and running >= requested:
        maximum = capacity.compute_maximum_replicas(workloads, running)
        is_certain = is_certain and (maximum is None or capacity.is_certain)
        return ObjectFeasibility(
            FeasibilityResult.RUNS, replicas_requested=requested, replicas_max=maximum, is_certain=is_certain
        )
    reason = next((outcome.reason for outcome in waiting if outcome.reason), _REJECTED)
    inputs = capacity.initial_prediction_input
    keys = {outcome.workload for outcome in waiting}
    is_possible = not pods.has_uncreated(address, cluster.id) and _can_run(workloads, keys, inputs, cluster)
    additions: Mapping[str, int] = {}
    if is_possible:
        additions = find_additions(inputs, cluster, {workload.key for workload in workloads}, capacity.waiting_pods)
    tried = compute_search_limit(inputs) if is_possible else 0
    return _build_waiting_feasibility(additions, reason, requested, running, tried, is_certain=is_certain)


def _can_run(
    workloads: Iterable[Workload], keys: Container[str], inputs: PredictionInput, cluster: NodeCluster
) -> bool:
    """Return whether the pods of each of the workloads with these keys may run with enough nodes."""
    return all(can_run(workload.pod, inputs, cluster) for workload in workloads if workload.key in keys)


def _build_waiting_feasibility(
    additions: Mapping[str, int], reason: str, requested: int, running: int, tried: int, *, is_certain: bool
) -> ObjectFeasibility:
    """Build the result of an object with waiting pods. It is unknown if no number of nodes up to `tried` per pool is
    enough; 0: the pods run on no node.
    """
    result = FeasibilityResult.CANNOT_RUN
    if additions:
        result = FeasibilityResult.RUNS_AFTER
    elif tried:
        nodes = format_count(tried, "more node")
        result, reason = FeasibilityResult.UNKNOWN, f"not enough: up to {nodes} per pool; {reason}"
    is_certain = is_certain and result is not FeasibilityResult.UNKNOWN
    return ObjectFeasibility(result, additions, reason, requested, running, is_certain)


def find_candidate_feasibility(
    pods: PodPhase, cluster: NodeCluster, workloads: Sequence[Workload], *, tries_nodes: bool = True
) -> ObjectFeasibility:
    """Return the feasibility of additional workloads on a cluster, beside its pods of the plan. Without
    `tries_nodes`, waiting pods mean CANNOT_RUN.
    """
    inputs = pods.build_input(cluster)
    inputs = replace(inputs, workloads=(*inputs.workloads, *workloads))
    keys = {workload.key for workload in workloads}
    prediction = predict(inputs.cluster, inputs.existing_pods, inputs.workloads, seed=inputs.seed)
    outcomes = [item for item in prediction.outcomes if item.workload in keys and item.action != "remove"]
    running = sum(bool(item.node) and _get_workload_kind(item) != "DaemonSet" for item in outcomes)
    requested = sum(workload.replicas for workload in workloads if workload.kind != "DaemonSet")
    reason = next((item.reason for item in outcomes if not item.node and item.reason), "")
    if running >= requested and all(item.node for item in outcomes):
        maximum = ClusterPodCapacity(pods, cluster).compute_maximum_replicas(workloads, 0)
        return ObjectFeasibility(FeasibilityResult.RUNS, replicas_requested=requested, replicas_max=maximum)
    inputs = pods.build_initial_input(cluster)
    inputs = replace(inputs, workloads=(*inputs.workloads, *workloads))
    is_rejected = any(prediction.forecasts[key].uncreated for key in keys)
    waiting_keys = {item.workload for item in outcomes if not item.node}
    is_possible = tries_nodes and not is_rejected and _can_run(workloads, waiting_keys, inputs, cluster)
    additions = find_additions(inputs, cluster, keys, {}) if is_possible else {}
    tried = compute_search_limit(inputs) if is_possible else 0
    return _build_waiting_feasibility(additions, reason or _REJECTED, requested, running, tried, is_certain=False)


class ClusterLossEffects:
    """Pods without a node after the loss of each machine and each rack of a cluster, predicted once."""

    def __init__(self, pods: PodPhase, cluster: NodeCluster) -> None:
        inputs = pods.build_input(cluster)
        self._by_machine = _count_waiting_after_losses(inputs, [node.machine for node in inputs.cluster.nodes])
        self._by_rack = _count_waiting_after_losses(inputs, [node.rack for node in inputs.cluster.nodes])

    def find_machine_effect(self, keys: set[str]) -> LossEffect | None:
        """Return the worst effect of one machine on these workloads; None if the machines are not known."""
        return _find_worst_loss(self._by_machine, keys)

    def find_rack_effect(self, keys: set[str]) -> LossEffect | None:
        """Return the worst effect of one rack on these workloads; None if the racks are not known."""
        return _find_worst_loss(self._by_rack, keys)


def _count_waiting_after_losses(inputs: PredictionInput, places: Sequence[str]) -> dict[str, Counter[str]]:
    """Count the waiting pods by workload, after the loss of each place; empty if the place of a node is not known,
    or for a cluster with too many pods and places.
    """
    pods = len(inputs.existing_pods) + sum(workload.replicas for workload in inputs.workloads)
    if not all(places) or len(set(places)) * pods > MAX_LOST_PODS:
        return {}
    waiting: dict[str, Counter[str]] = {}
    for lost in dict.fromkeys(places):
        nodes = tuple(node for node, place in zip(inputs.cluster.nodes, places, strict=True) if place != lost)
        waiting[lost] = count_waiting_pods(replace(inputs, cluster=replace(inputs.cluster, nodes=nodes)))
    return waiting


def _find_worst_loss(losses: Mapping[str, Counter[str]], keys: set[str]) -> LossEffect | None:
    effects = {lost: sum(waiting[key] for key in keys) for lost, waiting in losses.items()}
    worst = max(effects, key=lambda lost: effects[lost], default=None)
    if worst is None:
        return None
    return LossEffect(worst, effects[worst]) if effects[worst] else LossEffect()


def _get_workload_kind(outcome: PodOutcome) -> str:
    return outcome.workload.split("/")[1]
