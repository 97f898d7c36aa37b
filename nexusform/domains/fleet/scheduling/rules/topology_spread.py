"""Topology spread: picks are spread evenly over the values of a label.

The skew is the largest minus the smallest count over all domains of the fleet. A candidate violates
a constraint if the skew after its pick exceeds max_skew.
"""

from itertools import product

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import PlacementRequest, TopologySpreadConstraint
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList

SCHEDULE_ANYWAY = "ScheduleAnyway"
PENALTY = 1000


class SpreadVerdict(Struct, frozen=True):
    """Verdict of the spread constraints.

    `rejected_by_constraint` has, by constraint in order of evaluation, the members first rejected
    by it. `members_by_score` has the members by topology spread score, without rejected ones.
    """

    rejected_by_constraint: tuple[tuple[TopologySpreadConstraint, Mask], ...]
    members_by_score: dict[int, Mask]


class SpreadDomain(Struct, frozen=True):
    """Domain of a constraint: members, skew change by a further pick, and its violation.

    The violation is whether that skew change violates the constraint.
    """

    members: Mask
    skew_change: int
    is_violated: bool


def build_topology_domains(
    constraint: TopologySpreadConstraint, member_list: MemberList, binding_masks: BindingMasks
) -> tuple[SpreadDomain, ...]:
    """Build the domains of a constraint; members without the label belong to none."""
    by_value = member_list.members_by_label.get(constraint.topology_key, {})
    domain_counts = [
        (members, (members & binding_masks.current).bit_count()) for members in by_value.values()
    ]
    if not domain_counts:
        return ()
    counts = [count for _, count in domain_counts]
    smallest = min(counts)
    largest = max(counts)
    is_smallest_unique = counts.count(smallest) == 1
    rows: list[SpreadDomain] = []
    for members, count in domain_counts:
        # The skew (largest minus smallest count) changes if the domain with `count` picks
        # gets one more.
        if largest == smallest:
            change = 1
        elif count == smallest and is_smallest_unique:
            # The smallest count grows.
            change = -1
        else:
            # Between smallest and largest: the skew stays.
            change = 1 if count == largest else 0
        is_violated = largest - smallest + change > constraint.max_skew
        rows.append(SpreadDomain(members, change, is_violated))
    return tuple(rows)


def evaluate_constraints(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks
) -> SpreadVerdict:
    """Return the rejected members by constraint, and the other members by topology spread score.

    Sets of members are bit masks. Each constraint changes the scores: by minus the change of the
    skew, or by a penalty if it is violated and soft. A violated hard constraint rejects the member,
    so it has no score.
    """
    rejected_by_constraint: list[tuple[TopologySpreadConstraint, Mask]] = []
    members_by_score: dict[int, Mask] = {0: member_list.all_members}
    # Hard constraints first.
    for constraint in sorted(
        request.policy.spread_constraints, key=lambda c: c.when_unsatisfiable == SCHEDULE_ANYWAY
    ):
        is_soft = constraint.when_unsatisfiable == SCHEDULE_ANYWAY
        # score changes by this constraint -> members.
        deltas: dict[int, Mask] = {}
        rejected: Mask = 0
        members_with_label: Mask = 0
        for domain in build_topology_domains(constraint, member_list, binding_masks):
            members_with_label |= domain.members
            if domain.is_violated and not is_soft:
                rejected |= domain.members
                continue
            delta = -PENALTY if domain.is_violated else -domain.skew_change
            deltas[delta] = deltas.get(delta, 0) | domain.members
        members_without_domain = member_list.all_members & ~members_with_label
        # Their scores stay.
        deltas[0] = deltas.get(0, 0) | members_without_domain
        # A member has one score, so the sum is the union.
        remaining_members = sum(members_by_score.values())
        if rejected & remaining_members:
            rejected_by_constraint.append((constraint, rejected & remaining_members))
        # members by new score; those rejected have no delta and drop out.
        totals: dict[int, Mask] = {}
        for (score, members), (delta, delta_members) in product(
            members_by_score.items(), deltas.items()
        ):
            members_of_both = members & delta_members
            if members_of_both:
                totals[score + delta] = totals.get(score + delta, 0) | members_of_both
        members_by_score = totals
    return SpreadVerdict(tuple(rejected_by_constraint), members_by_score)


def find_eligible(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks
) -> Mask:
    """Return the bit mask of members violating no hard constraint.

    Each has one score, so add the masks by score.
    """
    return sum(evaluate_constraints(request, member_list, binding_masks).members_by_score.values())


def explain_rejection(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks, position: int
) -> str:
    """Return the text of the first hard constraint violated by the member at `position`.

    The result is "" without one.
    """
    for constraint, members in evaluate_constraints(
        request, member_list, binding_masks
    ).rejected_by_constraint:
        if members >> position & 1:
            return (
                f'violated doNotSchedule topology spread constraint "{constraint.topology_key}"'
                f" (max skew {constraint.max_skew})"
            )
    return ""
