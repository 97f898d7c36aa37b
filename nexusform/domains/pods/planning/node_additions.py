"""Fewest additional nodes for the pods of some workloads on a cluster. Copies of a node of each pool are added to the
nodes before the plan, and all pods of the cluster are predicted again: first with more nodes of one pool, then with a
mix of pools. A pod rejected by every empty node and every copy runs with no number of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, combinations_with_replacement, islice
from math import ceil
from typing import Final, TypeAlias

from msgspec.structs import replace

from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.object_pods import PredictionInput
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import HOSTNAME, Node, PodSpec
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage, SchedulerCache

_MAX_NODES: Final = 512  # additional nodes tried per pool
_MIN_NODES: Final = 32  # the same with many workloads
_MAX_WORKLOAD_NODES: Final = 4096  # additional nodes times workloads
_MAX_MIXES: Final = 60  # mixes of pools tried per object
# Labels with the name of a node's pool, in clusters known from a dump only.
_POOL_LABELS: Final = (
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
)
_STATUS_TAINTS: Final = "node.kubernetes.io/"  # taints by the condition of one node

# Waiting pods by number of additional nodes by pool: all objects on a cluster share these predictions.
WaitingPods: TypeAlias = dict[frozenset[tuple[str, int]], Counter[str]]


def find_additions(
    inputs: PredictionInput, cluster: NodeCluster, keys: set[str], waiting_pods: WaitingPods
) -> Mapping[str, int]:
    """Find the fewest additional nodes by pool for all pods of these workloads to run; empty without a result."""
    nodes, maximum = list_pool_nodes(cluster), compute_search_limit(inputs)

    def predict_waiting(counts: Mapping[str, int]) -> Counter[str]:
        key = frozenset(counts.items())
        if key not in waiting_pods:
            copies = [copy_node(nodes[pool], number) for pool, count in counts.items() for number in range(count)]
            all_nodes = (*inputs.cluster.nodes, *copies)
            waiting_pods[key] = count_waiting_pods(replace(inputs, cluster=replace(inputs.cluster, nodes=all_nodes)))
        return waiting_pods[key]

    def is_enough(others: Mapping[str, int], pool: str, count: int) -> bool:
        counts = {name: number for name, number in {**others, pool: count}.items() if number}
        return not any(predict_waiting(counts)[workload] for workload in keys)

    best: dict[str, int] = {}
    for pool, node in nodes.items():
        estimate = _estimate_nodes(predict_waiting({}), inputs, node)
        known = [count for counts in waiting_pods for count in _list_node_counts_of_pool(counts, pool)]
        probes = (*sorted(known), estimate, estimate - 1, 2 * estimate, estimate // 2)
        limit = min([maximum + 1, *best.values()]) - 1
        fewest = _find_fewest_nodes(partial(is_enough, {}, pool), 0, limit, probes)
        if fewest is not None:
            best = {pool: fewest}
    return best or _find_mix(dict.fromkeys(nodes, maximum), is_enough)


def _list_node_counts_of_pool(counts: frozenset[tuple[str, int]], pool: str) -> list[int]:
    """Return the number of nodes if they are of this pool alone."""
    return [number for name, number in counts if name == pool and len(counts) == 1]


def _estimate_nodes(waiting: Mapping[str, int], inputs: PredictionInput, node: Node) -> int:
    """Estimate how many more nodes take the waiting pods, by CPU and memory: the search starts there."""
    nodes = 0.0
    for workload in inputs.workloads:
        requests = workload.pod.requests
        per_node = min(node.cpu // max(1, requests.cpu), node.memory // max(1, requests.memory), node.pods)
        nodes += waiting.get(workload.key, 0) / max(1, per_node)
    return max(1, ceil(nodes))


def compute_search_limit(inputs: PredictionInput) -> int:
    """Return the largest number of additional nodes per pool to try: one per pod, up to a limit. Each workload may
    need another number, and each number is a prediction: the limit is lower with many workloads.
    """
    pods = sum(workload.replicas for workload in inputs.workloads)
    return min(_MAX_NODES, max(1, pods), max(_MIN_NODES, _MAX_WORKLOAD_NODES // max(1, len(inputs.workloads))))


def _find_fewest_nodes(
    is_enough: Callable[[int], bool], minimum: int, maximum: int, probes: Iterable[int] = ()
) -> int | None:
    """Find the smallest number of nodes above `minimum`; None if the maximum is too few. `probes` are tried first."""
    lower, upper = minimum, maximum + 1  # `lower` is too few
    for probe in (*probes, maximum):
        if lower < probe < upper:
            lower, upper = (lower, probe) if is_enough(probe) else (probe, upper)
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if is_enough(middle) else (middle, upper)
    return upper if upper <= maximum else None


def _find_mix(maximum: Mapping[str, int], is_enough: Callable[[Mapping[str, int], str, int], bool]) -> dict[str, int]:
    """Find the fewest nodes of several pools; empty without a result. Each pool needs at least the number needed
    beside the maximum of the others. Larger mixes follow in the order of their size.
    """
    fewest: dict[str, int] = {}
    for pool, limit in maximum.items() if len(maximum) > 1 else ():
        count = _find_fewest_nodes(partial(is_enough, maximum, pool), -1, limit)
        if count is None:
            return {}
        fewest[pool] = count
    further = chain.from_iterable(combinations_with_replacement(fewest, size) for size in range(_MAX_MIXES))
    for added in islice(further, _MAX_MIXES if fewest else 0):
        counts = {pool: count + added.count(pool) for pool, count in fewest.items()}
        if is_enough(counts, *next(iter(counts.items()))):
            return {pool: count for pool, count in counts.items() if count}
    return {}


def count_waiting_pods(inputs: PredictionInput) -> Counter[str]:
    """Count the pods without a node by workload."""
    prediction = predict(
        inputs.cluster, inputs.existing_pods, inputs.workloads, seed=inputs.seed, lost_pods=inputs.lost_pods
    )
    waiting = Counter({key: forecast.uncreated for key, forecast in prediction.forecasts.items()})
    waiting.update(item.workload for item in prediction.outcomes if item.action != "remove" and not item.node)
    return waiting


def list_pool_nodes(cluster: NodeCluster) -> Mapping[str, Node]:
    """Return a node of each pool, in the order of the pools: a schedulable one if there is any."""
    nodes: dict[str, Node] = {}
    for number, node in enumerate(cluster.nodes):
        pool = cluster.pools[number] if cluster.pools else _find_pool_label(node)
        if pool not in nodes or (_is_node_restricted(nodes[pool]) and not _is_node_restricted(node)):
            nodes[pool] = node
    return {**nodes, **cluster.empty_pools}


def _is_node_restricted(node: Node) -> bool:
    return node.unschedulable or any(taint.key.startswith(_STATUS_TAINTS) for taint in node.taints)


def _find_pool_label(node: Node) -> str:
    return next((node.labels[label] for label in _POOL_LABELS if label in node.labels), "")


def copy_node(node: Node, number: int) -> Node:
    """Copy a node of a pool as an additional, ready one on a machine of its own."""
    name = f"{node.name}-additional-{number + 1}"
    labels = {
        key: f"additional-{number + 1}" if node.machine and value == node.machine else value
        for key, value in node.labels.items()
    }
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_STATUS_TAINTS))
    copied_labels = {**labels, HOSTNAME: name}
    return replace(
        node, name=name, labels=copied_labels, taints=taints, unschedulable=False, machine="", rack="", images=None
    )


# --- pods without any node -----------------------------------------------------------------------


def can_run(spec: PodSpec, inputs: PredictionInput, cluster: NodeCluster) -> bool:
    """Return whether a pod may run with enough nodes: it fits an empty node, and a pod for its affinity exists."""
    if spec.gates or any(rule.find_rejection(spec) for rule in profile.POD_FILTERS):
        return False
    nodes = chain(inputs.cluster.nodes, (copy_node(node, 0) for node in list_pool_nodes(cluster).values()))
    return any(_is_node_usable_by_pod(spec, node) for node in nodes) and _has_affinity_match(spec, inputs)


def _is_node_usable_by_pod(spec: PodSpec, node: Node) -> bool:
    if any(rule.find_rejection(spec, node) for rule in profile.NODE_FILTERS):
        return False
    usage = NodeUsage()
    return not any(find_rejection(spec, node, usage) for _, find_rejection in profile.USAGE_FILTERS)


def _has_affinity_match(spec: PodSpec, inputs: PredictionInput) -> bool:
    """Return whether some pod of the cluster, or the pod itself, matches each required term of pod affinity."""
    cache = SchedulerCache(inputs.cluster)
    return all(
        any(cache.is_selected(term, cache.get_group(other)) for other in _list_specs(inputs)) for term in spec.affinity
    )


def _list_specs(inputs: PredictionInput) -> Iterator[PodSpec]:
    yield from (workload.pod for workload in inputs.workloads)
    yield from (pod.spec for pod in inputs.existing_pods)
