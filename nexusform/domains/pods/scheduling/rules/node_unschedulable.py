"""NodeUnschedulable: a cordoned node takes only pods with a toleration."""

from __future__ import annotations

from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.kubernetes.matching import NO_SCHEDULE, Taint, is_matching_toleration

REASON: Final = "node(s) were unschedulable"
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def find_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if the node is cordoned and the pod does not tolerate it."""
    if node.unschedulable and not any(is_matching_toleration(t, _CORDON) for t in pod.tolerations):
        return REASON
    return None
