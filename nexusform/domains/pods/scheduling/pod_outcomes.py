"""Results of a prediction: one outcome per pod, and per workload the number of placeable pods.

The minimum and maximum number of further pods of a spec depend on hard rules only, not on samples.
They are exact while the rules between pods of the spec use one topology key (keys with one node per
domain do not count): then every order of placement ends with the same number per domain. With
several keys, or several affinity terms, they are bounds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose, group_by
from nexusform.domains.pods.scheduling.cluster_records import (
    ClaimedUses,
    ExistingPod,
    Node,
    Pairs,
    PodCondition,
    PodKey,
    PodSpec,
    PodState,
    Workload,
    is_recreated,
)
from nexusform.domains.pods.scheduling.pod_spec_scheduler import PodSpecScheduler
from nexusform.domains.pods.scheduling.rules import inter_pod_affinity
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage
from nexusform.domains.pods.scheduling.topology_counts import DomainCounter, SpreadCounter
from nexusform.scheduling.placement_decision import Rejection

PLACE = "place"
MOVE = "move"
REMOVE = "remove"
KEEP = "keep"

NEW = "new"
SCALE_OUT = "scale_out"
SCALE_IN = "scale_in"
NODE_REMOVED = "node_removed"
TEMPLATE_CHANGED = "template_changed"
WORKLOAD_REMOVED = "workload_removed"
PREEMPTED = "preempted"
NO_EXECUTE = "no_execute"
# Start of the reason of an evicted pod.
EVICTED = "evicted"


class PodOutcome(Struct, frozen=True):
    """Predicted outcome of one pod.

    `node` is "" for a pod without a node: it is in `unscheduled_state` (or removed, by `action`),
    `reason` is the message of Kubernetes, and `rejections` has the first reason per node.
    `is_certain` means that every scheduler run would choose this node (or leave the pod Pending).
    `feasible_nodes` is their number, None without a decision. `victims` are evicted for the pod;
    `preempted_by` is the pod it was evicted for. `volumes` are bound claims, each with the name of
    its volume. `condition` is the observed one of a kept pod. `doubt` is the assumption behind an
    uncertain outcome, `alternative` its other node and the condition ("n0 if b arrives first").
    `devices` are its ResourceClaims with their devices.
    """

    workload: str
    number: int
    name: str
    action: str
    node: str
    spec: PodSpec
    previous: str = ""
    trigger: str = ""
    is_certain: bool = True
    feasible_nodes: int | None = None
    reason: str = ""
    rejections: tuple[Rejection, ...] = ()
    age: int = 0
    unscheduled_state: PodState = PodState.PENDING
    victims: tuple[ExistingPod, ...] = ()
    preempted_by: str = ""
    volumes: Pairs = ()
    condition: PodCondition = PodCondition()
    doubt: str = ""
    alternative: str = ""
    devices: ClaimedUses = ()

    @property
    def key(self) -> PodKey:
        """Workload and number."""
        return self.workload, self.number

    @property
    def is_removed(self) -> bool:
        """Whether the pod does not exist after the plan."""
        return self.action == REMOVE

    @property
    def state(self) -> PodState:
        """State of the pod after the plan."""
        return PodState.SCHEDULED if self.node else self.unscheduled_state

    @property
    def is_pending(self) -> bool:
        """Whether the pod exists and waits for a node."""
        return self.state is PodState.PENDING

    @property
    def is_failed(self) -> bool:
        """Whether kubelet rejects the pod."""
        return self.state is PodState.FAILED

    @property
    def can_retry(self) -> bool:
        """Whether the pod may get a node later.

        It is Pending, or its controller re-creates it after a failure.
        """
        if is_recreated(self.workload):
            return self.state in (PodState.PENDING, PodState.FAILED)
        # An evicted bare pod is gone.
        return self.is_pending and not self.reason.startswith(EVICTED)


class PlaceablePodRange(Struct, frozen=True):
    """Minimum and maximum number of pods allowed by hard rules, exact or as bounds."""

    minimum: int
    maximum: int
    is_exact: bool


class WorkloadForecast(Struct, frozen=True):
    """Workload after the prediction: requested pods, and running pods by machine and rack.

    Counts omit nodes with unknown machine or rack. `is_blocked` means that a rolling update cannot
    continue. `uncreated` pods do not exist: rejected by a quota or on admission, or (`deferred`)
    behind another pod of an ordered StatefulSet. `rejection` is the reason.
    """

    workload: Workload
    replicas: int
    placeable_range: PlaceablePodRange
    per_machine: Mapping[str, int]
    per_rack: Mapping[str, int]
    is_blocked: bool = False
    uncreated: int = 0
    deferred: int = 0
    rejection: str = ""

    @property
    def has_rejected_pods(self) -> bool:
        """Whether a quota or admission rejects pods, on any number of nodes.

        Deferred pods only wait for other pods.
        """
        return self.uncreated > self.deferred


class PodsPrediction(Struct, frozen=True):
    """Outcomes in order of decision (removed pods last), and a forecast per workload key.

    `unmanaged_pods` belong to other workloads and are kept; `displaced_outcomes` are those of
    evicted unmanaged pods.
    """

    outcomes: tuple[PodOutcome, ...]
    forecasts: Mapping[str, WorkloadForecast]
    unmanaged_pods: tuple[ExistingPod, ...] = ()
    displaced_outcomes: tuple[PodOutcome, ...] = ()

    def list_existing_pods(self) -> tuple[ExistingPod, ...]:
        """Return every pod after the prediction, Pending ones included.

        They are the input of the next prediction.
        """
        decided_pods = tuple(
            ExistingPod(
                workload=outcome.workload,
                number=outcome.number,
                node=outcome.node,
                spec=outcome.spec,
                age=outcome.age,
                # Only a pod failed for good keeps its rejection: a controller creates its
                # failed pods again.
                rejection=outcome.reason
                if outcome.is_failed and not is_recreated(outcome.workload)
                else "",
                volumes=outcome.volumes,
                condition=outcome.condition,
                devices=outcome.devices,
            )
            for outcome in (*self.outcomes, *self.displaced_outcomes)
            if not outcome.is_removed
        )
        return self.unmanaged_pods + decided_pods

    def list_outcomes(self, workload: str) -> tuple[PodOutcome, ...]:
        """Return the outcomes of one workload (key) by number, removed pods included."""
        outcomes = [outcome for outcome in self.outcomes if outcome.workload == workload]
        return tuple(sorted(outcomes, key=lambda outcome: outcome.number))


def build_removal(pod: ExistingPod, trigger: str) -> PodOutcome:
    """Return the outcome of an existing pod to remove."""
    return PodOutcome(
        workload=pod.workload,
        number=pod.number,
        name=pod.name,
        action=REMOVE,
        node="",
        spec=pod.spec,
        previous=pod.node,
        trigger=trigger,
        age=pod.age,
        unscheduled_state=PodState.REMOVED,
    )


def describe_condition(condition: PodCondition) -> str:
    """Return why an observed pod does not become ready, "" if it is ready or starts."""
    if not condition.stuck_reason:
        return ""
    since = enclose(" since ", condition.stuck_since)
    return f"stuck{since}: {condition.stuck_reason} {condition.name}"


def count_occurrences(names: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each non-empty name, sorted by name."""
    counts = Counter(filter(None, names))
    return dict(sorted(counts.items()))


