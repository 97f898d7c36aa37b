"""The one type that values of several types can be brought to, and whether two values are equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from nexusform.value_types import (
    BOOL,
    DYNAMIC,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values import FALSE, NOT_NULL, TRUE, UNKNOWN, Value, refinement_of, unmark_deep

Kind = TypeVar("Kind", ObjectType, TupleType)


def unify(types: Sequence[Type]) -> Type | None:
    """The one type that values of all these types can be brought to, or None.

    Strings win over numbers and bools; objects of different attributes become a map, tuples of
    different lengths a list, where their parts agree. The open type agrees with any other.
    """
    distinct: list[Type] = []
    for each in types:
        if each is not DYNAMIC and not any(each is d or each == d for d in distinct):
            distinct.append(each)
    if len(distinct) <= 1:
        return distinct[0] if distinct else DYNAMIC
    if all(isinstance(t, PrimitiveType) for t in distinct):
        return STRING if STRING in distinct else None
    if objects := _all_of(ObjectType, distinct):
        return _unify_objects(objects)
    if tuples := _all_of(TupleType, distinct):
        return _unify_tuples(tuples)
    if all(isinstance(t, (ObjectType, MapType)) for t in distinct):
        common = _unify_parts(distinct)
        return _only_object(distinct) if common is None else MapType(common)
    if all(isinstance(t, (ListType, SetType, TupleType)) for t in distinct):
        # A list or a set that is already there decides which of the two it becomes.
        outer = ListType if any(isinstance(t, ListType) for t in distinct) else SetType
        return _wrap(outer, _unify_parts(distinct))
    return None


def _only_object(types: Sequence[Type]) -> Type | None:
    # Beside maps of nothing in particular an object may stay one.
    objects = [t for t in types if isinstance(t, ObjectType)]
    open_maps = [t for t in types if isinstance(t, MapType) and t.element is DYNAMIC]
    return objects[0] if len(objects) == 1 and len(open_maps) == len(types) - 1 else None


def _wrap(outer: type[ListType | SetType | MapType], element: Type | None) -> Type | None:
    return None if element is None else outer(element)


def part_types(of: Type) -> list[Type]:
    """The types of what a collection, tuple or object holds: one for collections."""
    if isinstance(of, ObjectType):
        return [t for _, t in of.attributes]
    if isinstance(of, TupleType):
        return list(of.elements)
    assert not isinstance(of, PrimitiveType)
    return [of.element]


def _unify_parts(types: Sequence[Type]) -> Type | None:
    # The one type for all that collections and structures of these types hold.
    parts: list[Type] = []
    for each in types:
        parts += part_types(each)
    return unify(parts)


def _all_of(kind: type[Kind], types: Sequence[Type]) -> list[Kind]:
    # The types when they are all of one kind, else nothing.
    matching = [t for t in types if isinstance(t, kind)]
    return matching if len(matching) == len(types) else []


def attribute_names(of: ObjectType) -> list[str]:
    """The attributes of objects of a type, in order."""
    return [name for name, _ in of.attributes]


def _unify_objects(types: Sequence[ObjectType]) -> Type | None:
    names = attribute_names(types[0])
    if any(attribute_names(each) != names for each in types):
        return _wrap(MapType, _unify_parts(types))
    parts = _each_unified(zip(*map(part_types, types), strict=True))
    return None if parts is None else ObjectType(tuple(zip(names, parts, strict=True)))


def _unify_tuples(types: Sequence[TupleType]) -> Type | None:
    length = len(types[0].elements)
    if any(len(t.elements) != length for t in types):
        return _wrap(ListType, _unify_parts(types))
    parts = _each_unified(zip(*map(part_types, types), strict=True))
    return None if parts is None else TupleType(tuple(parts))


def _each_unified(columns: Iterable[Sequence[Type]]) -> list[Type] | None:
    unified: list[Type] = []
    for column in columns:
        part = unify(column)
        if part is None:
            return None
        unified.append(part)
    return unified


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
