"""What the nodes alone say to a pod, remembered: pods of many workloads ask the same of them."""

from __future__ import annotations

from msgspec import Struct

from nexusform.scheduling.pods import profile
from nexusform.scheduling.pods.model import Node, PodSpec
from nexusform.scheduling.pods.rules import node_affinity, taints


class NodeFacts(Struct, frozen=True):
    """The nodes (by index) that would take a pod whatever stands on them, and their points.

    `points`: unwanted taints and the weights of preferred terms, before they are scaled. `mask`: the
    same nodes as bits.
    """

    points: dict[int, tuple[int, int]]
    mask: int


class Statics:
    """Facts about the nodes of a cluster per question that pods ask."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._nodes = nodes
        self._facts: dict[object, NodeFacts] = {}
        # Nodes of one shape and equal usage are told apart by nothing that scores read.
        shapes: dict[object, int] = {}
        self.shape = [shapes.setdefault((n.cpu, n.memory, n.pods), len(shapes)) for n in nodes]

    def of(self, spec: PodSpec) -> NodeFacts:
        """The facts for a spec."""
        question = (
            spec.node_name,
            spec.node_selector,
            spec.node_terms,
            spec.preferred_nodes,
            spec.tolerations,
        )
        found = self._facts.get(question)
        if found is None:
            points = {
                at: (taints.raw(spec, node), node_affinity.raw(spec, node))
                for at, node in enumerate(self._nodes)
                if not any(refuse(spec, node) for _, refuse in profile.NODE_FILTERS)
            }
            found = self._facts[question] = NodeFacts(points, sum(1 << at for at in points))
        return found
