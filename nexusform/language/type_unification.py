"""Common type of several types, and equality of values."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from nexusform.schemas.value_types import (
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
    has_dynamic,
)
from nexusform.values.typed_value import (
    NOT_NULL,
    UNKNOWN,
    Value,
    build_boolean,
    get_refinement,
    remove_all_marks,
)


def unify_types(types: Sequence[Type]) -> Type | None:
    """Return the common type of all given types; None if there is none, as for a list and a map.

    A string with numbers or bools gives string. Objects of different attributes become a map, and
    tuples of different lengths a list, if their parts have a common type. The open type (DYNAMIC)
    is compatible with any.
    """
    # Each type once, without the open type.
    distinct: list[Type] = []
    for candidate in types:
        if candidate is not DYNAMIC and candidate not in distinct:
            distinct.append(candidate)
    if len(distinct) <= 1:
        return distinct[0] if distinct else DYNAMIC
    # Such as ListType.
    kinds = {candidate.__class__ for candidate in distinct}
    if kinds == {PrimitiveType}:
        # A number and a bool have no common type.
        return STRING if STRING in distinct else None
    if kinds in ({ObjectType}, {TupleType}) and len(set(map(_get_shape, distinct))) == 1:
        return _unify_structures(distinct)
    if kinds <= {ObjectType, MapType}:
        return _unify_mappings(distinct)
    if kinds <= {ListType, SetType, TupleType}:
        return _unify_sequences(distinct)
    # Of different kinds, such as a list and a map.
    return None


def _unify_structures(types: Sequence[Type]) -> Type | None:
    """Return the common type of objects or tuples of the same shape, or None.

    The same shape means equal attributes of objects, or equal length of tuples.
    """
    parts: list[Type] = []
    # One part of all structures.
    for column in zip(*[structure.parts for structure in types], strict=True):
        part = unify_types(column)
        if part is None:
            return None
        parts.append(part)
    return types[0].replace_parts(parts)


def _get_shape(value_type: Type) -> tuple[str, ...] | int:
    """Return the attribute names of an object type, else the number of part types."""
    return value_type.names if isinstance(value_type, ObjectType) else len(value_type.parts)


def _unify_mappings(types: Sequence[Type]) -> Type | None:
    """Return the common type of maps and objects: a map of the common type of their parts.

    Return None if there is no such type. Parts without a common type still allow one object among
    maps of DYNAMIC elements: the result is its type.
    """
    common = _unify_part_types(types)
    if common is not None:
        return MapType(common)
    others = [candidate for candidate in types if candidate != MapType(DYNAMIC)]
    return others[0] if len(others) == 1 and isinstance(others[0], ObjectType) else None


def _unify_sequences(types: Sequence[Type]) -> Type | None:
    """Return the common type of lists, sets and tuples, or None.

    A set if there are sets but no lists, else a list.
    """
    common = _unify_part_types(types)
    if common is None:
        return None
    kinds = {sequence_type.__class__ for sequence_type in types}
    return SetType(common) if SetType in kinds and ListType not in kinds else ListType(common)


def _unify_part_types(types: Sequence[Type]) -> Type | None:
    """Return the common type of all parts of these types, None without one.

    The types are those of collections and structures.
    """
    return unify_types([*chain.from_iterable(collection_type.parts for collection_type in types)])


_UNDECIDED: Final = Value(BOOL, UNKNOWN, refinement=NOT_NULL)


def compare_values(left: Value, right: Value) -> Value:
    """Return `left == right` as in HCL.

    Values of different types differ, at every level: `{ a = null }` with a null of any type is not
    the object with a null string. Only two nulls are equal whatever their types. It is unknown if
    unknown parts decide.
    """
    if left.raw is None or right.raw is None:
        # Parts of a known value do not matter for a comparison with null, and neither do their
        # marks.
        outcome = _is_equal(left, right)
        marks = left.marks | right.marks
        return (_UNDECIDED if outcome is None else build_boolean(outcome)).add_marks(marks)
    plain_left, marks = remove_all_marks(left)
    plain_right, right_marks = remove_all_marks(right)
    outcome = _is_equal(plain_left, plain_right)
    result = _UNDECIDED if outcome is None else build_boolean(outcome)
    return result.add_marks(marks | right_marks)


_UNKNOWN_OR_NULL: Final = (UNKNOWN, None)


def _is_certainly_different(left: Value, right: Value) -> bool:
    """Return whether two values cannot be equal, although at least a part is unknown.

    One of the values is unknown or has unknown parts. This follows from their refinements: whether
    null is possible, the prefix of a text, bounds of a number, and bounds of a length. An unknown
    text that begins with "a" never equals "bc".
    """
    left_refinement = get_refinement(left)
    right_refinement = get_refinement(right)
    if left.raw is None or right.raw is None:
        # One value is null, and the other is not.
        return left_refinement.not_null or right_refinement.not_null
    if not (left_refinement.not_null and right_refinement.not_null):
        # Both may be null.
        return False
    # The text after the prefix of an unknown one is open: only the common length can be compared.
    left_prefix = left_refinement.prefix
    right_prefix = right_refinement.prefix
    if right.raw is UNKNOWN:
        left_prefix = left_prefix[: len(right_prefix)]
    if left.raw is UNKNOWN:
        right_prefix = right_prefix[: len(left_prefix)]
    # (lower of one value, upper of the other), None if open.
    opposite_bounds: tuple[tuple[Any, Any], ...] = (
        (left_refinement.lowest, right_refinement.highest),
        (right_refinement.lowest, left_refinement.highest),
        (left_refinement.shortest, right_refinement.longest),
        (right_refinement.shortest, left_refinement.longest),
    )
    if left_prefix != right_prefix:
        return True
    return any(
        lower is not None and upper is not None and lower > upper
        for lower, upper in opposite_bounds
    )


def _is_equal(left: Value, right: Value) -> bool | None:
    """Check whether two values without marks are equal; None if that depends on unknown parts.

    The first rules decide about unknown values, nulls and different types. Then known values are
    compared by part.
    """
    first = left.raw
    second = right.raw
    if first is UNKNOWN or second is UNKNOWN:
        return None if _can_equal_unknown(left, right) else False
    # Here both values are known; parts of them may be unknown.
    if first is None or second is None:
        # Equal only if both are null.
        return first is second
    has_unknown_parts = not (left.is_wholly_known and right.is_wholly_known)
    is_open = has_unknown_parts and (_has_open_type(left) or _has_open_type(right))
    if not _may_be_equal(left.type, right.type, is_open=is_open):
        # Known values of different types.
        return False
    if first.__class__ is dict and first.keys() != second.keys():
        # Maps or objects of other names.
        return False
    if isinstance(left.type, SetType) and has_unknown_parts:
        # Elements of sets have no order, so they cannot be compared in pairs.
        return False if _is_certainly_different(left, right) else None
    if not left.parts:
        # A string, number or bool, or an empty collection.
        return bool(first == second)
    if len(left.parts) != len(right.parts):
        return False
    # Entries have the order of their keys.
    return _has_only_equal_pairs(zip(left.parts, right.parts, strict=True))


def _has_open_type(value: Value) -> bool:
    """Return whether the type of a value may change once its unknown parts are known.

    A null of the open type has that type for good: only unknown parts get another one.
    """
    if value.raw is UNKNOWN:
        return has_dynamic(value.type)
    return not value.is_wholly_known and any(map(_has_open_type, value.parts))


def _can_equal_unknown(left: Value, right: Value) -> bool:
    """Return whether two values may be equal, by their types and known limits.

    At least one of them is unknown.
    """
    if _is_certainly_different(left, right):
        return False
    # An unknown value may be null, and nulls of all types are equal, so different
    # types prove nothing.
    both_may_be_null = left.raw in _UNKNOWN_OR_NULL and right.raw in _UNKNOWN_OR_NULL
    return both_may_be_null or _may_be_equal(left.type, right.type, is_open=True)


def _has_only_equal_pairs(pairs: Iterable[tuple[Value, Value]]) -> bool | None:
    """Check whether the values of all pairs are equal; None if that depends on unknown parts."""
    result: bool | None = True
    for left, right in pairs:
        outcome = _is_equal(left, right)
        if outcome is False:
            return False
        if outcome is None:
            result = None
    return result


def _may_be_equal(left: Type, right: Type, *, is_open: bool) -> bool:
    """Return whether two types are equal, or may be once their open parts are known.

    DYNAMIC is an open type or part. If `is_open`, a list of DYNAMIC may become a list of strings,
    but never a map. Otherwise DYNAMIC equals only itself.
    """
    if left is right or left == right:
        return True
    if left is DYNAMIC or right is DYNAMIC:
        return is_open
    if left.__class__ is not right.__class__ or isinstance(left, PrimitiveType):
        return False
    if _get_shape(left) != _get_shape(right):
        # With other names, or another number of parts.
        return False
    return all(
        _may_be_equal(left_part, right_part, is_open=is_open)
        for left_part, right_part in zip(left.parts, right.parts, strict=True)
    )
