"""kube-scheduler's default profile: which rules, in which order, with which weight.

A pod's candidates are the nodes that no filter refuses. Their scores are summed with these weights;
the highest total wins, and where kube-scheduler draws lots, rules/tie_break.py decides.
These tables are what runs, in predictions and in explanations.
Not modelled: limits on the number of volumes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.counts import Counts
from nexusform.domains.pods.scheduling.rules import (
    balanced_allocation,
    disks,
    image_locality,
    inter_pod_affinity,
    least_allocated,
    node_affinity,
    node_name,
    node_ports,
    node_unschedulable,
    resources,
    taints,
    topology_spread,
    volumes,
)
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec
from nexusform.scheduling.decision import Refusal

UsageFilter = Callable[[PodSpec, Node, Usage], str | None]
DomainFilter = Callable[[Counts, int], str | None]
UsageScore = Callable[[PodSpec, Node, Usage], int]


class PodFilter(Struct, frozen=True):
    """Decided by the pod alone: what it lacks keeps it from every node, and no node is looked at."""

    name: str
    refuse: Callable[[PodSpec], str | None]


class NodeFilter(Struct, frozen=True):
    """Decided by the node alone. `reads` is all that it reads of the pod: answers are kept by it."""

    name: str
    reads: Callable[[PodSpec], Hashable]
    refuse: Callable[[PodSpec, Node], str | None]


class NodeScore(Struct, frozen=True):
    """Points by the node alone: `raw` figures, which `scale` makes 0..100 for all feasible nodes. `bears`: on
    which nodes it does; a cluster without any such node is not scored by it.
    """

    name: str
    weight: int
    reads: Callable[[PodSpec], Hashable]
    raw: Callable[[PodSpec, Node], int]
    scale: Callable[[Sequence[int]], list[int]]
    bears: Callable[[Node], bool] = lambda _: True


class DomainScore(Struct, frozen=True):
    """Points by what stands in the node's domains; none to pods on which it does not bear.

    `sizes`, the third argument of `raw`, says per soft spread constraint in how many domains the feasible
    nodes lie. None = not scored.
    """

    name: str
    weight: int
    bears: Callable[[Counts], bool]
    raw: Callable[[Counts, int, Sequence[int]], int | None]
    scale: Callable[[Sequence[Any]], list[int]]


POD_FILTERS: Final[tuple[PodFilter, ...]] = (
    PodFilter("node_terms", node_affinity.conflict),
    PodFilter("volumes_to_be", volumes.lacking),
)

NODE_FILTERS: Final[tuple[NodeFilter, ...]] = (
    NodeFilter("node_names", lambda pod: pod.node_terms, node_affinity.left_out),
    NodeFilter("node_unschedulable", lambda pod: pod.tolerations, node_unschedulable.refuse),
    NodeFilter("node_name", lambda pod: pod.node_name, node_name.refuse),
    NodeFilter("taints", lambda pod: pod.tolerations, taints.refuse),
    NodeFilter("node_affinity", lambda pod: (pod.node_selector, pod.node_terms), node_affinity.refuse),
    NodeFilter("volumes", lambda pod: pod.volumes, volumes.refuse),
    NodeFilter("volume_zones", lambda pod: pod.volumes, volumes.outside),
)

# What the DaemonSet controller asks of a node before it makes a pod for it; all else the scheduler asks.
# Source: kubernetes pkg/controller/daemon/daemon_controller.go, predicates.
DAEMON_FILTERS: Final = tuple(
    rule for rule in NODE_FILTERS if rule.name in ("node_names", "node_name", "taints", "node_affinity")
)

# Decided by the size of the node and by what stands on it.
USAGE_FILTERS: Final[tuple[tuple[str, UsageFilter], ...]] = (
    ("node_ports", node_ports.refuse),
    ("resources", resources.refuse),
    ("disks", disks.refuse),
)

# Decided by what stands in the node's domains.
DOMAIN_FILTERS: Final[tuple[tuple[str, DomainFilter], ...]] = (
    ("claims", volumes.in_use),
    ("topology_spread", topology_spread.refuse),
    ("inter_pod_affinity", inter_pod_affinity.refuse),
)

# In which order kube-scheduler asks them; the first reason of a node is the one that it tells.
ORDER: Final = (
    "node_names",
    "node_unschedulable",
    "node_name",
    "taints",
    "node_affinity",
    "node_ports",
    "resources",
    "disks",
    "claims",
    "volumes",
    "volume_zones",
    "topology_spread",
    "inter_pod_affinity",
)

# Reasons that hold whoever leaves a node, beside all of NODE_FILTERS: no victims are looked for there.
LASTING: Final = frozenset({topology_spread.MISSING, inter_pod_affinity.AFFINITY})

USAGE_SCORES: Final[tuple[tuple[str, int, UsageScore], ...]] = (
    ("least_allocated", 1, least_allocated.score),
    ("balanced_allocation", 1, balanced_allocation.score),
)

NODE_SCORES: Final[tuple[NodeScore, ...]] = (
    NodeScore("taints", 3, lambda pod: pod.tolerations, taints.raw, taints.scores),
    NodeScore("node_affinity", 2, lambda pod: pod.preferred_nodes, node_affinity.raw, node_affinity.scores),
    NodeScore(
        "image_locality",
        1,
        lambda pod: pod.images,
        image_locality.raw,
        image_locality.scores,
        bears=lambda node: bool(node.images),
    ),
)

DOMAIN_SCORES: Final[tuple[DomainScore, ...]] = (
    DomainScore(
        "topology_spread", 2, lambda counts: bool(counts.soft), topology_spread.raw, topology_spread.scores
    ),
    DomainScore(
        "inter_pod_affinity",
        2,
        lambda counts: bool(counts.preferred),
        inter_pod_affinity.raw,
        inter_pod_affinity.scores,
    ),
)


def gets_daemon(pod: PodSpec, node: Node) -> bool:
    """Whether the controller of a DaemonSet with such pods makes one for a node."""
    return not any(rule.refuse(pod, node) for rule in DAEMON_FILTERS)


def keeps_daemon(pod: PodSpec, node: Node) -> bool:
    """Whether the controller of a DaemonSet with such pods lets one go on that runs on a node: of taints only
    those drive it away that would evict it.
    """
    others = (rule for rule in DAEMON_FILTERS if rule.name != "taints")
    return not any(rule.refuse(pod, node) for rule in others) and taints.evicting(pod, node) is None


_OF_PODS_ALONE: Final = frozenset(rule.name for rule in POD_FILTERS)
_OF_NODES_ALONE: Final = frozenset(rule.name for rule in NODE_FILTERS) | _OF_PODS_ALONE


def may_be_cured(refusal: Refusal) -> bool:
    """Whether pods that leave a node may be all that it takes to make it feasible."""
    return refusal.rule not in _OF_NODES_ALONE and refusal.reason not in LASTING


def is_of_the_pod(refusal: Refusal) -> bool:
    """Whether a reason is about the pod and not about the node: it is told without a number of nodes."""
    return refusal.rule in _OF_PODS_ALONE


def nodes_scored(nodes: int) -> int:
    """How many feasible nodes kube-scheduler looks for before it stops searching, in a cluster of `nodes`."""
    if nodes < 100:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, 100)
