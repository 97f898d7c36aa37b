"""Cluster affinity: required terms refuse a cluster that matches none; preferred terms add to its score.

Labels are tested before properties, and a property is read only when everything before it held: so an
unreadable value stops the cycle only where it is reached.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import islice

from nexusform.domains.fleet.scheduling.bindings import (
    Abort,
    Ask,
    ClusterTerm,
    PreferredTerm,
    PropertyRequirement,
)
from nexusform.domains.fleet.scheduling.properties import (
    COMPARISONS,
    Extremes,
    Unreadable,
    extremes_of,
    values_of,
)
from nexusform.domains.fleet.scheduling.roster import Mask, Roster, Standing, ascending
from nexusform.kubernetes.quantity import Malformed, Quantity, parse_quantity

PLUGIN = "ClusterAffinity"
REASON = "cluster does not match with any of the required cluster affinity terms"

ASCENDING, DESCENDING = "Ascending", "Descending"


def admitted(ask: Ask, roster: Roster, _standing: Standing) -> Mask | Abort:
    """The members that match a required term; all when there is none."""
    terms = ask.policy.required
    if not terms:
        return roster.everyone
    return roster.remember(("required", terms), lambda: _matching(terms, roster))


def reason(_ask: Ask, _roster: Roster, _standing: Standing, _position: int) -> str:
    """Why a member is refused."""
    return REASON


def _matching(terms: tuple[ClusterTerm, ...], roster: Roster) -> Mask | Abort:
    """The members that match one of the terms, which are asked in order; it stops at a value that cannot be
    read.
    """
    matched: Mask = 0
    aborts: list[tuple[int, Abort]] = []
    stopped: Mask = 0
    for term in terms:
        matching, unreadable = _matching_term(term, roster, roster.everyone & ~matched & ~stopped)
        matched |= matching
        for position, abort in unreadable:
            stopped |= 1 << position
            aborts.append((position, abort))
    return min(aborts, key=lambda pair: pair[0])[1] if aborts else matched


def _matching_term(term: ClusterTerm, roster: Roster, among: Mask) -> tuple[Mask, list[tuple[int, Abort]]]:
    """The members `among` those that match a term, and by position those whose values cannot be read."""
    selected = roster.selected_by(term.label_selector)
    if isinstance(selected, str):
        # A selector that cannot be read stops the scheduler at the first member that it is asked about.
        asked_first = list(islice(ascending(among), 1))
        return 0, [(position, _abort(roster, position, selected)) for position in asked_first]
    among &= selected
    unreadable: list[tuple[int, Abort]] = []
    for requirement in term.property_selector or ():
        meeting, failing = _meeting(requirement, roster)
        unreadable += [
            (position, _abort(roster, position, message))
            for position, message in failing.items()
            if among >> position & 1
        ]
        among &= meeting
    return among, unreadable


def _abort(roster: Roster, position: int, message: str) -> Abort:
    """The scheduler stops at this member."""
    return Abort(roster.members[position].name, message)


def _meeting(requirement: PropertyRequirement, roster: Roster) -> tuple[Mask, dict[int, str]]:
    """Who meets a property requirement, and by position why reading it fails."""
    return roster.remember(("meets", requirement), lambda: _compare_all(requirement, roster))


def _compare_all(requirement: PropertyRequirement, roster: Roster) -> tuple[Mask, dict[int, str]]:
    """The members that meet a requirement, and by position why it cannot be compared."""
    bound = _bound(requirement)
    compare = COMPARISONS.get(requirement.operator)
    meeting: Mask = 0
    failing: dict[int, str] = {}
    for position, value in enumerate(values_of(roster, requirement.name)):
        if value is None:
            continue
        if isinstance(value, Unreadable):
            failing[position] = value.message
        elif isinstance(bound, str):
            failing[position] = bound
        elif compare is None:
            failing[position] = f"invalid operator: {requirement.operator}"
        elif compare(value.nano, bound.nano):
            meeting |= 1 << position
    return meeting, failing


def _bound(requirement: PropertyRequirement) -> Quantity | str:
    """The quantity that is compared with, or why there is none."""
    if len(requirement.values) != 1:
        return "more than one value in the property selector expression"
    quantity = parse_quantity(requirement.values[0])
    if isinstance(quantity, Malformed):
        return (
            f"value specified in property selector {requirement.values[0]} is not a valid resource quantity:"
            f" {quantity.message}"
        )
    return quantity


def prepare(ask: Ask, roster: Roster) -> Abort | None:
    """Why no score can be given at all: a sorter's property is unreadable somewhere in the fleet."""
    for term in ask.policy.preferred:
        sorter = term.preference.property_sorter
        extremes = extremes_of(roster, sorter.name) if sorter else None
        if isinstance(extremes, Unreadable):
            return Abort("", f"failed to prepare plugin state: {extremes.message}")
    return None


