"""NodeDeclaredFeatures: nodes whose kubelet declares the features that a pod requires."""

from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec

REASON: Final = "node(s) didn't match Pod's required features"


def find_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if the node does not declare a required feature, else None.

    A node with unknown features is permitted.
    """
    if node.declared_features is None or {*pod.required_features} <= {*node.declared_features}:
        return None
    return REASON
