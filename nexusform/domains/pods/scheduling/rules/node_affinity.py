"""NodeName and NodeAffinity.

Node name, nodeSelector and required terms filter, preferred terms add their weights.
"""

from collections.abc import Sequence
from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.kubernetes.matching import IN, NodeSelectorTerm, is_requirement_met

REASON: Final = "node(s) didn't match Pod's node affinity/selector"
EXCLUDED: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT: Final = "pod affinity terms conflict"
_OTHER_NODE: Final = "node(s) didn't match the requested node name"


def find_node_name_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if the pod names another node."""
    return None if pod.node_name in ("", node.name) else _OTHER_NODE


def find_contradictory_terms(pod: PodSpec) -> str | None:
    """Return a reason if every required term contradicts itself about node names.

    Then no node is checked.
    """
    return CONFLICT if _collect_named_nodes(pod) == set() else None


def find_unnamed_node_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if every required term names nodes and none names this one.

    Then kube-scheduler does not check the node.
    """
    named_nodes = _collect_named_nodes(pod)
    return None if named_nodes is None or node.name in named_nodes else EXCLUDED


def _collect_named_nodes(pod: PodSpec) -> set[str] | None:
    """Return the node names permitted by the required terms; None if some term permits any name."""
    if not pod.node_terms:
        return None
    names: set[str] = set()
    for term in pod.node_terms:
        name_sets = [set(field.values) for field in term.fields if field.operator == IN]
        if not name_sets:
            # This term permits any name.
            return None
        # All fields of a term must hold.
        names |= set.intersection(*name_sets)
    return names


def find_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if nodeSelector or all required terms reject a node.

    There is none if its name already excludes it.
    """
    return (
        None
        if is_node_affinity_satisfied(pod, node) or find_unnamed_node_rejection(pod, node)
        else REASON
    )


def is_node_affinity_satisfied(pod: PodSpec, node: Node) -> bool:
    """Return whether the node satisfies nodeSelector and one of the required terms.

    Terms count only if there are any.
    """
    if any(node.labels.get(key) != value for key, value in pod.node_selector):
        return False
    return is_any_term_satisfied(pod.node_terms, node)


def is_any_term_satisfied(terms: tuple[NodeSelectorTerm, ...] | None, node: Node) -> bool:
    """Return whether a node satisfies one of these terms; None permits every node."""
    return terms is None or any(is_term_satisfied(term, node) for term in terms)


def is_term_satisfied(term: NodeSelectorTerm, node: Node) -> bool:
    """Return whether all expressions of a term match; a term without any matches no node."""
    if not term.labels and not term.fields:
        return False
    if not all(is_requirement_met(requirement, node.labels) for requirement in term.labels):
        return False
    # The only field that a term may use.
    fields = {"metadata.name": node.name}
    return all(is_requirement_met(requirement, fields) for requirement in term.fields)


def score(pod: PodSpec, node: Node) -> int:
    """Return the summed weights of the matching preferred terms.

    A term without expressions never matches.
    """
    return sum(weight for weight, term in pod.preferred_nodes if is_term_satisfied(term, node))


def normalize_scores(raws: Sequence[int]) -> list[int]:
    """Return each score as whole per cent of the largest; all 0 if that is 0."""
    largest = max(raws)
    return [100 * raw // largest for raw in raws] if largest else [0] * len(raws)
