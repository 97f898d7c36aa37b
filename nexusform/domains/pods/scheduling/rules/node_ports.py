"""NodePorts: two pods of one node cannot claim the same port."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.board import Usage
from nexusform.domains.pods.scheduling.workloads import HostPort, Node, PodSpec

REASON: Final = "node(s) didn't have free ports for the requested pod ports"
_EVERY: Final = "0.0.0.0"  # noqa: S104 - Kubernetes' word for every address; nothing listens here


def refuse(pod: PodSpec, _node: Node, usage: Usage) -> str | None:
    """A reason when a port that the pod claims is taken."""
    if not pod.host_ports or not usage.ports:
        return None
    return REASON if any(_clash(a, b) for a in pod.host_ports for b in usage.ports) else None


def _clash(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.address == other.address or _EVERY in (one.address, other.address)
