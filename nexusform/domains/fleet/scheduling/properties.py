"""Properties of clusters.

Source: KubeFleet pkg/scheduler/framework/plugins/clusteraffinity.
"""

import operator
from collections.abc import Callable, Iterable

from msgspec import Struct

from nexusform.domains.fleet.scheduling.bindings import Member, PropertyRequirement
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.kubernetes.quantity import InvalidQuantity, Quantity, parse_quantity, read_quantity

RESOURCE_PREFIX = "resources.kubernetes-fleet.io/"
TOTAL = "total"
ALLOCATABLE = "allocatable"
AVAILABLE = "available"
CAPACITY_TYPES = (ALLOCATABLE, AVAILABLE, TOTAL)
# By operator; the property's value is on the left, the requirement's on the right.
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "Gt": operator.gt,
    "Ge": operator.ge,
    "Lt": operator.lt,
    "Le": operator.le,
    "Eq": operator.eq,
    "Ne": operator.ne,
}


class UnreadablePropertyError(Struct, frozen=True):
    """Error in a member's property that stops a whole cycle."""

    message: str


PropertyValue = Quantity | UnreadablePropertyError | None


def read_property(member: Member, name: str) -> PropertyValue:
    """Return a property of a member.

    The result is None if it has none, an error if KubeFleet would stop the scheduling cycle.
    """
    # derived from the member's resource usage.
    if name.startswith(RESOURCE_PREFIX):
        return _read_resource_quantity(member, name.removeprefix(RESOURCE_PREFIX))
    text = member.properties.get(name)
    if text is None:
        return None
    quantity = parse_quantity(text)
    if isinstance(quantity, InvalidQuantity):
        value_text = f"value {text} of property {name} from cluster {member.name}"
        return UnreadablePropertyError(f"{value_text} is not a valid quantity: {quantity.message}")
    return quantity


def _read_resource_quantity(member: Member, name: str) -> PropertyValue:
    """Return the value of a property `total-cpu`, `available-memory`, ....

    The result is None if the member does not report the resource, an error if the name
    has another form.
    """
    capacity_type, _, resource = name.partition("-")
    prefix = f"failed to retrieve resource property value for {name} from cluster {member.name}"
    # KubeFleet splits at every dash.
    if not capacity_type or not resource or "-" in resource:
        return UnreadablePropertyError(f"{prefix}: invalid resource property name: {name}")
    usage = member.resources
    amounts = {TOTAL: usage.total, ALLOCATABLE: usage.allocatable, AVAILABLE: usage.available}.get(
        capacity_type
    )
    if amounts is None:
        text = f"invalid capacity type {capacity_type} in resource property name {name}"
        return UnreadablePropertyError(f"{prefix}: {text}")
    return amounts.get(resource)


def list_property_values(member_list: MemberList, name: str) -> tuple[PropertyValue, ...]:
    """Return every member's value of a property, in name order."""
    return member_list.get_cached(
        ("property", name), lambda: tuple(read_property(m, name) for m in member_list.members)
    )


class PropertyExtremes(Struct, frozen=True):
    """Minimum and maximum in the whole fleet, None if no member has a value."""

    minimum: Quantity | None
    maximum: Quantity | None


def find_property_extremes(
    member_list: MemberList, name: str
) -> PropertyExtremes | UnreadablePropertyError:
    """Return the minimum and maximum of a property over all members, eligible or not.

    Return the error of a member instead, if there is one.
    """
    return member_list.get_cached(
        ("extremes", name),
        lambda: _compute_minimum_and_maximum(list_property_values(member_list, name)),
    )


def _compute_minimum_and_maximum(
    values: tuple[PropertyValue, ...],
) -> PropertyExtremes | UnreadablePropertyError:
    """Return the minimum and maximum of the existing values, or the first error.

    Of equal values, the first counts.
    """
    quantities: list[Quantity] = []
    for value in values:
        if isinstance(value, UnreadablePropertyError):
            return value
        # None: the member has no such property.
        if value is not None:
            quantities.append(value)
    return PropertyExtremes(min(quantities, default=None), max(quantities, default=None))


class _PropertyBound(Struct, frozen=True):
    value: Quantity
    is_strict: bool


def find_contradictory_requirements(requirements: Iterable[PropertyRequirement]) -> str | None:
    """Return why the well-formed requirements on one property contradict each other.

    The result is None if they do not.
    """
    lower_bounds: list[_PropertyBound] = []
    upper_bounds: list[_PropertyBound] = []
    equal: Quantity | None = None
    unequal: list[Quantity] = []
    for comparison, value in _parse_requirements(requirements):
        bound = _PropertyBound(value, is_strict=comparison in ("Gt", "Lt"))
        if comparison in ("Gt", "Ge"):
            lower_bounds.append(bound)
        elif comparison in ("Lt", "Le"):
            upper_bounds.append(bound)
        elif comparison == "Ne":
            unequal.append(value)
        elif equal is not None and equal != value:  # Eq
            return f"conflicting Eq values {equal} and {value}"
        else:
            equal = value
    if equal is not None and equal in unequal:
        return f"conflicting Eq and Ne on same value {equal}"
    # The tightest bounds; of equal ones, a strict one is tighter.
    lower = max(lower_bounds, key=lambda bound: (bound.value.nano, bound.is_strict), default=None)
    upper = max(upper_bounds, key=lambda bound: (-bound.value.nano, bound.is_strict), default=None)
    return _explain_violated_bounds(equal, lower, upper)


def _parse_requirements(
    requirements: Iterable[PropertyRequirement],
) -> Iterable[tuple[str, Quantity]]:
    """Yield operator and value of each well-formed requirement."""
    for requirement in requirements:
        if len(requirement.values) != 1 or requirement.operator not in COMPARISONS:
            # malformed, reported by another check.
            continue
        value = read_quantity(requirement.values[0])
        if value is not None:
            yield requirement.operator, value


def _explain_violated_bounds(
    equal: Quantity | None, lower: _PropertyBound | None, upper: _PropertyBound | None
) -> str | None:
    """Return why the bounds exclude all values, or why the value of Eq (`equal`) violates a bound.

    The result is None if neither is true. Each of the three is None without such a requirement.
    """
    if lower is not None and upper is not None:
        # 0 for equal bounds, negative for crossed ones.
        width = upper.value.nano - lower.value.nano
        # Equal bounds exclude all values if either is strict: True counts as 1, and
        # nanos are whole.
        if width < max(lower.is_strict, upper.is_strict):
            return f"lower bound ({lower.value}) and upper bound ({upper.value}) exclude all values"
    if equal is None:
        return None
    for bound, sign, name in ((lower, 1, "lower"), (upper, -1, "upper")):
        # The value must be inside the bound by 0 or more, or by 1 (True) or more for
        # a strict bound.
        if bound is not None and sign * (equal.nano - bound.value.nano) < bound.is_strict:
            return f"eq value {equal} violates {name} bound {bound.value}"
    return None
