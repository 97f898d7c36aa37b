"""Cluster affinity: required terms reject clusters that match none.

Preferred terms add to the score. A property is read only if all labels and earlier properties
match, so an unreadable value stops the cycle only if reached.
"""

import math
from functools import partial

from nexusform.domains.fleet.scheduling.bindings import (
    ClusterSelectorTerm,
    CycleAbort,
    PlacementRequest,
    PreferredTerm,
    PropertyRequirement,
)
from nexusform.domains.fleet.scheduling.member_list import (
    BindingMasks,
    Mask,
    MemberList,
    build_mask,
    iterate_ascending,
)
from nexusform.domains.fleet.scheduling.properties import (
    COMPARISONS,
    PropertyExtremes,
    UnreadablePropertyError,
    find_property_extremes,
    list_property_values,
)
from nexusform.kubernetes.quantity import InvalidQuantity, Quantity, parse_quantity

REASON = "cluster does not match with any of the required cluster affinity terms"
ASCENDING = "Ascending"
DESCENDING = "Descending"


def find_eligible(
    request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks
) -> Mask | CycleAbort:
    """Return the bit mask of the members matching a required term; of all members without terms."""
    terms = request.policy.required_terms
    if not terms:
        return member_list.all_members
    return member_list.get_cached(("required", terms), lambda: _match_terms(terms, member_list))


def explain_rejection(
    _request: PlacementRequest,
    _member_list: MemberList,
    _binding_masks: BindingMasks,
    _position: int,
) -> str:
    """Return why a member is rejected."""
    return REASON


def _match_terms(
    terms: tuple[ClusterSelectorTerm, ...], member_list: MemberList
) -> Mask | CycleAbort:
    """Return the bit mask of members with a matching term, or the first abort.

    The abort is that of the first member with an unreadable value.
    """
    matched: Mask = 0
    aborts: dict[int, CycleAbort] = {}  # by position
    for term in terms:
        # By the terms before.
        undecided = member_list.all_members & ~matched & ~build_mask(aborts)
        term_members, unreadable = _match_term(term, member_list, undecided)
        matched |= term_members
        aborts |= unreadable
    return aborts[min(aborts)] if aborts else matched


def _match_term(
    term: ClusterSelectorTerm, member_list: MemberList, candidates: Mask
) -> tuple[Mask, dict[int, CycleAbort]]:
    """Return the members of `candidates` that match a term, and errors by position.

    The members are a bit mask. The position is that of the member. The errors are an unreadable
    value or an invalid selector, and each stops the cycle.
    """
    members = member_list.members
    selected_members = member_list.select_by_labels(term.label_selector)
    if isinstance(selected_members, str):
        # An invalid selector stops the scheduler at the first member evaluated.
        first = next(iterate_ascending(candidates), None)
        return 0, {} if first is None else {
            first: CycleAbort(members[first].name, selected_members)
        }
    candidates &= selected_members
    unreadable: dict[int, CycleAbort] = {}
    for requirement in term.property_selector or ():
        find_matching = partial(_find_matching_members, requirement, member_list)
        matching, failing = member_list.get_cached(("meets", requirement), find_matching)
        unreadable |= {
            position: CycleAbort(members[position].name, message)
            for position, message in failing.items()
            if candidates >> position & 1
        }
        candidates &= matching
    return candidates, unreadable


def _find_matching_members(
    requirement: PropertyRequirement, member_list: MemberList
) -> tuple[Mask, dict[int, str]]:
    """Compare every member with a requirement.

    Return the mask of matching ones, and errors by position.
    """
    bound = _parse_requirement_quantity(requirement)
    compare = COMPARISONS.get(requirement.operator)
    matching: Mask = 0
    failing: dict[int, str] = {}
    for position, value in enumerate(list_property_values(member_list, requirement.name)):
        # No such property: no match.
        if value is None:
            continue
        if isinstance(value, UnreadablePropertyError):
            failing[position] = value.message
        elif isinstance(bound, str):
            # The error of the requirement itself.
            failing[position] = bound
        elif compare is None:
            failing[position] = f"invalid operator: {requirement.operator}"
        elif compare(value.nano, bound.nano):
            matching |= 1 << position
    return matching, failing


def _parse_requirement_quantity(requirement: PropertyRequirement) -> Quantity | str:
    """Return the quantity to compare with, or an error."""
    # KubeFleet has one text for none and several.
    if len(requirement.values) != 1:
        return "more than one value in the property selector expression"
    quantity = parse_quantity(requirement.values[0])
    if isinstance(quantity, InvalidQuantity):
        subject = f"value specified in property selector {requirement.values[0]}"
        return f"{subject} is not a valid resource quantity: {quantity.message}"
    return quantity


