"""Requirements on one property that no value can meet."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from nexusform.scheduling.fleet.model import PropertyRequirement
from nexusform.scheduling.quantity import Malformed, Quantity, parse_quantity


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
    for operator, value in _readable(requirements):
        bound = _Bound(value, operator in ("Gt", "Lt"))
        if operator in ("Gt", "Ge"):
            lower = bound if lower is None or _tighter(bound, lower, 1) else lower
        elif operator in ("Lt", "Le"):
            upper = bound if upper is None or _tighter(bound, upper, -1) else upper
        elif operator == "Ne":
            unequal.append(value)
        elif equal is not None and equal != value:
            return f"conflicting Eq values {equal} and {value}"
        else:
            equal = value
    if equal is not None and equal in unequal:
        return f"conflicting Eq and Ne on same value {equal}"
    return _empty(lower, upper) or _outside(equal, lower, upper)


def _readable(requirements: Iterable[PropertyRequirement]) -> Iterable[tuple[str, Quantity]]:
    for requirement in requirements:
        if len(requirement.values) == 1:
            value = parse_quantity(requirement.values[0])
            if not isinstance(value, Malformed) and requirement.operator in (
                "Gt",
                "Ge",
                "Lt",
                "Le",
                "Eq",
                "Ne",
            ):
                yield requirement.operator, value


def _tighter(new: _Bound, old: _Bound, sign: int) -> bool:
    difference = sign * (new.value.nano - old.value.nano)
    return difference > 0 or (difference == 0 and new.strict and not old.strict)


def _empty(lower: _Bound | None, upper: _Bound | None) -> str | None:
    if lower is None or upper is None:
        return None
    room = upper.value.nano - lower.value.nano
    if room < 0 or (room == 0 and (lower.strict or upper.strict)):
        return f"lower bound ({lower.value}) and upper bound ({upper.value}) exclude all values"
    return None


def _outside(equal: Quantity | None, lower: _Bound | None, upper: _Bound | None) -> str | None:
    if equal is None:
        return None
    for bound, sign, name in ((lower, 1, "lower"), (upper, -1, "upper")):
        if bound is None:
            continue
        room = sign * (equal.nano - bound.value.nano)
        if room < 0 or (room == 0 and bound.strict):
            return f"eq value {equal} violates {name} bound {bound.value}"
    return None
