"""What is seen of a cluster that a rule refuses: the refusing term, and the figure beside what is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nexusform.domains.fleet.scheduling.bindings import (
    Ask,
    ClusterTerm,
    Member,
    PropertyRequirement,
    SpreadConstraint,
)
from nexusform.domains.fleet.scheduling.properties import COMPARISONS, property_of
from nexusform.domains.fleet.scheduling.roster import Roster, Standing
from nexusform.domains.fleet.scheduling.rules import topology_spread
from nexusform.kubernetes.matching import DOES_NOT_EXIST, EXISTS, IN, LabelSelector, Requirement, holds
from nexusform.kubernetes.quantity import Malformed, Quantity, parse_quantity
from nexusform.words import listed

_MOST_NAMED = 6
_SIGNS: Mapping[str, str] = {"Gt": ">", "Ge": ">=", "Lt": "<", "Le": "<=", "Eq": "=", "Ne": "!="}


def observed(rule: str, ask: Ask, roster: Roster, standing: Standing, position: int) -> tuple[str, ...]:
    """What a rule that refuses a member saw of it, a sentence each; nothing where its reason says it all."""
    look = _BY_RULE.get(rule)
    return tuple(look(ask, roster, standing, position)) if look is not None else ()


def _terms(ask: Ask, roster: Roster, _standing: Standing, position: int) -> Iterator[str]:
    """What each required term misses; one of them would have been enough."""
    terms, member = ask.policy.required or (), roster.members[position]
    for number, term in enumerate(terms, 1):
        missing = _missing(term, member)
        if missing:
            which = f"term {number}: " if len(terms) > 1 else ""
            yield f"{which}{'; '.join(missing)}"


def _missing(term: ClusterTerm, member: Member) -> list[str]:
    """What a term asks and a member does not have: labels, and where these are right, properties."""
    of_labels = list(_of_labels(term.label_selector or LabelSelector(), member.labels))
    if of_labels:
        return of_labels
    said = (_of_property(requirement, member) for requirement in term.property_selector or ())
    return [each for each in said if each]


def _of_labels(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[str]:
    for key, value in selector.match_labels:
        if labels.get(key) != value:
            yield _against(key, labels.get(key), value)
    for requirement in selector.match_expressions:
        if not holds(requirement, labels):
            yield _of_expression(requirement, labels.get(requirement.key))


def _against(key: str, value: str | None, asked: str) -> str:
    """A label beside what is asked of it."""
    return f"no label {key} (asked: {asked})" if value is None else f"label {key} is {value} (asked: {asked})"


def _of_expression(requirement: Requirement, value: str | None) -> str:
    """A label beside the expression that does not hold."""
    key, values = requirement.key, listed(requirement.values, _MOST_NAMED)
    if requirement.operator == IN:
        return _against(key, value, f"in {values}")
    if requirement.operator == EXISTS:
        return f"no label {key}"
    if requirement.operator == DOES_NOT_EXIST:
        return f"label {key} is there ({value})"
    return f"label {key} is {value} (asked: not in {values})"


def _of_property(requirement: PropertyRequirement, member: Member) -> str:
    """A property beside the comparison that does not hold; "" where it holds."""
    name, sign = requirement.name, _SIGNS.get(requirement.operator, requirement.operator)
    asked = f"{sign} {listed(requirement.values, _MOST_NAMED)}"
    value = property_of(member, name)
    if not isinstance(value, Quantity):
        return f"no property {name} (asked: {asked})" if value is None else ""
    compare = COMPARISONS.get(requirement.operator)
    bound = parse_quantity(requirement.values[0]) if len(requirement.values) == 1 else None
    if compare is None or bound is None or isinstance(bound, Malformed) or compare(value.nano, bound.nano):
        return ""
    return f"{name} is {value} (asked: {asked})"


def _spread(ask: Ask, roster: Roster, standing: Standing, position: int) -> Iterator[str]:
    """How many picks the domains hold where a constraint refuses one more."""
    for constraint, members in topology_spread.judge(ask, roster, standing).refused:
        if members >> position & 1:
            yield _picks(constraint, roster, standing, position)
            return


def _picks(constraint: SpreadConstraint, roster: Roster, standing: Standing, position: int) -> str:
    """The picks of every domain; of the member's own first."""
    by_value = roster.labelled.get(constraint.topology_key, {})
    own = roster.members[position].labels.get(constraint.topology_key, "")
    values = sorted(by_value, key=lambda value: (value != own, value))
    counts = [f"{value}: {(by_value[value] & standing.current).bit_count()}" for value in values]
    return f"picks by {constraint.topology_key}: {listed(counts, _MOST_NAMED)}"


_BY_RULE: Mapping[str, Callable[[Ask, Roster, Standing, int], Iterator[str]]] = {
    "cluster_affinity": _terms,
    "topology_spread": _spread,
}
