"""Cluster properties: which value a name stands for, how members compare, what no value can meet.

Source: KubeFleet pkg/scheduler/framework/plugins/clusteraffinity. Resource properties come from the
member's resource usage; any other name from its properties, read as a quantity.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Member, PropertyRequirement
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.kubernetes.quantity import Malformed, Quantity, parse_quantity

RESOURCE_PREFIX = "resources.kubernetes-fleet.io/"
TOTAL, ALLOCATABLE, AVAILABLE = "total", "allocatable", "available"
CAPACITY_TYPES = (ALLOCATABLE, AVAILABLE, TOTAL)
# By operator; the property's value stands on the left, the requirement's on the right.
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "Gt": operator.gt,
    "Ge": operator.ge,
    "Lt": operator.lt,
    "Le": operator.le,
    "Eq": operator.eq,
    "Ne": operator.ne,
}


class Unreadable(Struct, frozen=True):
    """Why a property of a member stops a whole cycle."""

    message: str


Value = Quantity | Unreadable | None


def property_of(member: Member, name: str) -> Value:
    """A member's value, None when it has none, Unreadable when KubeFleet would stop."""
    if name.startswith(RESOURCE_PREFIX):
        return _resource(member, name.removeprefix(RESOURCE_PREFIX))
    written = member.properties.get(name)
    if written is None:
        return None
    quantity = parse_quantity(written)
    if isinstance(quantity, Malformed):
        return Unreadable(
            f"value {written} of property {name} from cluster {member.name} is not a valid quantity:"
            f" {quantity.message}"
        )
    return quantity


def _resource(member: Member, name: str) -> Value:
    """The value of a property `total-cpu`, `available-memory`, ...; None when the member has none."""
    words = name.split("-")
    about = f"failed to retrieve resource property value for {name} from cluster {member.name}"
    if len(words) != 2 or not all(words):
        return Unreadable(f"{about}: invalid resource property name: {name}")
    usage = member.resources
    amounts = {TOTAL: usage.total, ALLOCATABLE: usage.allocatable, AVAILABLE: usage.available}.get(words[0])
    if amounts is None:
        return Unreadable(f"{about}: invalid capacity type {words[0]} in resource property name {name}")
    return amounts.get(words[1])


def values_of(roster: Roster, name: str) -> tuple[Value, ...]:
    """Every member's value of a property, in name order."""
    return roster.remember(("property", name), lambda: tuple(property_of(m, name) for m in roster.members))


class Extremes(Struct, frozen=True):
    """The least and the greatest value in the whole fleet, None when no member has one."""

    least: Quantity | None
    greatest: Quantity | None


def extremes_of(roster: Roster, name: str) -> Extremes | Unreadable:
    """Taken over all members, eligible or not; the first that reaches an extreme gives its spelling."""
    return roster.remember(("extremes", name), lambda: _extremes(values_of(roster, name)))


def _extremes(values: tuple[Value, ...]) -> Extremes | Unreadable:
    """The least and the greatest of the values that there are."""
    least: Quantity | None = None
    greatest: Quantity | None = None
    for value in values:
        if isinstance(value, Unreadable):
            return value
        if value is None:
            continue
        if least is None or value < least:
            least = value
        if greatest is None or greatest < value:
            greatest = value
    return Extremes(least, greatest)


class _Bound(Struct, frozen=True):
    value: Quantity
    strict: bool


def contradiction(requirements: Iterable[PropertyRequirement]) -> str | None:
    """Why the requirements (all on one property) exclude each other; None when they do not.

    Ones that are malformed are left out: they have findings of their own.
    """
    lower: _Bound | None = None
    upper: _Bound | None = None
    equal: Quantity | None = None
    unequal: list[Quantity] = []
    for comparison, value in _readable(requirements):
        bound = _Bound(value, comparison in ("Gt", "Lt"))
        if comparison in ("Gt", "Ge"):
            lower = bound if lower is None or _tighter(bound, lower, 1) else lower
        elif comparison in ("Lt", "Le"):
            upper = bound if upper is None or _tighter(bound, upper, -1) else upper
        elif comparison == "Ne":
            unequal.append(value)
        elif equal is not None and equal != value:
            return f"conflicting Eq values {equal} and {value}"
        else:
            equal = value
    if equal is not None and equal in unequal:
        return f"conflicting Eq and Ne on same value {equal}"
    return _empty(lower, upper) or _outside(equal, lower, upper)


def _readable(requirements: Iterable[PropertyRequirement]) -> Iterable[tuple[str, Quantity]]:
    """Operator and value of each requirement that is well-formed."""
    for requirement in requirements:
        if len(requirement.values) != 1 or requirement.operator not in COMPARISONS:
            continue
        value = parse_quantity(requirement.values[0])
        if not isinstance(value, Malformed):
            yield requirement.operator, value


def _tighter(new: _Bound, old: _Bound, sign: int) -> bool:
    """Whether a bound leaves less room than another one; `sign` is 1 for lower bounds, -1 for upper ones."""
    difference = sign * (new.value.nano - old.value.nano)
    return difference > 0 or (difference == 0 and new.strict and not old.strict)


def _empty(lower: _Bound | None, upper: _Bound | None) -> str | None:
    """Why no value lies between two bounds; None where one does, or where a bound is missing."""
    if lower is None or upper is None:
        return None
    room = upper.value.nano - lower.value.nano
    if room < 0 or (room == 0 and (lower.strict or upper.strict)):
        return f"lower bound ({lower.value}) and upper bound ({upper.value}) exclude all values"
    return None


def _outside(equal: Quantity | None, lower: _Bound | None, upper: _Bound | None) -> str | None:
    """Which bound a value that is asked for exactly violates; None when it violates none."""
    if equal is None:
        return None
    for bound, sign, name in ((lower, 1, "lower"), (upper, -1, "upper")):
        if bound is None:
            continue
        room = sign * (equal.nano - bound.value.nano)
        if room < 0 or (room == 0 and bound.strict):
            return f"eq value {equal} violates {name} bound {bound.value}"
    return None
