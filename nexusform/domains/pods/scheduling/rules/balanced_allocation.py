"""BalancedAllocation: prefers nodes with equal use of CPU and memory."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec


def score(pod: PodSpec, node: Node, usage: NodeUsage) -> int:
    """Return (1 - half the distance of the used fractions) * 100; 0 without requests."""
    if not pod.requests.cpu and not pod.requests.memory:
        return 0
    if not node.cpu or not node.memory:
        return 100
    cpu = min((usage.cpu + pod.requests.cpu) / node.cpu, 1.0)
    memory = min((usage.memory + pod.requests.memory) / node.memory, 1.0)
    return int((1 - abs((cpu - memory) / 2)) * 100)
