"""PodTopologySpread: DoNotSchedule constraints filter, the others lower the score."""

from collections.abc import Sequence
from math import floor, log
from typing import Final

from nexusform.domains.pods.scheduling.topology_counts import TopologyCounts

SKEWED: Final = "node(s) didn't match pod topology spread constraints"
MISSING: Final = SKEWED + " (missing required label)"


def find_rejection(counts: TopologyCounts, node: int) -> str | None:
    """Return a reason if the node lacks a key, or if the pod would exceed maxSkew in its domain.

    The skew is the domain's pods, plus this one if it counts, minus the emptiest domain's.
    """
    for counter in counts.hard_spread:
        domain = counter.domain_by_node[node]
        if domain < 0:
            return MISSING
        skew = (
            counter.counts[domain] + counter.matches_itself - counter.get_minimum_pod_count(domain)
        )
        if skew > counter.constraint.max_skew:
            return SKEWED
    return None


def score(counts: TopologyCounts, node: int, sizes: Sequence[int]) -> int | None:
    """Return the weighted number of pods in the node's domains (scoreForCount of kube-scheduler).

    The result is None if not scored. The weight is the logarithm of the number of domains. `sizes`
    is this number, among the feasible nodes, per soft constraint.
    """
    if not counts.has_spread_score(node):
        return None
    total = 0.0
    for counter, size in zip(counts.soft_spread, sizes, strict=True):
        domain = counter.domain_by_node[node]
        # The node has the topology key.
        if domain >= 0:
            total += counter.counts[domain] * log(size + 2) + (counter.constraint.max_skew - 1)
    return floor(total + 0.5)


def normalize_scores(raws: Sequence[int | None]) -> list[int]:
    """Return a score from 0 to 100 per node, the highest for the emptiest.

    It is 0 for a node without a raw score.
    """
    known_scores = [raw for raw in raws if raw is not None]
    minimum = min(known_scores, default=0)
    # 1: there are no pods, and all nodes with the keys get 100.
    maximum = max(known_scores, default=0) or 1
    scores: list[int] = []
    for raw in raws:
        if raw is None:
            scores.append(0)
        else:
            scores.append(100 * (maximum + minimum - raw) // maximum)
    return scores
