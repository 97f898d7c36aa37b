"""NodeName: a pod that names its node goes nowhere else."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.workloads import Node, PodSpec

REASON: Final = "node(s) didn't match the requested node name"


def refuse(pod: PodSpec, node: Node) -> str | None:
    """A reason when the pod names another node."""
    return REASON if pod.node_name and pod.node_name != node.name else None
