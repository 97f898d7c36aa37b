"""What a fleet asks of a cluster that is not there yet, by a ClusterRequest or a PlacementPolicy, and whether
a cluster would meet it.

Source: KubeFleet apis/kubefleet.dev/placement/v1alpha1 at e160c1cd (FEP-0001, alpha; no controller yet).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Member
from nexusform.domains.fleet.scheduling.properties import COMPARISONS, Unreadable, property_of
from nexusform.kubernetes.matching import Requirement, holds
from nexusform.kubernetes.quantity import Malformed, parse_quantity

# How many clusters a selector is to pick when it says "All".
ALL = None


class RequestTerm(Struct, frozen=True):
    """All of it must hold: label pairs, expressions over labels and expressions over properties."""

    labels: Mapping[str, str] = {}
    label_expressions: tuple[Requirement, ...] = ()
    property_expressions: tuple[Requirement, ...] = ()


class RequestSelector(Struct, frozen=True):
    """Clusters that meet any of the terms (all clusters where there is none). `count` None = all of them;
    with fewer than `least` a cluster is asked for, where `asks` says so.
    """

    terms: tuple[RequestTerm, ...] = ()
    count: int | None = 1
    least: int = 1
    asks: bool = True


class ClusterRequest(Struct, frozen=True):
    """A request, or the policy (kind PlacementPolicy or ClusterPlacementPolicy) that would make some.
    `policy` is the key of the policy.
    """

    kind: str
    name: str
    policy: str
    selectors: tuple[RequestSelector, ...]


def unmet(selector: RequestSelector, member: Member) -> tuple[str, ...]:
    """What a cluster lacks, a reason for each term; nothing where it meets one."""
    lacks_by_term = [list(_lacking(term, member)) for term in selector.terms]
    if not all(lacks_by_term):
        return ()
    return tuple("; ".join(lacks) for lacks in lacks_by_term)


def _lacking(term: RequestTerm, member: Member) -> Iterator[str]:
    """What a cluster lacks of one term, a reason for each part that does not hold."""
    for key, value in sorted(term.labels.items()):
        if member.labels.get(key) != value:
            yield f"label {key} is {_shown(member.labels.get(key))}, not {value}"
    for requirement in term.label_expressions:
        if requirement.operator in COMPARISONS:
            yield f"{_text(requirement)} stops the scheduler: labels are no numbers"
        elif not holds(requirement, member.labels):
            value = _shown(member.labels.get(requirement.key))
            yield f"label {_text(requirement)} does not hold: it is {value}"
    for requirement in term.property_expressions:
        yield from _of_property(requirement, member)


def _of_property(requirement: Requirement, member: Member) -> Iterator[str]:
    """Why a requirement on a property does not hold; nothing where it does."""
    if requirement.operator not in COMPARISONS:
        if not holds(requirement, member.properties):
            value_text = _shown(member.properties.get(requirement.key))
            yield f"property {_text(requirement)} does not hold: it is {value_text}"
        return
    value = property_of(member, requirement.key)
    bound = parse_quantity(requirement.values[0])
    if isinstance(value, Unreadable):
        yield f"{_text(requirement)} stops the scheduler: {value.message}"
    elif isinstance(bound, Malformed):
        yield f"{_text(requirement)} stops the scheduler: {bound.message}"
    elif value is None:
        yield f"property {requirement.key} is not there"
    elif not COMPARISONS[requirement.operator](value.nano, bound.nano):
        yield f"property {_text(requirement)} does not hold: it is {value}"


def _text(requirement: Requirement) -> str:
    """`kubernetes-fleet.io/node-count Ge 5`."""
    return " ".join([requirement.key, requirement.operator, ", ".join(requirement.values)]).rstrip()


def _shown(value: str | None) -> str:
    """A label's or property's value as reasons have it, quoted."""
    return "absent" if value is None else f'"{value}"'
