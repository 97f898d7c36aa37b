"""Topology spread: picks are kept even over the values of a label.

KubeFleet's formula, not Kubernetes': the skew is the largest count less the smallest over all domains
of the whole fleet, and a candidate violates a constraint when the skew after it is above max_skew, be it
because the skew is too big already.
"""

from __future__ import annotations

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Ask, SpreadConstraint
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing

PLUGIN = "TopologySpreadConstraints"
SCHEDULE_ANYWAY = "ScheduleAnyway"
PENALTY = 1000


class Verdict(Struct, frozen=True):
    """`refused`: constraint in order of evaluation -> members it refuses first. `by_score`: topology
    spread score -> members, over the members that no constraint refuses.
    """

    refused: tuple[tuple[SpreadConstraint, Mask], ...]
    by_score: dict[int, Mask]


class Domain(Struct, frozen=True):
    """One domain of a constraint: its members, how a further pick changes the skew, and whether that
    violates the constraint.
    """

    members: Mask
    change: int
    violated: bool


def skew_change(count: int, smallest: int, second: int, largest: int) -> int:
    """How the skew changes when the domain with `count` picks gets one more."""
    if largest == smallest:
        return 1
    if count == smallest and smallest != second:
        return -1
    return 1 if count == largest else 0


def domains(constraint: SpreadConstraint, roster: Roster, standing: Standing) -> tuple[Domain, ...]:
    """Every domain of a constraint as it stands; members without the label belong to none."""
    by_value = roster.labelled.get(constraint.topology_key, {})
    counted = [(members, (members & standing.current).bit_count()) for members in by_value.values()]
    if not counted:
        return ()
    counts = sorted(count for _, count in counted)
    smallest, second, largest = counts[0], counts[min(1, len(counts) - 1)], counts[-1]
    rows: list[Domain] = []
    for members, count in counted:
        change = skew_change(count, smallest, second, largest)
        violated = largest - smallest + change > constraint.max_skew
        rows.append(Domain(members, change, violated))
    return tuple(rows)


def in_order(ask: Ask) -> tuple[SpreadConstraint, ...]:
    """The constraints as they are evaluated: hard ones first."""
    return tuple(sorted(ask.policy.spread, key=lambda c: c.when_unsatisfiable == SCHEDULE_ANYWAY))


def judge(ask: Ask, roster: Roster, standing: Standing) -> Verdict:
    """Whom the constraints refuse, and everybody else's topology spread score."""
    refused: list[tuple[SpreadConstraint, Mask]] = []
    by_score: dict[int, Mask] = {0: roster.everyone}
    for constraint in in_order(ask):
        soft = constraint.when_unsatisfiable == SCHEDULE_ANYWAY
        deltas: dict[int, Mask] = {}
        refused_members: Mask = 0
        labelled: Mask = 0
        for domain in domains(constraint, roster, standing):
            labelled |= domain.members
            if domain.violated and not soft:
                refused_members |= domain.members
                continue
            delta = -PENALTY if domain.violated else -domain.change
            deltas[delta] = deltas.get(delta, 0) | domain.members
        deltas[0] = deltas.get(0, 0) | (roster.everyone & ~labelled)
        standing_members = sum(by_score.values())
        if refused_members & standing_members:
            refused.append((constraint, refused_members & standing_members))
        by_score = _add(by_score, deltas)
    return Verdict(tuple(refused), by_score)


def _add(by_score: dict[int, Mask], deltas: dict[int, Mask]) -> dict[int, Mask]:
    """The members by the sum of their score and of what is added to it."""
    totals: dict[int, Mask] = {}
    for score, members in by_score.items():
        for delta, concerned in deltas.items():
            members_of_both = members & concerned
            if members_of_both:
                totals[score + delta] = totals.get(score + delta, 0) | members_of_both
    return totals


def admitted(ask: Ask, roster: Roster, standing: Standing) -> Mask:
    """The members that violate no hard constraint."""
    return sum(judge(ask, roster, standing).by_score.values())


def reason(ask: Ask, roster: Roster, standing: Standing, position: int) -> str:
    """The first hard constraint in the way."""
    for constraint, members in judge(ask, roster, standing).refused:
        if members >> position & 1:
            return (
                f'violated doNotSchedule topology spread constraint "{constraint.topology_key}"'
                f" (max skew {constraint.max_skew})"
            )
    return ""
