"""BalancedAllocation: CPU and memory of the node should be used to the same degree."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec


def score(pod: PodSpec, node: Node, usage: Usage) -> int:
    """(1 - half the distance of the two used fractions) * 100; 0 for pods that request neither."""
    if not pod.requests.cpu and not pod.requests.memory:
        return 0
    if not node.cpu or not node.memory:
        return 100
    cpu = min((usage.cpu + pod.requests.cpu) / node.cpu, 1.0)
    memory = min((usage.memory + pod.requests.memory) / node.memory, 1.0)
    return int((1 - abs((cpu - memory) / 2)) * 100)
