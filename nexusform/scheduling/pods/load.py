"""What the pods of a cluster ask of its nodes in sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nexusform.scheduling.pods.model import Requests, StandingPod


def load_by_node(standing: Iterable[StandingPod]) -> Mapping[str, Requests]:
    """Requests of the pods on each node that has any, by node name; Pending pods count nowhere."""
    found: dict[str, tuple[int, int, dict[str, int]]] = {}
    for pod in standing:
        if not pod.node:
            continue
        cpu, memory, others = found.get(pod.node, (0, 0, {}))
        for name, amount in pod.spec.requests.others:
            others[name] = others.get(name, 0) + amount
        found[pod.node] = (cpu + pod.spec.requests.cpu, memory + pod.spec.requests.memory, others)
    return {
        node: Requests(cpu, memory, tuple(sorted(others.items())))
        for node, (cpu, memory, others) in sorted(found.items())
    }
