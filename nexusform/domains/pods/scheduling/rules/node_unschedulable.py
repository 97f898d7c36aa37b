"""NodeUnschedulable: a cordoned node takes only pods that tolerate its cordon."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.workloads import Node, PodSpec
from nexusform.kubernetes.matching import NO_SCHEDULE, Taint, tolerates

REASON: Final = "node(s) were unschedulable"
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def refuse(pod: PodSpec, node: Node) -> str | None:
    """A reason when the node is cordoned and the pod does not put up with that."""
    if node.unschedulable and not any(tolerates(t, _CORDON) for t in pod.tolerations):
        return REASON
    return None