def compute_placeable_range(scheduler: PodSpecScheduler, further: int) -> PlaceablePodRange:
    """Return how many of `further` more pods of the spec fit.

    A range if it depends on the order of placement.
    """
    spec = scheduler.group.spec
    cache = scheduler.cache
    counts = scheduler.counts
    # ReadWriteOncePod: the claims of one pod at most.
    if spec.exclusive_claims:
        further = 0 if cache.has_claim_conflict(spec) else min(further, 1)
    # If affinity requires pods like these, and there is none so far, the first one decides the
    # domain of all.
    is_first_pod = bool(counts.affinity) and counts.matches_itself and not counts.affinity_matches
    nodes: list[int] = []
    # Nodes alike for all rules about domains.
    for bucket in scheduler.list_buckets():
        # Each rule rejects all nodes of a bucket or none, so one is enough.
        node = next(bucket)
        if not is_first_pod and inter_pod_affinity.find_rejection(counts, node):
            continue
        if not any(_is_permanently_skewed(counter, node) for counter in counts.hard_spread):
            # `bucket` is an iterator over the other nodes now.
            nodes += (node, *bucket)
    capacity = _compute_pod_limits(scheduler, nodes, further)
    # Of the rules between these pods.
    own_counters = _collect_own_counters(scheduler, capacity)
    if is_first_pod:
        return _compute_affinity_range(scheduler, capacity, further, own_counters)
    has_several_rules = len(own_counters.spread) > 1 or len(counts.affinity) > 1
    # Then the number depends on the order of placement.
    if own_counters.have_several_keys or has_several_rules:
        return _compute_placeable_bounds(scheduler, capacity, further, own_counters)
    total = min(_sum_node_capacity(capacity, own_counters), further)
    return PlaceablePodRange(total, total, is_exact=True)


