"""InterPodAffinity: required terms of the pod and of the pods that stand; preferred terms as points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.domains.pods.scheduling.counts import Counts

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


def refuse(counts: Counts, node: int) -> str | None:
    """The first of the three reasons that holds on a node.

    Affinity wants every term's key on the node. A node that lacks the key of an anti-affinity term can
    never be refused by that term.
    """
    if counts.affinity and not _affinity_holds(counts, node):
        return AFFINITY
    for tally in counts.anti_affinity:
        domain = tally.domain[node]
        if domain >= 0 and tally.count[domain]:
            return ANTI_AFFINITY
    for tally in counts.existing:
        domain = tally.domain[node]
        if domain >= 0 and tally.count[domain]:
            return EXISTING
    return None


def _affinity_holds(counts: Counts, node: int) -> bool:
    """Whether all required affinity terms find their pods beside a node."""
    all_have_pods = True
    for tally in counts.affinity:
        domain = tally.domain[node]
        if domain < 0:
            return False
        all_have_pods = all_have_pods and tally.count[domain] > 0
    # The first pod of a group that wants its own company may go anywhere.
    return all_have_pods or (counts.matches_itself and not counts.has_company)


def raw(counts: Counts, node: int, _sizes: Sequence[int]) -> int:
    """The weights of all preferred terms, both ways, that hold in the node's domains."""
    total = 0
    for tally in counts.preferred:
        domain = tally.domain[node]
        if domain >= 0:
            total += tally.count[domain]
    return total


def scores(raws: Sequence[int]) -> list[int]:
    """The least is 0 and the most 100; all 0 when they are equal."""
    least, most = min(raws), max(raws)
    if least == most:
        return [0] * len(raws)
    return [int(100.0 * ((raw - least) / (most - least))) for raw in raws]
