"""kube-scheduler's default profile: which rules, in which order, with which weight.

A pod's candidates are the nodes that no filter refuses. Their scores are summed with these weights;
the highest total wins, and where kube-scheduler draws lots, rules/tie_break.py decides.
Not modelled: volumes (no claim is known here) and ImageLocality (it depends on image caches).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nexusform.scheduling.pods.board import Usage
from nexusform.scheduling.pods.counts import Counts
from nexusform.scheduling.pods.model import Node, PodSpec
from nexusform.scheduling.pods.rules import (
    balanced_allocation,
    inter_pod_affinity,
    least_allocated,
    node_affinity,
    node_name,
    node_ports,
    node_unschedulable,
    resources,
    taints,
    topology_spread,
)

NodeFilter = Callable[[PodSpec, Node], str | None]
UsageFilter = Callable[[PodSpec, Node, Usage], str | None]
DomainFilter = Callable[[Counts, int], str | None]
UsageScore = Callable[[PodSpec, Node, Usage], int]

# Decided by the node alone: the same all through a prediction.
NODE_FILTERS: Final[tuple[tuple[str, NodeFilter], ...]] = (
    ("node_unschedulable", node_unschedulable.refuse),
    ("node_name", node_name.refuse),
    ("taints", taints.refuse),
    ("node_affinity", node_affinity.refuse),
)

# Decided by what stands on the node.
USAGE_FILTERS: Final[tuple[tuple[str, UsageFilter], ...]] = (
    ("node_ports", node_ports.refuse),
    ("resources", resources.refuse),
)

# Decided by what stands in the node's domains.
DOMAIN_FILTERS: Final[tuple[tuple[str, DomainFilter], ...]] = (
    ("topology_spread", topology_spread.refuse),
    ("inter_pod_affinity", inter_pod_affinity.refuse),
)

USAGE_SCORES: Final[tuple[tuple[str, int, UsageScore], ...]] = (
    ("least_allocated", 1, least_allocated.score),
    ("balanced_allocation", 1, balanced_allocation.score),
)

TAINTS_WEIGHT: Final = 3
NODE_AFFINITY_WEIGHT: Final = 2
TOPOLOGY_SPREAD_WEIGHT: Final = 2
INTER_POD_AFFINITY_WEIGHT: Final = 2


def nodes_scored(nodes: int) -> int:
    """How many feasible nodes kube-scheduler looks for before it stops searching, in a cluster of `nodes`."""
    if nodes < 100:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, 100)