class _OwnCounters(NamedTuple):
    """Counters of rules between pods of one spec.

    These are anti-affinity (one per topology key) and hard spreading.
    """

    anti_affinity: Sequence[DomainCounter] = ()
    spread: Sequence[SpreadCounter] = ()

    @property
    def have_several_keys(self) -> bool:
        """Whether they count by several topology keys.

        Counters of one key share one list `domain_by_node`.
        """
        return (
            len({id(counter.domain_by_node) for counter in (*self.anti_affinity, *self.spread)}) > 1
        )


def _is_permanently_skewed(counter: SpreadCounter, node: int) -> bool:
    """Return whether a spread constraint rejects a node for every further pod of the spec.

    `counter` counts its domains.
    """
    domain = counter.domain_by_node[node]
    if domain < 0:
        # The node lacks the topology key.
        return True
    if counter.counts_itself:
        # Its count changes with the pods to place.
        return False
    # With the pod.
    skew = counter.counts[domain] + counter.matches_itself - counter.get_minimum_pod_count(domain)
    return skew > counter.constraint.max_skew


def _compute_pod_limits(
    scheduler: PodSpecScheduler, nodes: Iterable[int], further: int
) -> dict[int, int]:
    """Return how many further pods of the spec each node can take by its free capacity."""
    spec = scheduler.group.spec
    cache = scheduler.cache
    # Each node has its own amounts of these.
    if spec.requests.other_resources:
        return {
            node: _compute_pod_limit(spec, cache.nodes[node], cache.usage[node], further)
            for node in nodes
        }
    # Many nodes have equal sizes and usage: compute one limit for all of them.
    # By usage number.
    limits: dict[int, int] = {}
    for node in nodes:
        usage_number = cache.usage_numbers[node]
        if usage_number not in limits:
            limits[usage_number] = _compute_pod_limit(
                spec, cache.nodes[node], cache.usage[node], further
            )
    return {node: limits[cache.usage_numbers[node]] for node in nodes}


