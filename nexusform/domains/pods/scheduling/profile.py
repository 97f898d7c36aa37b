"""Default profile of kube-scheduler: rules, their order and their weights.

Candidates of a pod are the nodes not rejected by any filter. Their weighted scores are summed; the
highest total is chosen, and scheduling_session.py replaces the random choice among equals.
Predictions and explanations use these tables.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.rules import (
    declared_features,
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_usage,
    taints,
    topology_spread,
    volume_binding,
)
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage
from nexusform.domains.pods.scheduling.topology_counts import TopologyCounts
from nexusform.scheduling.placement_decision import Rejection

UsageFilter = Callable[[PodSpec, Node, NodeUsage], str | None]
DomainFilter = Callable[[TopologyCounts, int], str | None]
UsageScore = Callable[[PodSpec, Node, NodeUsage], int]


class PodFilter(Struct, frozen=True):
    """Filter on the pod alone: a rejected pod fits no node, and no node is checked."""

    name: str
    find_rejection: Callable[[PodSpec], str | None]


class NodeFilter(Struct, frozen=True):
    """Filter on the node alone.

    `cache_key` covers everything read from the pod: results are cached by it.
    """

    name: str
    cache_key: Callable[[PodSpec], Hashable]
    find_rejection: Callable[[PodSpec, Node], str | None]


class NodeScoreRule(Struct, frozen=True):
    """Score of the node alone: `score` figures, normalized to 0..100 over all feasible nodes.

    `is_applicable` selects the nodes with a score; a cluster without such a node skips the rule.
    `is_used` selects the pods with such scores.
    """

    name: str
    weight: int
    cache_key: Callable[[PodSpec], Hashable]
    score: Callable[[PodSpec, Node], int]
    normalize: Callable[[Sequence[int]], list[int]]
    is_applicable: Callable[[Node], bool] = lambda _: True
    is_used: Callable[[PodSpec], bool] = lambda _: True


class TopologyDomainScoreRule(Struct, frozen=True):
    """Score by the pods in the node's domains; skipped for pods without such rules.

    The third argument of `score` is the number of domains of the feasible nodes per soft spread
    constraint. A score of None means that the node is not scored.
    """

    name: str
    weight: int
    is_applicable: Callable[[TopologyCounts], bool]
    score: Callable[[TopologyCounts, int, Sequence[int]], int | None]
    normalize: Callable[[Sequence[Any]], list[int]]


POD_FILTERS: Final[tuple[PodFilter, ...]] = (
    PodFilter("node_terms", node_affinity.find_contradictory_terms),
    PodFilter("volumes_to_be", volume_binding.find_pod_rejection),
)

NODE_FILTERS: Final[tuple[NodeFilter, ...]] = (
    NodeFilter("node_names", lambda pod: pod.node_terms, node_affinity.find_unnamed_node_rejection),
    NodeFilter("node_unschedulable", lambda pod: pod.tolerations, taints.find_cordon_rejection),
    NodeFilter("node_name", lambda pod: pod.node_name, node_affinity.find_node_name_rejection),
    NodeFilter("taints", lambda pod: pod.tolerations, taints.find_rejection),
    NodeFilter(
        "node_affinity",
        lambda pod: (pod.node_selector, pod.node_terms),
        node_affinity.find_rejection,
    ),
    NodeFilter(
        "volume_limits",
        lambda pod: pod.volumes,
        partial(volume_binding.find_unsatisfied_need, reasons=volume_binding.LIMIT_REASONS),
    ),
    NodeFilter("volumes", lambda pod: pod.volumes, volume_binding.find_rejection),
    NodeFilter("volume_zones", lambda pod: pod.volumes, volume_binding.find_zone_rejection),
    NodeFilter(
        "declared_features", lambda pod: pod.required_features, declared_features.find_rejection
    ),
    NodeFilter(
        "devices",
        lambda pod: pod.volumes,
        partial(volume_binding.find_unsatisfied_need, reasons=volume_binding.DEVICE_REASONS),
    ),
)

# Filters of the DaemonSet controller before it creates a pod for a node; the scheduler applies the
# others. Source: kubernetes pkg/controller/daemon/daemon_controller.go, predicates.
DAEMON_FILTERS: Final = tuple(
    rule
    for rule in NODE_FILTERS
    if rule.name in ("node_names", "node_name", "taints", "node_affinity")
)
_KEPT_DAEMON_FILTERS: Final = tuple(rule for rule in DAEMON_FILTERS if rule.name != "taints")

# Decided by the size of the node and by its pods.
USAGE_FILTERS: Final[tuple[tuple[str, UsageFilter], ...]] = (
    ("node_ports", node_usage.find_port_rejection),
    ("resources", node_usage.find_resource_rejection),
    ("disks", node_usage.find_disk_rejection),
)

# Decided by the pods in the node's domains.
DOMAIN_FILTERS: Final[tuple[tuple[str, DomainFilter], ...]] = (
    ("claims", volume_binding.find_used_claim_rejection),
    ("topology_spread", topology_spread.find_rejection),
    ("inter_pod_affinity", inter_pod_affinity.find_rejection),
)

# Order of the filters in kube-scheduler; it reports the first reason of a node.
ORDER: Final = (
    *(
        "node_names",
        "node_unschedulable",
        "node_name",
        "taints",
        "node_affinity",
        "node_ports",
        "resources",
        "disks",
    ),
    *(
        "claims",
        "volume_limits",
        "volumes",
        "volume_zones",
        "topology_spread",
        "inter_pod_affinity",
        "declared_features",
        "devices",
    ),
)

# Reasons that evictions cannot remove, besides all of NODE_FILTERS: no victims are searched there.
PERMANENT_REASONS: Final = frozenset({topology_spread.MISSING, inter_pod_affinity.AFFINITY})

USAGE_SCORES: Final[tuple[tuple[str, int, UsageScore], ...]] = (
    ("least_allocated", 1, node_usage.score_free_resources),
    ("balanced_allocation", 1, node_usage.score_balance),
)

NODE_SCORES: Final[tuple[NodeScoreRule, ...]] = (
    NodeScoreRule("taints", 3, lambda pod: pod.tolerations, taints.score, taints.normalize_scores),
    NodeScoreRule(
        "node_affinity",
        2,
        lambda pod: pod.preferred_nodes,
        node_affinity.score,
        node_affinity.normalize_scores,
    ),
    NodeScoreRule(
        "image_locality",
        1,
        lambda pod: pod.images,
        image_locality.score,
        # The scores are from 0 to 100 already.
        list,
        is_applicable=lambda node: bool(node.images),
    ),
    NodeScoreRule(
        "volume_binding",
        1,
        lambda pod: pod.volumes,
        volume_binding.score_storage,
        # The scores are from 0 to 100 already.
        list,
        is_used=volume_binding.is_scored_by_storage,
    ),
)

DOMAIN_SCORES: Final[tuple[TopologyDomainScoreRule, ...]] = (
    TopologyDomainScoreRule(
        "topology_spread",
        2,
        lambda counts: bool(counts.soft_spread),
        topology_spread.score,
        topology_spread.normalize_scores,
    ),
    TopologyDomainScoreRule(
        "inter_pod_affinity",
        2,
        lambda counts: bool(counts.preferred_affinity),
        inter_pod_affinity.score,
        inter_pod_affinity.normalize_scores,
    ),
)


def find_node_rejection(pod: PodSpec, node: Node) -> Rejection | None:
    """Return the first reason why a node does not permit a pod, regardless of its usage.

    The result is None if it permits it.
    """
    for rule in NODE_FILTERS:
        reason = rule.find_rejection(pod, node)
        if reason:
            return Rejection(node.name, rule.name, reason)
    return None


def should_run_daemon(pod: PodSpec, node: Node) -> bool:
    """Return whether the DaemonSet controller creates such a pod for a node."""
    return not any(rule.find_rejection(pod, node) for rule in DAEMON_FILTERS)


def should_keep_daemon(pod: PodSpec, node: Node) -> bool:
    """Return whether the DaemonSet controller keeps such a pod on a node.

    Only taints with the effect NoExecute remove it.
    """
    is_permitted = not any(rule.find_rejection(pod, node) for rule in _KEPT_DAEMON_FILTERS)
    return is_permitted and taints.find_evicting_taint(pod, node) is None


_POD_RULES: Final = frozenset(rule.name for rule in POD_FILTERS)
_PERMANENT_RULES: Final = frozenset(rule.name for rule in NODE_FILTERS) | _POD_RULES


def can_preempt(rejection: Rejection) -> bool:
    """Return whether the preemption of pods may make a node feasible despite this rejection."""
    return rejection.rule not in _PERMANENT_RULES and rejection.reason not in PERMANENT_REASONS


def is_pod_rejection(rejection: Rejection) -> bool:
    """Return whether a reason is about the pod alone: it is reported without a number of nodes."""
    return rejection.rule in _POD_RULES


def compute_scored_node_limit(nodes: int) -> int:
    """Return how many feasible nodes kube-scheduler scores in a cluster of this size.

    As in its function numFeasibleNodesToFind, these are 50 to 5 per cent (less in larger clusters),
    but at least 100.
    """
    if nodes < 100:
        # All of them.
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, 100)
