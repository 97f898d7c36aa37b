"""NodeAffinity: nodeSelector and required terms decide, preferred terms add their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.domains.pods.scheduling.rules.scale import to_hundred
from nexusform.domains.pods.scheduling.workloads import Node, NodeTerm, PodSpec
from nexusform.kubernetes.matching import IN, holds

REASON: Final = "node(s) didn't match Pod's node affinity/selector"
LEFT_OUT: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT: Final = "pod affinity terms conflict"


def conflict(pod: PodSpec) -> str | None:
    """A reason when every required term names nodes that no node is at once: then none is looked at."""
    if not pod.node_terms:
        return None
    for term in pod.node_terms:
        named = [set(field.values) for field in term.fields if field.operator == IN]
        if not named or set.intersection(*named):
            return None
    return CONFLICT


def left_out(pod: PodSpec, node: Node) -> str | None:
    """A reason when every required term names its nodes, and none of them this one: then nobody looks at
    it.
    """
    if not pod.node_terms:
        return None
    for term in pod.node_terms:
        by_name = [field for field in term.fields if field.operator == IN]
        if all(node.name in field.values for field in by_name):
            return None  # true of a term without names, too
    return LEFT_OUT


def refuse(pod: PodSpec, node: Node) -> str | None:
    """A reason unless the node has all of nodeSelector and satisfies one required term, or is left out."""
    return None if required(pod, node) or left_out(pod, node) else REASON


def required(pod: PodSpec, node: Node) -> bool:
    """Whether the node has all of nodeSelector and satisfies one of the required terms, if there are any."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector):
        return False
    return pod.node_terms is None or any(term_holds(term, node) for term in pod.node_terms)


def term_holds(term: NodeTerm, node: Node) -> bool:
    """Whether all expressions of a term hold; a term without any holds nowhere."""
    if not term.labels and not term.fields:
        return False
    return all(holds(r, node.labels) for r in term.labels) and all(
        holds(r, {"metadata.name": node.name}) for r in term.fields
    )


def raw(pod: PodSpec, node: Node) -> int:
    """The summed weights of the preferred terms that hold; one without expressions never does."""
    return sum(weight for weight, term in pod.preferred_nodes if term_holds(term, node))


def scores(raws: Sequence[int]) -> list[int]:
    """The largest sum is 100."""
    return to_hundred(raws)