def _compute_pod_limit(spec: PodSpec, node: Node, usage: NodeUsage, further: int) -> int:
    """Return how many further pods of a spec a feasible node can take by its resources.

    The result is from 1 to `further`.
    """
    if spec.host_ports or not all(disk.is_read_only for disk in spec.disks):
        # A second pod would conflict with the first.
        return 1
    requests = spec.requests
    # Pairs by resource: the amount requested by one pod, and the free amount of the node.
    amounts = [(1, node.pods - usage.pods), (requests.cpu, node.cpu - usage.cpu)]
    amounts.append((requests.memory, node.memory - usage.memory))
    for name, amount in requests.other_resources:
        # Other resources (ephemeral storage) are unknown.
        if name in node.other_resources:
            amounts.append(
                (amount, node.other_resources[name] - usage.other_resources.get(name, 0))
            )
    return min(further, *[free // amount for amount, free in amounts if amount])


def _collect_own_counters(scheduler: PodSpecScheduler, capacity: dict[int, int]) -> _OwnCounters:
    """Return the counters of the rules between pods of this spec.

    Anti-affinity over a key with one node per domain (such as the host name) needs no counter: it
    limits each of these nodes to one pod. The limit is written to `capacity`, the number of further
    pods by node.
    """
    cache = scheduler.cache
    group = scheduler.group
    counts = scheduler.counts
    # One counter per topology.
    anti_affinity: dict[int, DomainCounter] = {}
    for term, counter in zip(group.spec.anti_affinity, counts.anti_affinity, strict=True):
        if not cache.is_selected(term, group):
            # It is about other pods.
            continue
        labelled_nodes = [node for node in capacity if counter.domain_by_node[node] >= 0]
        domains = {counter.domain_by_node[node] for node in labelled_nodes}
        # One node per domain.
        if len(domains) == len(labelled_nodes):
            capacity.update(dict.fromkeys(labelled_nodes, 1))
        else:
            anti_affinity[id(counter.domain_by_node)] = counter
    spread = [counter for counter in counts.hard_spread if counter.counts_itself]
    return _OwnCounters(list(anti_affinity.values()), spread)


def _sum_node_capacity(capacity: Mapping[int, int], own_counters: _OwnCounters) -> int:
    """Return how many further pods fit on all nodes together, within the rules between them.

    There is at most one counter of anti-affinity and one of spreading, over the same topology key.
    `capacity` is the number of further pods by node without these rules.
    """
    anti_affinity, spread = own_counters
    if not anti_affinity and not spread:
        return sum(capacity.values())
    # All have the same domains.
    first_counter = (*anti_affinity, *spread)[0]
    pods_by_domain: dict[int, int] = {}
    for node, pods in capacity.items():
        domain = first_counter.domain_by_node[node]
        pods_by_domain[domain] = pods_by_domain.get(domain, 0) + pods
    if anti_affinity:
        # Nodes without the key (-1) are never rejected, so they keep all their capacity.
        pods_by_domain = {
            domain: pods if domain < 0 else min(pods, 1) for domain, pods in pods_by_domain.items()
        }
    if spread:
        # No domain may have more than maxSkew pods above the smallest count, if all further
        # pods are placed.
        counter = spread[0]
        # With fewer domains than minDomains, Kubernetes takes 0 as the smallest count.
        minimum = 0
        if len(counter.eligible_domains) >= counter.constraint.min_domains:
            full_counts = [
                counter.counts[item] + pods_by_domain.get(item, 0)
                for item in counter.eligible_domains
            ]
            minimum = min(full_counts, default=0)
        ceiling = minimum + counter.constraint.max_skew
        pods_by_domain = {
            domain: min(pods, max(0, ceiling - counter.counts[domain]))
            for domain, pods in pods_by_domain.items()
            # The spread rejects nodes without the key.
            if domain >= 0
        }
    return sum(pods_by_domain.values())


def _list_single_limits(capacity: Mapping[int, int], own_counters: _OwnCounters) -> list[int]:
    """Return for each counter how many pods all nodes take by it alone.

    The counters may be of different keys.
    """
    single_counters = [
        _OwnCounters(anti_affinity=[counter]) for counter in own_counters.anti_affinity
    ]
    single_counters += [_OwnCounters(spread=[counter]) for counter in own_counters.spread]
    return [_sum_node_capacity(capacity, counter) for counter in single_counters]


def _compute_affinity_range(
    scheduler: PodSpecScheduler,
    capacity: Mapping[int, int],
    further: int,
    own_counters: _OwnCounters,
) -> PlaceablePodRange:
    """Return how many of `further` pods fit in one domain.

    Required affinity to their own group binds all to it. The first pod may choose any domain of the
    topology key, so the range covers all of them. `capacity` is the number of further pods by node,
    without the rules between them.
    """
    counts = scheduler.counts
    # Of the first term: its domains limit all pods.
    counter = counts.affinity[0]
    # Their domains reject the pods.
    exclusions = (*counts.anti_affinity, *counts.existing_anti_affinity)
    # Capacity of the nodes.
    capacity_by_domain: dict[int, dict[int, int]] = {}
    for node, pods in capacity.items():
        has_all_keys = all(item.domain_by_node[node] >= 0 for item in counts.affinity)
        if has_all_keys and not inter_pod_affinity.has_pod_in_domain(exclusions, node):
            capacity_by_domain.setdefault(counter.domain_by_node[node], {})[node] = pods
    # Number of pods with room, by domain.
    totals: list[int] = []
    for domain_capacity in capacity_by_domain.values():
        if own_counters.have_several_keys:
            limits = _list_single_limits(domain_capacity, own_counters)
        else:
            limits = [_sum_node_capacity(domain_capacity, own_counters)]
        totals.append(min(further, *limits))
    maximum = max(totals, default=0)
    if len(counts.affinity) == 1 and not any(own_counters):
        # Both bounds are reached, each by a first pod in the domain with this total.
        return PlaceablePodRange(min(totals, default=0), maximum, is_exact=True)
    # The first pod fits; the number of others depends on its node.
    return PlaceablePodRange(min(1, further, maximum), maximum, is_exact=False)


def _compute_placeable_bounds(
    scheduler: PodSpecScheduler,
    capacity: Mapping[int, int],
    further: int,
    own_counters: _OwnCounters,
) -> PlaceablePodRange:
    """Return bounds of the number of placeable `further` pods.

    The number depends on the order of placement. The upper bound is the smallest limit of a single
    counter. The lower one is known to fit in the worst order.
    """
    maximum = min([further, *_list_single_limits(capacity, own_counters)])
    if own_counters.spread or len(scheduler.counts.affinity) > 1:
        # Only the next pod is known to fit.
        minimum = 0 if scheduler.choose_nodes() is None else min(1, maximum)
        return PlaceablePodRange(minimum, maximum, is_exact=False)
    # A pod on a node excludes the node itself, and by each anti-affinity the other nodes
    # of its domain.
    excluded_counts = dict.fromkeys(capacity, 1)
    for counter in own_counters.anti_affinity:
        nodes_by_domain = group_by(capacity, counter.domain_by_node.__getitem__)
        # Nodes without the topology key exclude no other node.
        nodes_by_domain.pop(-1, None)
        for nodes in nodes_by_domain.values():
            for node in nodes:
                excluded_counts[node] += len(nodes) - 1
    # In the worst order, each pod excludes as many nodes as any pod can.
    most_excluded = max(excluded_counts.values(), default=1)
    minimum = min(maximum, -(-len(capacity) // most_excluded))  # rounded up
    return PlaceablePodRange(minimum, maximum, is_exact=minimum == maximum)
