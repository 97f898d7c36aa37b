"""BalancedAllocation: prefers nodes with equal use of CPU and memory."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage


def score(pod: PodSpec, node: Node, usage: NodeUsage) -> int:
    """Return the balance of the node with the pod, 0 without requests. Newer versions return its improvement, 50 to
    100.
    """
    if not pod.requests.cpu and not pod.requests.memory:
        return 0
    balance = _compute_balance(node, usage.cpu + pod.requests.cpu, usage.memory + pod.requests.memory)
    if not pod.compares_balance:
        return balance
    return 50 + (50 + balance - _compute_balance(node, usage.cpu, usage.memory)) // 2


def _compute_balance(node: Node, cpu: int, memory: int) -> int:
    """Return (1 - half the distance of the used fractions) * 100."""
    if not node.cpu or not node.memory:
        return 100
    distance = min(cpu / node.cpu, 1.0) - min(memory / node.memory, 1.0)
    return int((1 - abs(distance / 2)) * 100)
