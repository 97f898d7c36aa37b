"""The one type that values of several types can be brought to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from nexusform.value_types import (
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