def check_property_sorters(request: PlacementRequest, member_list: MemberList) -> CycleAbort | None:
    """Return an abort if a sorter's property is unreadable anywhere in the fleet."""
    for term in request.policy.preferred_terms:
        sorter = term.preference.property_sorter
        extremes = find_property_extremes(member_list, sorter.name) if sorter else None
        if isinstance(extremes, UnreadablePropertyError):
            # "": at no single cluster.
            return CycleAbort("", f"failed to prepare plugin state: {extremes.message}")
    return None


def compute_scores(
    request: PlacementRequest, member_list: MemberList
) -> tuple[tuple[int, ...], dict[int, str]]:
    """Return the affinity score of each member, and errors by position.

    A score is the sum of its rounded terms.
    """
    terms = tuple(term for term in request.policy.preferred_terms if term.weight)
    return member_list.get_cached(("preferred", terms), lambda: _score_terms(terms, member_list))


def _score_terms(
    terms: tuple[PreferredTerm, ...], member_list: MemberList
) -> tuple[tuple[int, ...], dict[int, str]]:
    """Return the points of all terms for every member, and errors by position."""
    failing: dict[int, str] = {}
    # By term: the points of every member.
    columns: list[tuple[int, ...]] = []
    for term in terms:
        column, failures = member_list.get_cached(
            ("preference", term), partial(_score_term, term, member_list)
        )
        columns.append(column)
        # The error of the first term wins.
        failing = {**failures, **failing}
    if not columns:
        return (0,) * len(member_list.members), {}
    return tuple(sum(scores) for scores in zip(*columns, strict=True)), failing


def _score_term(
    term: PreferredTerm, member_list: MemberList
) -> tuple[tuple[int, ...], dict[int, str]]:
    """Return the points of one term by position of the member, and errors by position.

    A member has 0 points if it is not selected.
    """
    size = len(member_list.members)
    selected_members = member_list.select_by_labels(term.preference.label_selector)
    if isinstance(selected_members, str):
        return (0,) * size, dict.fromkeys(range(size), selected_members)
    sorter = term.preference.property_sorter
    if sorter is None:
        return tuple(
            term.weight if selected_members >> position & 1 else 0 for position in range(size)
        ), {}
    extremes = find_property_extremes(member_list, sorter.name)
    failing: dict[int, str] = {}
    column = [0] * size
    values = list_property_values(member_list, sorter.name)
    for position in iterate_ascending(selected_members):
        value = values[position]
        if not isinstance(value, Quantity) or not isinstance(extremes, PropertyExtremes):
            # No points; `check_property_sorters` reports unreadable values.
            continue
        share = interpolate_score(value, extremes, sorter.sort_order)
        if isinstance(share, str):
            failing[position] = share
        elif share is not None:
            # None: equal values of all members, so no points.
            column[position] = round_half_away(share * float(term.weight))
    return tuple(column), failing


def interpolate_score(
    value: Quantity, extremes: PropertyExtremes, sort_order: str
) -> float | str | None:
    """Interpolate the share of a term's weight, 0..1.

    None if no or equal values in the fleet, a text on failure. Computed in doubles like KubeFleet,
    since rounding is visible.
    """
    minimum = extremes.minimum
    maximum = extremes.maximum
    if minimum is None or maximum is None:
        return None
    observed = value.convert_to_float()
    low = minimum.convert_to_float()
    high = maximum.convert_to_float()
    # NaN, infinite, or out of range.
    if not -math.inf < low <= observed <= high < math.inf:
        # The numbers as printed by Go.
        value_text, low_text, high_text = (
            repr(number).removesuffix(".0") for number in (observed, low, high)
        )
        figures = f"observed value {value_text}, observed min {low_text}, observed max {high_text}"
        return f"cannot interpolate weight, {figures}"
    if low == high:
        return None
    if sort_order == DESCENDING:
        return (observed - low) / (high - low)
    if sort_order == ASCENDING:
        return 1 - (observed - low) / (high - low)
    return f"cannot interpolate weight as sort order {sort_order} is invalid"


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    integer = math.floor(abs(value))
    rounded = integer + 1 if abs(value) - integer >= 0.5 else integer
    return rounded if value >= 0 else -rounded
