"""Scores and their order: topology spread, then affinity, then an obsolete binding, then the LARGER name.

The parts are compared one after the other, never added.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from nexusform.scheduling.fleet.model import Abort, Ask
from nexusform.scheduling.fleet.roster import Mask, Roster, Standing, ascending, descending
from nexusform.scheduling.fleet.rules import cluster_affinity, same_placement_affinity, topology_spread


class Scored(Struct, frozen=True):
    """A member's position in the roster and its two recorded scores."""

    position: int
    affinity: int
    topology_spread: int


class Ranking(Struct, frozen=True):
    """Members by topology spread score and by affinity score, each from high to low."""

    spreads: tuple[tuple[int, Mask], ...]
    affinities: tuple[tuple[int, Mask], ...]
    standing: Standing

    def best_first(self, candidates: Mask) -> Iterator[Scored]:
        """Candidates in the order in which they are picked."""
        for spread, having_spread in self.spreads:
            left = having_spread & candidates
            for affinity, having_affinity in self.affinities:
                if not left:
                    break
                tied = left & having_affinity
                left &= ~tied
                for equals in same_placement_affinity.preferred(tied, self.standing):
                    for position in descending(equals):
                        yield Scored(position, affinity, spread)


def rank(ask: Ask, roster: Roster, standing: Standing, candidates: Mask) -> Ranking | Abort:
    """Score the candidates of a PickN policy."""
    refused = cluster_affinity.prepare(ask, roster)
    if refused is not None:
        return refused
    affinities, failing = roster.remember(
        ("affinities", ask.policy.preferred), lambda: _by_affinity(ask, roster)
    )
    for position in ascending(failing & candidates):
        name = roster.members[position].name
        message = cluster_affinity.scores(ask, roster)[1][position]
        return Abort(
            cluster_affinity.PLUGIN, name, f"failed to calculate score for cluster {name}: {message}"
        )
    return Ranking(_by_spread(ask, roster, standing), affinities, standing)


def _by_affinity(ask: Ask, roster: Roster) -> tuple[tuple[tuple[int, Mask], ...], Mask]:
    scores, failing = cluster_affinity.scores(ask, roster)
    members_by_score: dict[int, Mask] = {}
    for position, score in enumerate(scores):
        members_by_score[score] = members_by_score.get(score, 0) | 1 << position
    return tuple(sorted(members_by_score.items(), reverse=True)), sum(1 << position for position in failing)


def _by_spread(ask: Ask, roster: Roster, standing: Standing) -> tuple[tuple[int, Mask], ...]:
    if not ask.policy.spread:
        return ((0, roster.everyone),)
    return tuple(sorted(topology_spread.judge(ask, roster, standing).by_score.items(), reverse=True))
