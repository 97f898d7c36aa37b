"""LeastAllocated: prefers nodes with more free resources after the placement."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage


def score(pod: PodSpec, node: Node, usage: NodeUsage) -> int:
    """Return the mean percentage of free CPU and memory, 0..100; no request counts as 100m, 200 MiB."""
    total = resources = 0
    for requested, capacity in (
        (usage.scored_cpu + pod.scored_requests.cpu, node.cpu),
        (usage.scored_memory + pod.scored_requests.memory, node.memory),
    ):
        if capacity:
            resources += 1
            if requested <= capacity:
                total += (capacity - requested) * 100 // capacity
    return total // resources if resources else 0
