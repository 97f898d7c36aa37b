"""Functions that query lists, tuples and sets: elements, lengths, conditions."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    build_any_parameter,
    find_shared_type,
)
from nexusform.language.functions.text import split_clusters
from nexusform.language.type_conversion import convert_value as _convert
from nexusform.language.type_unification import compare_values, unify_types
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
    describe_type,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    FALSE,
    TRUE,
    UNKNOWN,
    Refinement,
    Value,
    build_boolean,
    get_refinement,
)

SEQUENCES: Final = (ListType, SetType, TupleType)


def _combine_bools(decisive: bool, items: Value) -> Value:
    """Combine bools for `alltrue` (`decisive` is False) or `anytrue` (True).

    A null item counts as false. One decisive item gives the result, even if others are unknown.
    Otherwise the result is unknown if an item is unknown.
    """
    if any(item.raw is not UNKNOWN and bool(item.raw) is decisive for item in items.raw):
        return build_boolean(decisive)
    return build_boolean(not decisive) if items.is_wholly_known else Value(BOOL, UNKNOWN)


def _find_coalesce_type(arguments: Sequence[Value]) -> Type:
    """Return the common type of the arguments of `coalesce`; DYNAMIC if each keeps its own."""
    types = [argument.type for argument in arguments]
    common = unify_types(types) if types else None
    if common is not None:
        return common
    # With an untyped null (DYNAMIC) other types may differ, but objects and tuples must not mix.
    if DYNAMIC in types and not {ObjectType, TupleType} <= {
        argument_type.__class__ for argument_type in types
    }:
        return DYNAMIC
    raise FixedProblem("all arguments must have the same type")


def _compute_coalesce(*arguments: Value) -> Value:
    """Return the first argument other than null and, of strings, "".

    It is unknown if an unknown one precedes it.
    """
    common = _find_coalesce_type(arguments)
    for argument in arguments:
        if argument.raw is UNKNOWN:
            return Value(common, UNKNOWN)
        if argument.raw is None or (common == STRING and argument.raw == ""):
            continue
        return _convert(argument, common)
    raise FixedProblem("no non-null, non-empty-string arguments")


def _find_list_type(arguments: Sequence[Value]) -> Type:
    """Return the list type shared by all arguments; DYNAMIC if they differ or are no lists."""
    common = find_shared_type(arguments)
    return common if isinstance(common, ListType) else DYNAMIC


def _compute_coalesce_list(*lists: Value) -> Value:
    """Return the first list with elements.

    It is unknown if an unknown one precedes it. The types of all arguments up to the first unknown
    one are checked, also those after the result.
    """
    if not lists:
        raise FixedProblem("at least one argument is required")
    for position, argument in enumerate(lists):
        if argument.raw is UNKNOWN:
            # Later arguments cannot be the result: they are not checked.
            break
        if not isinstance(argument.type, (ListType, TupleType)):
            raise FixedProblem("coalescelist arguments must be lists or tuples", position)
    for argument in lists:
        if argument.raw is UNKNOWN:
            return DYNAMIC_UNKNOWN
        if argument.raw:
            return argument
    raise FixedProblem("no non-null arguments")


def _find_single_element(sequence: Value) -> Value:
    """Return the only element of a list, set or tuple, or null if it is empty.

    It is unknown if the length is. Raises FunctionProblem for several elements, and for a value
    that is no sequence.
    """
    if sequence.type is DYNAMIC:
        return DYNAMIC_UNKNOWN
    # One for a list or set, one for each element of a tuple.
    part_types = sequence.type.parts
    if not isinstance(sequence.type, SEQUENCES) or len(part_types) > 1:
        raise FunctionProblem(_TOO_MANY_ELEMENTS, argument=0)
    element_type = part_types[0] if part_types else DYNAMIC
    if sequence.raw is UNKNOWN:
        return Value(element_type, UNKNOWN)
    if len(sequence.raw) > 1:
        if isinstance(sequence.type, SetType) and not sequence.is_wholly_known:
            # Unknown elements may be equal to others.
            return Value(element_type, UNKNOWN)
        raise FunctionProblem(_TOO_MANY_ELEMENTS, argument=0)
    element: Value = sequence.raw[0] if sequence.raw else Value(element_type, None)
    return element


_TOO_MANY_ELEMENTS: Final = "must be a list, set, or tuple value with either zero or one elements"
_INT64: Final = 1 << 63


def _find_element_type(arguments: Sequence[Value]) -> Type:
    """Return the type of the element at an index; DYNAMIC for a tuple with an unknown index."""
    sequence, index = arguments
    sequence_type = sequence.type
    if not isinstance(sequence_type, (ListType, TupleType)):
        raise FunctionProblem(
            f"cannot read elements from {describe_type(sequence_type)}", argument=0
        )
    if isinstance(sequence_type, ListType):
        return sequence_type.element
    # An unknown or invalid position gives no type.
    position = index.raw
    element_types = sequence_type.elements
    # Indices wrap around the length.
    return (
        element_types[position % len(element_types)]
        if element_types and isinstance(position, int)
        else DYNAMIC
    )


def _find_element_at_position(sequence: Value, position: Value) -> Value:
    """Return the element at an index; it wraps around at both ends.

    Raises FunctionProblem for an empty list.
    """
    # Raises FunctionProblem unless it is a list or tuple.
    _find_element_type([sequence, position])
    if not isinstance(position.raw, int) or not -_INT64 <= position.raw < _INT64:
        raise FixedProblem("the index must be a whole number of at most 63 bits", argument=1)
    if not sequence.raw:
        raise FixedProblem("cannot use element function with an empty list")
    element: Value = sequence.raw[position.raw % len(sequence.raw)]
    return element


def _find_index_of_value(sequence: Value, value: Value) -> Value:
    """Return the index of the first equal element, perhaps unknown.

    Raises FunctionProblem without one.
    """
    if not isinstance(sequence.type, (ListType, TupleType)):
        raise FixedProblem("argument must be a list or tuple", argument=0)
    if not sequence.raw:
        raise FixedProblem("cannot search an empty list")
    for position, item in enumerate(sequence.raw):
        is_equal = compare_values(item, value).raw
        if is_equal is UNKNOWN:
            # It may be the first equal one.
            return Value(NUMBER, UNKNOWN)
        if is_equal:
            return Value(NUMBER, position)
    raise FixedProblem("item not found")


def _has_element(sequence: Value, value: Value) -> Value:
    """Check whether any element equals the value.

    It is unknown if none does, but an unknown element may.
    """
    if not isinstance(sequence.type, SEQUENCES):
        raise FixedProblem("argument must be list, tuple, or set")
    has_unknown = False
    for item in sequence.raw:
        is_equal = compare_values(item, value).raw
        if is_equal is UNKNOWN:
            has_unknown = True
        elif is_equal:
            return TRUE
    return Value(BOOL, UNKNOWN) if has_unknown else FALSE


def _compute_length(value: Value) -> Value:
    """Return the number of elements, attributes or characters.

    An unknown number still has its known bounds.
    """
    value_type = value.type
    raw = value.raw
    # Also of an unknown value.
    if isinstance(value_type, (TupleType, ObjectType)):
        return Value(NUMBER, len(value_type.parts))
    if value_type not in {STRING, DYNAMIC} and not isinstance(
        value_type, (ListType, SetType, MapType)
    ):
        raise FixedProblem("argument must be a string, a collection type, or a structural type")
    if value_type == STRING:
        if raw is not UNKNOWN:
            return Value(NUMBER, len(split_clusters(raw)))
        # Further text removes no characters, but may combine with the last one.
        minimum = len(split_clusters(get_refinement(value).prefix))
        return Value(NUMBER, UNKNOWN, refinement=Refinement(not_null=True, lowest=minimum))
    # Unknown elements of a set may be equal, so even for a known set only bounds may be known.
    # Of a value of open type: at least 0.
    refinement = get_refinement(value)
    if refinement.shortest == refinement.longest:
        return Value(NUMBER, refinement.shortest)
    bounds = Refinement(not_null=True, lowest=refinement.shortest, highest=refinement.longest)
    return Value(NUMBER, UNKNOWN, refinement=bounds)


def build_list_parameter(description: str = "a list, set or tuple", **options: bool) -> Parameter:
    """Build a parameter that accepts any list, set or tuple."""
    return Parameter("list", DYNAMIC, description, **options)


FUNCTIONS: Final = (
    Function(
        "alltrue",
        "Whether every element is true. True for an empty list.",
        (Parameter("list", ListType(BOOL), "a list of bools"),),
        BOOL,
        partial(_combine_bools, False),
        (Example('alltrue(["true", true])', "true"), Example("alltrue([true, false])", "false")),
    ),
    Function(
        "anytrue",
        "Whether any element is true. False for an empty list.",
        (Parameter("list", ListType(BOOL), "a list of bools"),),
        BOOL,
        partial(_combine_bools, True),
        (Example("anytrue([false, true])", "true"), Example("anytrue([])", "false")),
    ),
    Function(
        "coalesce",
        "The first argument other than null and the empty string.",
        (),
        _find_coalesce_type,
        _compute_coalesce,
        (Example('coalesce("", "b")', '"b"'), Example("coalesce(null, 1, 2)", "1")),
        Parameter(
            "vals",
            DYNAMIC,
            "values of one type",
            allow_null=True,
            allow_unknown=True,
            allow_dynamic=True,
        ),
    ),
    Function(
        "coalescelist",
        "The first non-empty list.",
        (),
        _find_list_type,
        _compute_coalesce_list,
        (Example('coalescelist([], ["c", "d"])', '["c", "d"]'),),
        build_any_parameter("vals", "lists"),
    ),
    Function(
        "contains",
        "Whether a value is an element of a list, set or tuple.",
        (build_list_parameter(), Parameter("value", DYNAMIC, "the value", allow_unknown=True)),
        BOOL,
        _has_element,
        (Example('contains(["a", "b"], "a")', "true"), Example("contains([1], 2)", "false")),
    ),
    Function(
        "element",
        "The element at an index. The index wraps around.",
        (
            build_list_parameter("a list or tuple", inner_marks=True),
            Parameter("index", NUMBER, "from 0; negative counts from the end"),
        ),
        _find_element_type,
        _find_element_at_position,
        (
            Example('element(["a", "b", "c"], 1)', '"b"'),
            Example('element(["a", "b", "c"], 3)', '"a"'),
        ),
        may_be_null=True,
    ),
    Function(
        "index",
        "The index of the first element equal to a value.",
        (build_list_parameter("a list or tuple"), Parameter("value", DYNAMIC, "the value")),
        NUMBER,
        _find_index_of_value,
        (Example('index(["a", "b", "c"], "b")', "1"),),
    ),
    Function(
        "length",
        "The number of elements of a collection, or characters of a text.",
        (
            Parameter(
                "value",
                DYNAMIC,
                "a collection or a text",
                allow_dynamic=True,
                allow_unknown=True,
                allow_marked=True,
            ),
        ),
        NUMBER,
        lambda value: _compute_length(value).add_marks(value.marks),
        (
            Example("length([])", "0"),
            Example('length("hello")', "5"),
            Example("length({ a = 1 })", "1"),
        ),
    ),
    Function(
        "one",
        "The only element of a list, or null for an empty list. More elements are an error.",
        (
            build_list_parameter(
                "a list, set or tuple", allow_unknown=True, allow_dynamic=True, inner_marks=True
            ),
        ),
        DYNAMIC,
        _find_single_element,
        (Example('one(["a"])', '"a"'), Example("one([])", "null")),
        may_be_null=True,
    ),
)
