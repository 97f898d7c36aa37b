"""Feasibility of an object's pods on a cluster: now, or after the fewest additional nodes of one pool. The pods
of all objects on the cluster count together. A pool without free capacity is tried with copies of its nodes; they
exist before the pods of the plan are scheduled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.object_pods import PredictionInput
from nexusform.domains.pods.planning.phase import PodPhase
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, compute_placeable_range
from nexusform.domains.pods.scheduling.pod_prediction import Predictor, predict
from nexusform.domains.pods.scheduling.workloads import Node, Workload
from nexusform.plans.plan import FeasibilityResult, LossEffect

_HOSTNAME: Final = "kubernetes.io/hostname"
# Labels with the name of a node's pool, in clusters known from a dump only.
_POOL_LABELS: Final = (
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
)
_MAX_NODES: Final = 64  # additional nodes tried per pool
_MAX_REPLICAS: Final = 10_000
MAX_LOST_PODS: Final = 20_000  # places times pods; more would take minutes per cluster
_REJECTED: Final = "a quota or an admission rule rejects pods"
_SCALABLE_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet")


class ObjectFeasibility(Struct, frozen=True):
    """Feasibility of one object on one cluster. `missing_nodes` of `pool` are needed for RUNS_AFTER."""

    result: FeasibilityResult
    missing_nodes: int | None = None
    pool: str = ""
    reason: str = ""
    replicas_requested: int = 0
    replicas_max: int | None = None
    is_certain: bool = False


# Waiting pods by cluster, pool and number of additional nodes: all objects on a cluster share these predictions.
WaitingPods: TypeAlias = dict[tuple[str, str, int], Counter[str]]


def find_feasibility(
    pods: PodPhase, address: str, cluster: NodeCluster, waiting_pods: WaitingPods
) -> ObjectFeasibility | None:
    """Return the feasibility of an object on a cluster; None without workloads. Adds predictions to `waiting_pods`."""
    workloads = pods.list_workloads(address, cluster.id)
    if not workloads:
        return None
    outcomes = [outcome for outcome in pods.list_outcomes(address, cluster.id) if outcome.action != "remove"]
    requested = sum(workload.replicas for workload in workloads if workload.kind != "DaemonSet")
    waiting = [outcome for outcome in outcomes if not outcome.node]
    running = sum(bool(outcome.node) and _get_workload_kind(outcome) != "DaemonSet" for outcome in outcomes)
    is_certain = all(outcome.is_certain for outcome in outcomes)
    if not waiting and running >= requested:
        maximum = _compute_maximum(pods.build_input(cluster), workloads, running)
        return ObjectFeasibility(
            FeasibilityResult.RUNS, replicas_requested=requested, replicas_max=maximum, is_certain=is_certain
        )
    reason = next((outcome.reason for outcome in waiting if outcome.reason), _REJECTED)
    additions = _find_additions(
        pods.build_initial_input(cluster), cluster, {workload.key for workload in workloads}, waiting_pods
    )
    result = FeasibilityResult.RUNS_AFTER if additions is not None else FeasibilityResult.CANNOT_RUN
    return ObjectFeasibility(
        result,
        missing_nodes=additions[1] if additions is not None else None,
        pool=additions[0] if additions is not None else "",
        reason=reason,
        replicas_requested=requested,
        replicas_max=running,
        is_certain=is_certain,
    )


def find_candidate_feasibility(
    pods: PodPhase, cluster: NodeCluster, workloads: Sequence[Workload]
) -> ObjectFeasibility:
    """Return the feasibility of additional workloads on a cluster, beside its pods of the plan."""
    inputs = pods.build_input(cluster)
    inputs = replace(inputs, workloads=(*inputs.workloads, *workloads))
    keys = {workload.key for workload in workloads}
    prediction = predict(inputs.cluster, inputs.existing_pods, inputs.workloads, seed=inputs.seed)
    outcomes = [item for item in prediction.outcomes if item.workload in keys and item.action != "remove"]
    running = sum(bool(item.node) and _get_workload_kind(item) != "DaemonSet" for item in outcomes)
    requested = sum(workload.replicas for workload in workloads if workload.kind != "DaemonSet")
    reason = next((item.reason for item in outcomes if not item.node and item.reason), "")
    if running >= requested and all(item.node for item in outcomes):
        maximum = _compute_maximum(pods.build_input(cluster), workloads, 0)
        return ObjectFeasibility(FeasibilityResult.RUNS, replicas_requested=requested, replicas_max=maximum)
    inputs = pods.build_initial_input(cluster)
    inputs = replace(inputs, workloads=(*inputs.workloads, *workloads))
    additions = _find_additions(inputs, cluster, keys, {})
    result = FeasibilityResult.CANNOT_RUN if additions is None else FeasibilityResult.RUNS_AFTER
    pool, missing_nodes = additions or ("", None)
    return ObjectFeasibility(result, missing_nodes, pool, reason or _REJECTED, requested, running)


class ClusterLosses:
    """Pods without a node after the loss of each machine and each rack of a cluster, predicted once."""

    def __init__(self, pods: PodPhase, cluster: NodeCluster) -> None:
        inputs = pods.build_input(cluster)
        self._by_machine = _predict_losses(inputs, [node.machine for node in inputs.cluster.nodes])
        self._by_rack = _predict_losses(inputs, [node.rack for node in inputs.cluster.nodes])

    def find_machine_effect(self, keys: set[str]) -> LossEffect | None:
        """Return the worst effect of one machine on these workloads; None if the machines are not known."""
        return _find_worst(self._by_machine, keys)

    def find_rack_effect(self, keys: set[str]) -> LossEffect | None:
        """Return the worst effect of one rack on these workloads; None if the racks are not known."""
        return _find_worst(self._by_rack, keys)


def _predict_losses(inputs: PredictionInput, places: Sequence[str]) -> dict[str, Counter[str]]:
    """Count the waiting pods by workload, after the loss of each place; empty if the place of a node is not known,
    or for a cluster with too many pods and places.
    """
    pods = len(inputs.existing_pods) + sum(workload.replicas for workload in inputs.workloads)
    if not all(places) or len(set(places)) * pods > MAX_LOST_PODS:
        return {}
    waiting: dict[str, Counter[str]] = {}
    for lost in dict.fromkeys(places):
        nodes = tuple(node for node, place in zip(inputs.cluster.nodes, places, strict=True) if place != lost)
        waiting[lost] = _list_waiting(replace(inputs, cluster=replace(inputs.cluster, nodes=nodes)))
    return waiting


def _find_worst(losses: Mapping[str, Counter[str]], keys: set[str]) -> LossEffect | None:
    effects = {lost: sum(waiting[key] for key in keys) for lost, waiting in losses.items()}
    worst = max(effects, key=lambda lost: effects[lost], default=None)
    if worst is None:
        return None
    return LossEffect(worst, effects[worst]) if effects[worst] else LossEffect()


def _get_workload_kind(outcome: PodOutcome) -> str:
    return outcome.workload.split("/")[1]


def _compute_maximum(inputs: PredictionInput, workloads: Sequence[Workload], running: int) -> int | None:
    """Compute the largest replica count of the only scalable workload; None without exactly one."""
    scalable = [workload for workload in workloads if workload.kind in _SCALABLE_KINDS]
    if len(scalable) != 1 or scalable[0].pod.claims:
        return None
    session = Predictor(inputs.cluster, inputs.existing_pods, (), inputs.seed, (), ()).session
    return running + compute_placeable_range(session.get_scheduler(scalable[0].pod), _MAX_REPLICAS).minimum


# --- more nodes ----------------------------------------------------------------------------------


def _find_additions(
    inputs: PredictionInput, cluster: NodeCluster, keys: set[str], waiting_pods: WaitingPods
) -> tuple[str, int] | None:
    """Find the pool and its fewest additional nodes for all pods of these workloads to run; None without one."""
    best: tuple[str, int] | None = None

    def count_waiting(pool: str, node: Node, count: int) -> int:
        key = cluster.id, pool, count
        if key not in waiting_pods:
            waiting_pods[key] = _predict_waiting(inputs, node, count)
        return sum(waiting_pods[key][workload] for workload in keys)

    for pool, node in _list_pool_nodes(cluster).items():
        maximum = _MAX_NODES if best is None else best[1] - 1
        if maximum < 1 or count_waiting(pool, node, maximum):
            continue
        lower, upper = 0, maximum  # `lower` nodes are too few, `upper` are enough
        while upper - lower > 1:
            middle = (lower + upper) // 2
            if count_waiting(pool, node, middle):
                lower = middle
            else:
                upper = middle
        best = pool, upper
    return best


def _list_pool_nodes(cluster: NodeCluster) -> Mapping[str, Node]:
    """Return a schedulable node of each pool, in the order of the pools."""
    nodes: dict[str, Node] = {}
    for number, node in enumerate(cluster.nodes):
        if not node.unschedulable:
            pool = cluster.pools[number] if cluster.pools else _find_pool_label(node)
            nodes.setdefault(pool, node)
    return nodes


def _find_pool_label(node: Node) -> str:
    return next((node.labels[label] for label in _POOL_LABELS if label in node.labels), "")


def _predict_waiting(inputs: PredictionInput, node: Node, count: int) -> Counter[str]:
    """Count the pods without a node by workload once the cluster has `count` more nodes like this one."""
    nodes = (*inputs.cluster.nodes, *(_copy_node(node, number) for number in range(count)))
    return _list_waiting(replace(inputs, cluster=replace(inputs.cluster, nodes=nodes)))


def _list_waiting(inputs: PredictionInput) -> Counter[str]:
    """Count the pods without a node by workload."""
    prediction = predict(
        inputs.cluster, inputs.existing_pods, inputs.workloads, seed=inputs.seed, lost_pods=inputs.lost_pods
    )
    waiting = Counter({key: forecast.uncreated for key, forecast in prediction.forecasts.items()})
    waiting.update(item.workload for item in prediction.outcomes if item.action != "remove" and not item.node)
    return waiting


def _copy_node(node: Node, number: int) -> Node:
    """Copy a node of a pool as an additional one on a machine of its own."""
    name = f"{node.name}-additional-{number + 1}"
    labels = {
        key: f"additional-{number + 1}" if node.machine and value == node.machine else value
        for key, value in node.labels.items()
    }
    return replace(node, name=name, labels={**labels, _HOSTNAME: name}, machine="", rack="", images=None)
