"""Cluster properties: which value a name stands for, and how its members compare.

Source: KubeFleet pkg/scheduler/framework/plugins/clusteraffinity. Resource properties come from the
member's resource usage; any other name from its properties, read as a quantity.
"""

from __future__ import annotations

from msgspec import Struct

from nexusform.scheduling.fleet.model import Member
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.quantity import Malformed, Quantity, parse_quantity

RESOURCE_PREFIX = "resources.kubernetes-fleet.io/"
TOTAL, ALLOCATABLE, AVAILABLE = "total", "allocatable", "available"
CAPACITY_TYPES = (ALLOCATABLE, AVAILABLE, TOTAL)


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
    parts = name.split("-")
    about = f"failed to retrieve resource property value for {name} from cluster {member.name}"
    if len(parts) != 2 or not all(parts):
        return Unreadable(f"{about}: invalid resource property name: {name}")
    usage = member.resources
    amounts = {TOTAL: usage.total, ALLOCATABLE: usage.allocatable, AVAILABLE: usage.available}.get(parts[0])
    if amounts is None:
        return Unreadable(f"{about}: invalid capacity type {parts[0]} in resource property name {name}")
    return amounts.get(parts[1])


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
