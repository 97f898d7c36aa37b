"""Whether two values are equal, as far as both are known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from nexusform.language.unification import attribute_names, part_types
from nexusform.value_types import BOOL, DYNAMIC, ObjectType, PrimitiveType, SetType, Type
from nexusform.values import FALSE, NOT_NULL, TRUE, UNKNOWN, Value, refinement_of, unmark_deep

_UNDECIDED: Final = Value(BOOL, UNKNOWN, refinement=NOT_NULL)


def equals(left: Value, right: Value) -> Value:
    """`left == right` as HCL has it: values of different types differ; unknown if it depends."""
    plain_left, marks = unmark_deep(left)
    plain_right, more = unmark_deep(right)
    outcome = _same(plain_left, plain_right)
    if outcome is None:
        return _UNDECIDED.with_marks(marks | more)
    return (TRUE if outcome else FALSE).with_marks(marks | more)


_UNKNOWN_OR_NULL: Final = (UNKNOWN, None)


def _differ_surely(left: Value, right: Value) -> bool:
    # Whether what is known of two values, one of them not wholly known, excludes that they are equal.
    one, other = refinement_of(left), refinement_of(right)
    if left.raw is None or right.raw is None:
        return one.not_null or other.not_null
    if not (one.not_null and other.not_null):
        return False
    return (
        _begin_otherwise(left, right)
        or _beyond(one.lowest, other.highest)
        or _beyond(other.lowest, one.highest)
        or _beyond(one.shortest, other.longest)
        or _beyond(other.shortest, one.longest)
    )


def _begin_otherwise(left: Value, right: Value) -> bool:
    # Whether two texts, as far as they are known, cannot be equal.
    one, other = refinement_of(left).prefix, refinement_of(right).prefix
    if right.raw is UNKNOWN and len(other) < len(one):
        one = one[: len(other)]
    if left.raw is UNKNOWN and len(one) < len(other):
        other = other[: len(one)]
    return one != other


def _beyond(lower: Any, upper: Any) -> bool:
    return lower is not None and upper is not None and lower > upper


def _same(left: Value, right: Value) -> bool | None:
    """Whether two values without marks are equal; None while that hangs on what is unknown."""
    first, second = left.raw, right.raw
    if first is UNKNOWN or second is UNKNOWN:
        if _differ_surely(left, right):
            return False
        # What is unknown may be null, and nulls of all types are equal.
        may_be_null = first in _UNKNOWN_OR_NULL and second in _UNKNOWN_OR_NULL
        return None if may_be_null or _may_be_same(left.type, right.type) else False
    if first is None or second is None:
        return first is None and second is None
    same_type = left.type is right.type or left.type == right.type
    if not same_type and not _may_be_same(left.type, right.type):
        return False
    if first.__class__ is dict:
        if first.keys() != second.keys():
            return False
        return _all_same([(v, second[k]) for k, v in first.items()])
    if isinstance(left.type, SetType) and not (left.is_wholly_known and right.is_wholly_known):
        return False if _differ_surely(left, right) else None
    if first.__class__ is tuple:
        return len(first) == len(second) and _all_same(list(zip(first, second, strict=True)))
    return bool(first == second)


def _all_same(pairs: Iterable[tuple[Value, Value]]) -> bool | None:
    """Whether the values of all pairs are equal; None while that hangs on what is unknown."""
    sure = True
    for one, other in pairs:
        outcome = _same(one, other)
        if outcome is False:
            return False
        sure = sure and outcome is True
    return True if sure else None


def _may_be_same(left: Type, right: Type) -> bool:
    # Types that are equal, or would be once their open parts are known.
    if left is DYNAMIC or right is DYNAMIC or left == right:
        return True
    if left.__class__ is not right.__class__ or isinstance(left, PrimitiveType):
        return False
    if (
        isinstance(left, ObjectType)
        and isinstance(right, ObjectType)
        and attribute_names(left) != attribute_names(right)
    ):
        return False
    mine, theirs = part_types(left), part_types(right)
    return len(mine) == len(theirs) and all(map(_may_be_same, mine, theirs))
