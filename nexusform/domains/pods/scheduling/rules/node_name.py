"""NodeName: a pod with a node name fits no other node."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec

REASON: Final = "node(s) didn't match the requested node name"


def find_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if the pod names another node."""
    return REASON if pod.node_name and pod.node_name != node.name else None
