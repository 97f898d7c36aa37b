"""InterPodAffinity: required terms of the pod and of existing pods; preferred terms as points."""

from collections.abc import Sequence
from typing import Final

from nexusform.domains.pods.scheduling.topology_counts import DomainCounter, TopologyCounts

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


def find_rejection(counts: TopologyCounts, node: int) -> str | None:
    """Return the first applicable of the three rejection reasons for a node.

    Affinity requires every term's key on the node. A node without the key of an anti-affinity term
    is never rejected by that term.
    """
    if counts.affinity and not _is_affinity_satisfied(counts, node):
        return AFFINITY
    if has_pod_in_domain(counts.anti_affinity, node):
        return ANTI_AFFINITY
    return EXISTING if has_pod_in_domain(counts.existing_anti_affinity, node) else None


def has_pod_in_domain(counters: Sequence[DomainCounter], node: int) -> bool:
    """Return whether one of these counters has a pod in the domain of a node.

    Without a domain (-1) the count is 0.
    """
    return any(counter.counts[counter.domain_by_node[node]] for counter in counters)


def _is_affinity_satisfied(counts: TopologyCounts, node: int) -> bool:
    """Return whether the node has every term's key, and the matching pods suffice.

    Each of these domains has a matching pod, or there is none anywhere.
    """
    all_have_pods = True
    for counter in counts.affinity:
        domain = counter.domain_by_node[node]
        if domain < 0:
            # The node lacks the topology key.
            return False
        all_have_pods = all_have_pods and counter.counts[domain] > 0
    # The first pod of a group with affinity to itself may run on any node.
    return all_have_pods or (counts.matches_itself and not counts.affinity_matches)


def score(counts: TopologyCounts, node: int, _sizes: Sequence[int]) -> int:
    """Return the sum of the weights of preferred terms in a node's domains.

    Terms of the new pod and of existing pods count.
    """
    return sum(
        [counter.counts[counter.domain_by_node[node]] for counter in counts.preferred_affinity]
    )


def normalize_scores(raws: Sequence[int]) -> list[int]:
    """Scale the scores to 0 (minimum) to 100 (maximum); all 0 if they are equal."""
    minimum = min(raws)
    maximum = max(raws)
    if minimum == maximum:
        return [0] * len(raws)
    return [int(100.0 * ((raw - minimum) / (maximum - minimum))) for raw in raws]
