"""NodePorts: two pods of one node cannot use the same host port."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import HostPort, Node, PodSpec
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage

REASON: Final = "node(s) didn't have free ports for the requested pod ports"
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - Kubernetes' word for every address; nothing listens here


def find_rejection(pod: PodSpec, _node: Node, usage: NodeUsage) -> str | None:
    """Return a reason if a host port of the pod is in use."""
    if not pod.host_ports or not usage.ports:
        return None
    return REASON if any(_has_conflict(a, b) for a in pod.host_ports for b in usage.ports) else None


def _has_conflict(first: HostPort, second: HostPort) -> bool:
    if (first.port, first.protocol) != (second.port, second.protocol):
        return False
    return first.address == second.address or _ANY_ADDRESS in (first.address, second.address)
