"""LeastAllocated: the emptier the node would be afterwards, the better."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec


def score(pod: PodSpec, node: Node, usage: Usage) -> int:
    """The mean of the free hundredths of CPU and of memory, 0..100, in whole numbers.

    Containers that request nothing count as 100m and 200 MiB.
    """
    total = resources = 0
    for asked, offered in (
        (usage.scored_cpu + pod.scored.cpu, node.cpu),
        (usage.scored_memory + pod.scored.memory, node.memory),
    ):
        if offered:
            resources += 1
            if asked <= offered:
                total += (offered - asked) * 100 // offered
    return total // resources if resources else 0
