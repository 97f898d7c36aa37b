"""NodeResourcesFit: requests and pod count must fit the node's allocatable resources."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage


def find_rejection(pod: PodSpec, node: Node, usage: NodeUsage) -> str | None:
    """Return every insufficient resource, joined by ", ", in the words of Kubernetes. Ephemeral storage is
    compared only where the node states it.
    """
    shortages = ["Too many pods"] if usage.pods + 1 > node.pods else []
    requests = pod.requests
    if requests.cpu and requests.cpu > node.cpu - usage.cpu:
        shortages.append("Insufficient cpu")
    if requests.memory and requests.memory > node.memory - usage.memory:
        shortages.append("Insufficient memory")
    for name, amount in requests.other_resources:
        capacity = node.other_resources.get(name)
        if capacity is None and name == "ephemeral-storage":
            continue
        if amount and amount > (capacity or 0) - usage.other_resources.get(name, 0):
            shortages.append(f"Insufficient {name}")
    return ", ".join(shortages) if shortages else None
