"""Feasibility of an object's pods on a cluster: now, or after the fewest additional nodes.

The pods of all objects on the cluster count together.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, combinations_with_replacement, islice
from math import ceil
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.domains.pods.importers import pod_security
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.importers.object_needs import ClusterInventory
from nexusform.domains.pods.importers.pod_admission import AdmissionRejection
from nexusform.domains.pods.planning.need_assessment import (
    NeedAssessment,
    assess_object_needs,
    assess_workload_needs,
)
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.object_pods import (
    NO_REJECTION,
    PredictionInput,
    build_rejection,
)
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.domains.pods.scheduling import profile
from nexusform.domains.pods.scheduling.cluster_records import (
    HOSTNAME,
    Node,
    ObjectNeed,
    PodSpec,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome, compute_placeable_range
from nexusform.domains.pods.scheduling.pod_prediction import PodPredictor, predict
from nexusform.domains.pods.scheduling.random_choices import RandomChoices, RandomFacts
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage, SchedulerCache
from nexusform.domains.pods.scheduling.scheduling_session import SchedulingSession
from nexusform.plans.plan import FeasibilityResult, LossEffect

_MAX_REPLICAS: Final = 10_000
# Limit of places times pods; more would take minutes per cluster.
MAX_LOST_PODS: Final = 20_000
_SCALABLE_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet")
# Limit of additional nodes tried per pool.
_MAX_NODES: Final = 512
# The same with many workloads.
_MIN_NODES: Final = 32
# Limit of additional nodes times workloads.
_MAX_WORKLOAD_NODES: Final = 4096
# Limit of mixes of pools tried per object.
_MAX_MIXES: Final = 60
# Labels with the name of a node's pool, in clusters known from a dump only.
_POOL_LABELS: Final = (
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
)
# Prefix of taints by the condition of one node.
_STATUS_TAINTS: Final = "node.kubernetes.io/"

# Waiting pods by number of additional nodes by pool: all objects on a cluster
# share these predictions.
WaitingPods: TypeAlias = dict[frozenset[tuple[str, int]], Counter[str]]


class ObjectFeasibility(Struct, frozen=True):
    """Feasibility of one object on one cluster.

    `missing_nodes` by pool are needed for RUNS_AFTER. `missing` are objects for which pods wait.
    `by` is the admission plugin that rejects pods.
    """

    result: FeasibilityResult
    missing_nodes: Mapping[str, int] = {}
    reason: str = ""
    replicas_requested: int = 0
    replicas_max: int | None = None
    is_certain: bool = False
    missing: tuple[ObjectNeed, ...] = ()
    by: str = ""


class ClusterPodCapacity:
    """Pods and capacity of a cluster, computed once for the feasibility of all objects on it."""

    def __init__(self, pods: PodPhase, cluster: NodeCluster) -> None:
        self.pods = pods
        self.cluster = cluster
        # Predictions with additional nodes, shared by all objects.
        self.waiting_pods: WaitingPods = {}

    @cached_property
    def is_certain(self) -> bool:
        """Whether every pod of the cluster is certain."""
        return self.pods.is_cluster_certain(self.cluster.id)

    @cached_property
    def inventory(self) -> ClusterInventory:
        """The objects on the cluster after the plan."""
        return self.pods.build_inventory(self.cluster.id)

    @cached_property
    def initial_prediction_input(self) -> PredictionInput:
        """Input of a prediction from the pods before the plan."""
        return self.pods.build_initial_input(self.cluster)

    @cached_property
    def _session(self) -> SchedulingSession:
        """Scheduling state of the cluster with its pods after the plan, to count further pods."""
        inputs = self.pods.build_input(self.cluster)
        return PodPredictor(
            inputs.cluster,
            inputs.existing_pods,
            (),
            RandomChoices(RandomFacts(inputs.seed)),
            lost_pods=(),
            removed_workloads=(),
        ).session

    def compute_maximum_replicas(self, workloads: Sequence[Workload], running: int) -> int | None:
        """Return `running` plus the further pods of the only scalable workload.

        The result is None without one, or with claims.
        """
        scalable = [workload for workload in workloads if workload.kind in _SCALABLE_KINDS]
        if len(scalable) != 1 or scalable[0].pod.claims:
            return None
        return (
            running
            + compute_placeable_range(
                self._session.get_scheduler(scalable[0].pod), _MAX_REPLICAS
            ).minimum
        )


def find_object_feasibility(
    address: str, capacity: ClusterPodCapacity, *, tries_nodes: bool = True
) -> ObjectFeasibility | None:
    """Return the feasibility of an object on a cluster; None without workloads.

    With `tries_nodes`, find additional nodes for pods without a node. Without it, these
    pods mean CANNOT_RUN.
    """
    pods = capacity.pods
    cluster = capacity.cluster
    object_pods = pods.find_object_pods(address, cluster.id)
    workloads = object_pods.workloads
    if not workloads:
        # It has no pods.
        return None
    outcomes = [outcome for outcome in object_pods.list_all_outcomes() if not outcome.is_removed]
    is_certain = all(outcome.is_certain for outcome in outcomes)
    feasibility = replace(_evaluate_outcomes(workloads, outcomes), is_certain=is_certain)
    needs = assess_object_needs(object_pods, capacity.inventory)
    feasibility = _apply_rejection(feasibility, object_pods.rejection, needs)
    if feasibility.result in (FeasibilityResult.REJECTED, FeasibilityResult.WAITS):
        return feasibility
    if not needs.are_met:
        feasibility = replace(feasibility, is_certain=False)
    if feasibility.result is FeasibilityResult.RUNS and not needs.are_met:
        return _doubt_needs(feasibility, needs)
    if feasibility.result is FeasibilityResult.RUNS:
        gap = pods.describe_unlisted_pods(cluster.id)
        # These pods may use the capacity.
        if gap:
            return replace(
                feasibility, result=FeasibilityResult.UNKNOWN, reason=gap, replicas_max=None
            )
        # None: not computed.
        maximum = capacity.compute_maximum_replicas(workloads, _count_running(outcomes))
        # The maximum depends on all pods of the cluster.
        is_certain = is_certain and (maximum is None or capacity.is_certain)
        return replace(feasibility, replicas_max=maximum, is_certain=is_certain)
    if not tries_nodes:
        return feasibility
    inputs = capacity.initial_prediction_input
    return _try_more_nodes(feasibility, workloads, outcomes, inputs, cluster, capacity.waiting_pods)


def _apply_rejection(
    feasibility: ObjectFeasibility, rejection: AdmissionRejection, needs: NeedAssessment
) -> ObjectFeasibility:
    """Return the feasibility of pods that the API server rejects, or that wait for objects.

    More nodes help neither.
    """
    # An absent object is named by its kind instead of a plugin.
    absent_kinds = {need.kind for need in needs.missing}
    if rejection.reason and rejection.plugin not in absent_kinds:
        # The exemptions of an API server are not read.
        is_certain = feasibility.is_certain and rejection.plugin != pod_security.PLUGIN
        return replace(
            feasibility,
            result=FeasibilityResult.REJECTED,
            by=rejection.plugin,
            reason=rejection.reason,
            is_certain=is_certain,
        )
    if not needs.missing:
        return feasibility
    return replace(
        feasibility,
        result=FeasibilityResult.WAITS,
        missing=needs.missing,
        reason=format_list([need.title for need in needs.missing]),
        is_certain=False,
    )


def _doubt_needs(feasibility: ObjectFeasibility, needs: NeedAssessment) -> ObjectFeasibility:
    """Return the feasibility of pods with a node whose needs are not all known to be there."""
    return replace(
        feasibility,
        result=FeasibilityResult.UNKNOWN,
        reason=needs.describe_doubt(),
        missing=needs.image_secrets,
        replicas_max=None,
        is_certain=False,
    )


def _evaluate_outcomes(
    workloads: Iterable[Workload], outcomes: Sequence[PodOutcome]
) -> ObjectFeasibility:
    """Return the feasibility of workloads by the outcomes of their pods.

    No nodes are added.
    """
    requested = sum(workload.replicas for workload in workloads if workload.kind != "DaemonSet")
    running = _count_running(outcomes)
    reasons = [outcome.reason for outcome in outcomes if not outcome.node]
    feasibility = ObjectFeasibility(
        FeasibilityResult.RUNS, replicas_requested=requested, replicas_max=running
    )
    if not reasons and running >= requested:
        return feasibility
    # Without a reason of a waiting pod, some pods are not created at all.
    reason = next(filter(None, reasons), "some pods are not created")
    return replace(feasibility, result=FeasibilityResult.CANNOT_RUN, reason=reason)


def _count_running(outcomes: Iterable[PodOutcome]) -> int:
    """Count the pods with a node, without those of DaemonSets."""
    return len(
        [outcome for outcome in outcomes if outcome.node and "/DaemonSet/" not in outcome.workload]
    )


def _can_run(
    workloads: Iterable[Workload],
    keys: Container[str],
    inputs: PredictionInput,
    cluster: NodeCluster,
) -> bool:
    """Return whether the pods of the workloads with these keys may run with enough nodes.

    Such a pod has no scheduling gates and no missing claims. It fits one of the nodes without other
    pods, or a further node of a pool. The pods required by its affinity exist.
    """
    nodes = list(inputs.cluster.nodes)
    # One more of each pool.
    nodes += [copy_node(node, 0) for node in list_pool_nodes(cluster).values()]
    for workload in workloads:
        if workload.key not in keys:
            continue
        spec = workload.pod
        if spec.gates or any(rule.find_rejection(spec) for rule in profile.POD_FILTERS):
            return False
        fits_some_node = any(_is_node_usable_by_pod(spec, node) for node in nodes)
        if not fits_some_node or not _has_affinity_match(spec, inputs):
            return False
    return True


def _try_more_nodes(
    infeasible: ObjectFeasibility,
    workloads: Sequence[Workload],
    outcomes: Iterable[PodOutcome],
    inputs: PredictionInput,
    cluster: NodeCluster,
    waiting_pods: WaitingPods,
) -> ObjectFeasibility:
    """Return the feasibility of workloads with waiting pods after the fewest additional nodes.

    The workloads are found in `outcomes`. The feasibility is unknown if no number up to the search
    limit is enough, and unchanged if no number helps.
    """
    waiting_keys = {outcome.workload for outcome in outcomes if not outcome.node}
    if not _can_run(workloads, waiting_keys, inputs, cluster):
        return infeasible
    additions = find_additions(
        inputs, cluster, {workload.key for workload in workloads}, waiting_pods
    )
    if additions:
        return replace(infeasible, result=FeasibilityResult.RUNS_AFTER, missing_nodes=additions)
    nodes = format_count(compute_search_limit(inputs), "more node")
    reason = f"not enough: up to {nodes} per pool; {infeasible.reason}"
    return replace(infeasible, result=FeasibilityResult.UNKNOWN, reason=reason, is_certain=False)


def find_candidate_feasibility(
    pods: PodPhase,
    cluster: NodeCluster,
    workloads: Sequence[Workload],
    manifests: Sequence[Manifest] = (),
    *,
    tries_nodes: bool = True,
) -> ObjectFeasibility:
    """Return whether additional workloads can run on a cluster, next to its pods of the plan.

    `manifests` are applied with them. With `tries_nodes`, find additional nodes for pods
    without a node. Without it, these pods mean CANNOT_RUN.
    """
    inputs = pods.build_input(cluster)
    inputs = replace(inputs, workloads=(*inputs.workloads, *workloads))
    keys = {workload.key for workload in workloads}
    prediction = predict(inputs.cluster, inputs.existing_pods, inputs.workloads, seed=inputs.seed)
    outcomes = [
        item for item in prediction.outcomes if item.workload in keys and not item.is_removed
    ]
    feasibility = _evaluate_outcomes(workloads, outcomes)
    needs = assess_workload_needs(workloads, pods.build_inventory(cluster.id, manifests))
    rejections = [build_rejection(prediction.forecasts[key]) for key in sorted(keys)]
    rejection = next((item for item in rejections if item.reason), NO_REJECTION)
    feasibility = _apply_rejection(feasibility, rejection, needs)
    if feasibility.result in (FeasibilityResult.REJECTED, FeasibilityResult.WAITS):
        return feasibility
    if feasibility.result is FeasibilityResult.RUNS and not needs.are_met:
        return _doubt_needs(feasibility, needs)
    if feasibility.result is FeasibilityResult.RUNS:
        gap = pods.describe_unlisted_pods(cluster.id)
        if gap:
            return replace(
                feasibility, result=FeasibilityResult.UNKNOWN, reason=gap, replicas_max=None
            )
        # The capacity is computed without the additional workloads: none of their pods is running.
        maximum = ClusterPodCapacity(pods, cluster).compute_maximum_replicas(workloads, running=0)
        return replace(feasibility, replicas_max=maximum)
    if not tries_nodes:
        return feasibility
    # More nodes: all pods of the plan are placed again, too.
    inputs = pods.build_initial_input(cluster)
    inputs = replace(inputs, workloads=(*inputs.workloads, *workloads))
    return _try_more_nodes(feasibility, workloads, outcomes, inputs, cluster, waiting_pods={})


class ClusterLossEffects:
    """Pods without a node by workload, after the loss of each machine or rack.

    They are empty if some machines or racks are unknown.
    """

    def __init__(self, pods: PodPhase, cluster: NodeCluster) -> None:
        inputs = pods.build_input(cluster)
        self.by_machine = _count_waiting_after_losses(
            inputs, [node.machine for node in inputs.cluster.nodes]
        )
        self.by_rack = _count_waiting_after_losses(
            inputs, [node.rack for node in inputs.cluster.nodes]
        )


def _count_waiting_after_losses(
    inputs: PredictionInput, places: Sequence[str]
) -> dict[str, Counter[str]]:
    """Count the waiting pods by workload after the loss of each place: a machine or a rack.

    `places` has the place of each node, "" if unknown. The result is empty if a place is unknown,
    or if the cluster has too many pods and places to predict all losses.
    """
    pod_count = len(inputs.existing_pods) + sum(workload.replicas for workload in inputs.workloads)
    if not all(places) or len(set(places)) * pod_count > MAX_LOST_PODS:
        return {}
    waiting_by_place: dict[str, Counter[str]] = {}
    for lost_place in dict.fromkeys(places):
        nodes = tuple(
            node
            for node, place in zip(inputs.cluster.nodes, places, strict=True)
            if place != lost_place
        )
        waiting_by_place[lost_place] = count_waiting_pods(
            replace(inputs, cluster=replace(inputs.cluster, nodes=nodes))
        )
    return waiting_by_place


def find_worst_loss(losses: Mapping[str, Counter[str]], keys: set[str]) -> LossEffect | None:
    """Return the loss with the most waiting pods of the workloads `keys`; None without losses.

    `losses` has the waiting pods by lost place and workload. If no pod waits, the result is
    an empty LossEffect.
    """
    waiting_by_place = Counter(
        {place: sum(waiting[key] for key in keys) for place, waiting in losses.items()}
    )
    if not waiting_by_place:
        return None
    ((worst_place, count),) = waiting_by_place.most_common(1)
    return LossEffect(worst_place, count) if count else LossEffect()


def find_additions(
    inputs: PredictionInput, cluster: NodeCluster, keys: set[str], waiting_pods: WaitingPods
) -> Mapping[str, int]:
    """Find the fewest additional nodes for all pods of the workloads `keys` to run, by pool.

    {} if none are found. Each pool alone is tried first, then mixes. `waiting_pods` caches the
    waiting pods of each prediction by added nodes.
    """
    nodes = list_pool_nodes(cluster)
    maximum = compute_search_limit(inputs)

    def predict_waiting(counts: Mapping[str, int]) -> Counter[str]:
        """Count the waiting pods by workload with additional nodes (`counts` by pool)."""
        added_nodes = frozenset(counts.items())
        if added_nodes not in waiting_pods:
            copies = [
                copy_node(nodes[pool], number)
                for pool, count in counts.items()
                for number in range(count)
            ]
            all_nodes = (*inputs.cluster.nodes, *copies)
            larger_cluster = replace(inputs.cluster, nodes=all_nodes)
            waiting_pods[added_nodes] = count_waiting_pods(replace(inputs, cluster=larger_cluster))
        return waiting_pods[added_nodes]

    def is_enough(others: Mapping[str, int], pool: str, count: int) -> bool:
        """Return whether all pods run with `count` nodes added to `pool`.

        `others` are those added to other pools.
        """
        counts = {name: number for name, number in {**others, pool: count}.items() if number}
        return not any(predict_waiting(counts)[workload] for workload in keys)

    best: dict[str, int] = {}
    for pool, node in nodes.items():
        estimate = _estimate_nodes(predict_waiting({}), inputs, node)
        # Predictions with one pool.
        single_pools = [dict(counts) for counts in waiting_pods if len(counts) == 1]
        predicted_counts = [counts[pool] for counts in single_pools if pool in counts]
        # Numbers of nodes to try first: those with a prediction already, then some
        # around the estimate.
        probes = (*sorted(predicted_counts), estimate, estimate - 1, 2 * estimate, estimate // 2)
        # The limit is below the best pool so far.
        limit = min([maximum + 1, *best.values()]) - 1
        fewest = _find_fewest_nodes(
            partial(is_enough, {}, pool), minimum=0, maximum=limit, probes=probes
        )
        if fewest is not None:
            best = {pool: fewest}
    return best or _find_mix(dict.fromkeys(nodes, maximum), is_enough)


def _estimate_nodes(waiting: Mapping[str, int], inputs: PredictionInput, node: Node) -> int:
    """Estimate how many more nodes like `node` the waiting pods need.

    The search for the exact number starts there.
    """
    nodes = 0.0
    for workload in inputs.workloads:
        requests = workload.pod.requests
        pods_per_node = min(
            node.cpu // max(1, requests.cpu), node.memory // max(1, requests.memory), node.pods
        )
        nodes += waiting.get(workload.key, 0) / max(1, pods_per_node)
    return max(1, ceil(nodes))


def compute_search_limit(inputs: PredictionInput) -> int:
    """Return the largest number of additional nodes per pool to try: one per pod, up to a limit.

    Each workload may need another number, and each number is a prediction: the limit is lower
    with many workloads.
    """
    pods = sum(workload.replicas for workload in inputs.workloads)
    limit_by_workloads = max(_MIN_NODES, _MAX_WORKLOAD_NODES // max(1, len(inputs.workloads)))
    return min(_MAX_NODES, max(1, pods), limit_by_workloads)


def _find_fewest_nodes(
    is_enough: Callable[[int], bool], minimum: int, maximum: int, probes: Iterable[int] = ()
) -> int | None:
    """Find the smallest number of nodes above `minimum`; None if the maximum is too few.

    `probes` are tried first.
    """
    # `lower` is too few.
    lower = minimum
    upper = maximum + 1
    for probe in (*probes, maximum):
        if lower < probe < upper:
            lower, upper = (lower, probe) if is_enough(probe) else (probe, upper)
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if is_enough(middle) else (middle, upper)
    return upper if upper <= maximum else None


def _find_mix(
    maximum: Mapping[str, int], is_enough: Callable[[Mapping[str, int], str, int], bool]
) -> dict[str, int]:
    """Find the fewest nodes of several pools together, by pool; empty without a result.

    A pool needs at least as many as with the `maximum` of all other pools. These minimums are tried
    first, then with 1, 2 and more nodes added. `is_enough(nodes, pool, count)` checks `nodes` (by
    pool) with `count` nodes in `pool`.
    """
    if len(maximum) < 2:
        # There are no mixes.
        return {}
    fewest: dict[str, int] = {}
    for pool, limit in maximum.items():
        # -1: 0 may do.
        count = _find_fewest_nodes(partial(is_enough, maximum, pool), minimum=-1, maximum=limit)
        if count is None:
            # Even the maximum of all pools is too few.
            return {}
        fewest[pool] = count
    further = chain.from_iterable(
        combinations_with_replacement(fewest, size) for size in range(_MAX_MIXES)
    )
    for added in islice(further, _MAX_MIXES):
        counts = {pool: count + added.count(pool) for pool, count in fewest.items()}
        # Its own number is passed again: all counts are checked as they are.
        some_pool = next(iter(counts))
        if is_enough(counts, some_pool, counts[some_pool]):
            return {pool: count for pool, count in counts.items() if count}
    return {}


def count_waiting_pods(inputs: PredictionInput) -> Counter[str]:
    """Count by workload the pods without a node or not created.

    A quota or an earlier pod may prevent the creation.
    """
    prediction = predict(
        inputs.cluster,
        inputs.existing_pods,
        inputs.workloads,
        seed=inputs.seed,
        lost_pods=inputs.lost_pods,
    )
    waiting = Counter({key: forecast.uncreated for key, forecast in prediction.forecasts.items()})
    waiting.update(
        item.workload for item in prediction.outcomes if not item.is_removed and not item.node
    )
    return waiting


def list_pool_nodes(cluster: NodeCluster) -> Mapping[str, Node]:
    """Return a node of each pool by pool name, in the order of the pools.

    The node is a schedulable one if there is any.
    """
    nodes: dict[str, Node] = {}
    # Without VMs: by label.
    pools = cluster.pools or map(_find_pool_label, cluster.nodes)
    # Observed nodes of no pool of the plan are last.
    for pool, node in zip(pools, cluster.nodes, strict=False):
        if pool not in nodes or (
            _is_node_restricted(nodes[pool]) and not _is_node_restricted(node)
        ):
            nodes[pool] = node
    return {**nodes, **cluster.empty_pools}


def _is_node_restricted(node: Node) -> bool:
    """Return whether a node takes no pods for now.

    It is cordoned, or has a taint for its condition.
    """
    return node.unschedulable or any(taint.key.startswith(_STATUS_TAINTS) for taint in node.taints)


def _find_pool_label(node: Node) -> str:
    return next((node.labels[label] for label in _POOL_LABELS if label in node.labels), "")


def copy_node(node: Node, number: int) -> Node:
    """Copy a node as an additional, ready one on an unnamed machine, with unknown images.

    `number` counts the copies from 0.
    """
    name = f"{node.name}-additional-{number + 1}"
    labels = {
        key: f"additional-{number + 1}" if node.machine and value == node.machine else value
        for key, value in node.labels.items()
    }
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_STATUS_TAINTS))
    labels[HOSTNAME] = name
    return replace(
        node,
        name=name,
        labels=labels,
        taints=taints,
        unschedulable=False,
        machine="",
        rack="",
        images=None,
    )


def _is_node_usable_by_pod(spec: PodSpec, node: Node) -> bool:
    """Return whether a pod fits on a node without other pods."""
    if profile.find_node_rejection(spec, node) is not None:
        return False
    usage = NodeUsage()
    return not any(find_rejection(spec, node, usage) for _, find_rejection in profile.USAGE_FILTERS)


def _has_affinity_match(spec: PodSpec, inputs: PredictionInput) -> bool:
    """Return whether each required term of pod affinity matches some pod, or the pod itself."""
    if not spec.affinity:
        return True
    cache = SchedulerCache(inputs.cluster)
    groups = [cache.get_group(workload.pod) for workload in inputs.workloads]
    groups += [cache.get_group(pod.spec) for pod in inputs.existing_pods]
    return all(any(cache.is_selected(term, group) for group in groups) for term in spec.affinity)
