"""What the nodes alone say to a pod, remembered: pods of many workloads ask the same of them."""

from __future__ import annotations

from msgspec import Struct

from nexusform.scheduling.pods import profile
from nexusform.scheduling.pods.model import Node, PodSpec


class NodeFacts(Struct, frozen=True):
    """The nodes (by index) that would take a pod whatever stands on them, and their points.

    `points`: what the scores of nodes alone give, before they are scaled. `mask`: the same nodes as bits.
    """

    points: dict[int, tuple[int, ...]]
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
        for_filters = [rule.reads(spec) for rule in profile.NODE_FILTERS]
        for_scores = [rule.reads(spec) for rule in profile.NODE_SCORES]
        question = (*for_filters, *for_scores)
        facts = self._facts.get(question)
        if facts is None:
            points: dict[int, tuple[int, ...]] = {}
            for at, node in enumerate(self._nodes):
                if not any(rule.refuse(spec, node) for rule in profile.NODE_FILTERS):
                    points[at] = tuple([rule.raw(spec, node) for rule in profile.NODE_SCORES])
            facts = self._facts[question] = NodeFacts(points, sum(1 << at for at in points))
        return facts
