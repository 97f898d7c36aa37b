"""PodTopologySpread: DoNotSchedule constraints refuse, the others cost points."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log
from typing import Final

from nexusform.domains.pods.scheduling.counts import Counts

SKEWED: Final = "node(s) didn't match pod topology spread constraints"
MISSING: Final = SKEWED + " (missing required label)"


def refuse(counts: Counts, node: int) -> str | None:
    """A reason when the node lacks a key, or when the pod would make its domain too full.

    Too full: pods there, plus this one if it counts, minus the emptiest domain's, above maxSkew.
    """
    for tally in counts.hard:
        domain = tally.domain[node]
        if domain < 0:
            return MISSING
        if tally.count[domain] + tally.matches_itself - tally.least() > tally.constraint.max_skew:
            return SKEWED
    return None


def raw(counts: Counts, node: int, sizes: Sequence[int]) -> int | None:
    """Pods in the node's domains, weighed by the logarithm of the number of domains; None = not scored.

    `sizes`: per soft constraint, in how many domains the feasible nodes lie.
    """
    if not counts.soft_counts(node):
        return None
    total = 0.0
    for tally, size in zip(counts.soft, sizes, strict=True):
        domain = tally.domain[node]
        if domain >= 0:
            total += tally.count[domain] * log(size + 2) + (tally.constraint.max_skew - 1)
    return floor(total + 0.5)


def scores(raws: Sequence[int | None]) -> list[int]:
    """The emptiest is best; a node that lacks a key gets 0."""
    scored = [raw for raw in raws if raw is not None]
    if not scored:
        return [0] * len(raws)
    least, most = min(scored), max(scored)
    if most == 0:
        return [0 if raw is None else 100 for raw in raws]
    return [0 if raw is None else 100 * (most + least - raw) // most for raw in raws]
