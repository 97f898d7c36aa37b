"""NodeResourcesFit: the sum of requests and the number of pods stay within what the node offers."""

from __future__ import annotations

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec


def refuse(pod: PodSpec, node: Node, usage: Usage) -> str | None:
    """Every resource that is short, joined by ", ", as Kubernetes names them.

    Ephemeral storage is compared only where the node states it.
    """
    short = ["Too many pods"] if usage.pods + 1 > node.pods else []
    requests = pod.requests
    if requests.cpu and requests.cpu > node.cpu - usage.cpu:
        short.append("Insufficient cpu")
    if requests.memory and requests.memory > node.memory - usage.memory:
        short.append("Insufficient memory")
    for name, amount in requests.others:
        offered = node.others.get(name)
        if offered is None and name == "ephemeral-storage":
            continue
        if amount and amount > (offered or 0) - usage.others.get(name, 0):
            short.append(f"Insufficient {name}")
    return ", ".join(short) if short else None