def scores(ask: Ask, roster: Roster) -> tuple[tuple[int, ...], dict[int, str]]:
    """Every member's affinity score, in name order, and by position why one cannot be given.

    Terms add up, each rounded on its own; a weight of 0 is skipped.
    """
    terms = tuple(term for term in ask.policy.preferred if term.weight)
    return roster.remember(("preferred", terms), lambda: _add_up(terms, roster))


def _add_up(terms: tuple[PreferredTerm, ...], roster: Roster) -> tuple[tuple[int, ...], dict[int, str]]:
    """The points of all terms for every member, and by position why there are none."""
    failing: dict[int, str] = {}
    columns: list[tuple[int, ...]] = []
    for term in terms:
        column, failures = roster.remember(("preference", term), partial(_of_term, term, roster))
        columns.append(column)
        failing = {**failures, **failing}
    if not columns:
        return (0,) * len(roster.members), {}
    if len(columns) == 1:
        return columns[0], failing
    return tuple(map(sum, zip(*columns, strict=True))), failing


def _of_term(term: PreferredTerm, roster: Roster) -> tuple[tuple[int, ...], dict[int, str]]:
    """The points of one term for every member, and by position why there are none."""
    size = len(roster.members)
    selected = roster.selected_by(term.preference.label_selector)
    if isinstance(selected, str):
        return (0,) * size, dict.fromkeys(range(size), selected)
    sorter = term.preference.property_sorter
    if sorter is None:
        return tuple(term.weight if selected >> position & 1 else 0 for position in range(size)), {}
    extremes = extremes_of(roster, sorter.name)
    failing: dict[int, str] = {}
    column = [0] * size
    values = values_of(roster, sorter.name)
    for position in ascending(selected):
        value = values[position]
        if not isinstance(value, Quantity) or not isinstance(extremes, Extremes):
            continue
        share = interpolate(value, extremes, sorter.sort_order)
        if isinstance(share, str):
            failing[position] = share
        elif share is not None:
            column[position] = round_half_away(share * float(term.weight))
    return tuple(column), failing


def interpolate(value: Quantity, extremes: Extremes, sort_order: str) -> float | str | None:
    """The share of a term's weight, 0..1; None where all clusters are alike, a text where it fails.

    Computed in doubles exactly as KubeFleet does, since rounding shows.
    """
    least, greatest = extremes.least, extremes.greatest
    if least is None or greatest is None:
        return None
    observed, low, high = value.as_float(), least.as_float(), greatest.as_float()
    if math.isinf(low) or math.isinf(high) or low > high or observed < low or observed > high:
        return (
            f"cannot interpolate weight, observed value {_written(observed)}, observed min {_written(low)},"
            f" observed max {_written(high)}"
        )
    if low == high:
        return None
    if sort_order == DESCENDING:
        return (observed - low) / (high - low)
    if sort_order == ASCENDING:
        return 1 - (observed - low) / (high - low)
    return f"cannot interpolate weight as sort order {sort_order} is invalid"


def _written(value: float) -> str:
    """A double as Go prints it."""
    return repr(value).removesuffix(".0")


def round_half_away(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    whole = math.floor(abs(value))
    if abs(value) - whole >= 0.5:
        whole += 1
    return whole if value >= 0 else -whole
