"""Functions that ask something of lists, tuples and sets: for an element, a length, a truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.language.conversion import convert as _convert
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    anything,
)
from nexusform.language.functions.text import clusters
from nexusform.language.unification import equals, unify
from nexusform.value_types import (
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
    friendly_name,
)
from nexusform.values import (
    DYNAMIC_UNKNOWN,
    FALSE,
    TRUE,
    UNKNOWN,
    Refinement,
    Value,
    refinement_of,
)

SEQUENCES: Final = (ListType, SetType, TupleType)


# --- truth -------------------------------------------------------------------------------------


def _all_true(items: Value) -> Value:
    unknown = False
    for item in items.raw:
        if item.raw is UNKNOWN:
            unknown = True
        elif not item.raw:
            return FALSE
    return Value(BOOL, UNKNOWN) if unknown else TRUE


def _any_true(items: Value) -> Value:
    unknown = False
    for item in items.raw:
        if item.raw is UNKNOWN:
            unknown = True
        elif item.raw:
            return TRUE
    return Value(BOOL, UNKNOWN) if unknown else FALSE


# --- choosing ----------------------------------------------------------------------------------


def _coalesced_type(arguments: Sequence[Value]) -> Type:
    """The type of what `coalesce` gives, whichever argument it takes."""
    types = [argument.type for argument in arguments]
    common = unify(types) if types else None
    if common is not None:
        return common
    # Beside a bare null each may stay as it is; only objects and tuples are refused together.
    structures = {kind for kind in (ObjectType, TupleType) for each in types if isinstance(each, kind)}
    if DYNAMIC in types and len(structures) < 2:
        return DYNAMIC
    raise FixedProblem("all arguments must have the same type")


def _coalesce(*arguments: Value) -> Value:
    common = _coalesced_type(arguments)
    for argument in arguments:
        if argument.raw is UNKNOWN:
            return Value(common, UNKNOWN)
        if argument.raw is None or (common == STRING and argument.raw == ""):
            continue
        return _convert(argument, common)
    raise FixedProblem("no non-null, non-empty-string arguments")


def _coalesced_list_type(arguments: Sequence[Value]) -> Type:
    kinds = [a.type for a in arguments]
    same = bool(kinds) and isinstance(kinds[0], ListType) and all(k == kinds[0] for k in kinds)
    return kinds[0] if same else DYNAMIC


def _coalesce_list(*lists: Value) -> Value:
    if not lists:
        raise FixedProblem("at least one argument is required")
    for position, argument in enumerate(lists):
        if argument.raw is UNKNOWN:
            break
        if not isinstance(argument.type, (ListType, TupleType)):
            raise FixedProblem("coalescelist arguments must be lists or tuples", position)
    for argument in lists:
        if argument.raw is UNKNOWN:
            return DYNAMIC_UNKNOWN
        if argument.raw:
            return argument
    raise FixedProblem("no non-null arguments")


def _one(sequence: Value) -> Value:
    if isinstance(sequence.type, TupleType):
        if len(sequence.type.elements) > 1:
            raise FunctionProblem(_ONE, 0)
        kind = sequence.type.elements[0] if sequence.type.elements else DYNAMIC
    elif isinstance(sequence.type, (ListType, SetType)):
        kind = sequence.type.element
    elif sequence.type is DYNAMIC:
        return DYNAMIC_UNKNOWN
    else:
        raise FunctionProblem(_ONE, 0)
    if sequence.raw is UNKNOWN:
        return Value(kind, UNKNOWN)
    if isinstance(sequence.type, SetType) and len(sequence.raw) > 1 and not sequence.is_wholly_known:
        return Value(kind, UNKNOWN)
    if len(sequence.raw) > 1:
        raise FunctionProblem(_ONE, 0)
    element: Value = sequence.raw[0] if sequence.raw else Value(kind, None)
    return element


_ONE: Final = "must be a list, set, or tuple value with either zero or one elements"


_INT64: Final = 1 << 63


def _element_type(arguments: Sequence[Value]) -> Type:
    sequence_type = arguments[0].type
    if not isinstance(sequence_type, (ListType, TupleType)):
        raise FunctionProblem(f"cannot read elements from {friendly_name(sequence_type)}", 0)
    if isinstance(sequence_type, ListType):
        return sequence_type.element
    position, parts = arguments[-1].raw, sequence_type.elements
    return parts[position % len(parts)] if parts and isinstance(position, int) else DYNAMIC


def _element(sequence: Value, position: Value) -> Value:
    _element_type([sequence, position])
    if not isinstance(position.raw, int) or not -_INT64 <= position.raw < _INT64:
        raise FixedProblem("the index must be a whole number of at most 63 bits", 1)
    if not sequence.raw:
        raise FixedProblem("cannot use element function with an empty list")
    element: Value = sequence.raw[position.raw % len(sequence.raw)]
    return element


def _index(sequence: Value, value: Value) -> Value:
    if not isinstance(sequence.type, (ListType, TupleType)):
        raise FixedProblem("argument must be a list or tuple", 0)
    if not sequence.raw:
        raise FixedProblem("cannot search an empty list")
    for position, item in enumerate(sequence.raw):
        same = equals(item, value).raw
        if same is UNKNOWN:
            return Value(NUMBER, UNKNOWN)
        if same:
            return Value(NUMBER, position)
    raise FixedProblem("item not found")


def _contains(sequence: Value, value: Value) -> Value:
    if not isinstance(sequence.type, SEQUENCES):
        raise FixedProblem("argument must be list, tuple, or set")
    unknown = False
    for item in sequence.raw:
        same = equals(item, value).raw
        if same is UNKNOWN:
            unknown = True
        elif same:
            return TRUE
    return Value(BOOL, UNKNOWN) if unknown else FALSE


def _length(value: Value) -> Value:
    of, raw = value.type, value.raw
    if isinstance(of, TupleType):
        return Value(NUMBER, len(of.elements))
    if isinstance(of, ObjectType):
        return Value(NUMBER, len(of.attributes))
    if of not in {STRING, DYNAMIC} and not isinstance(of, (ListType, SetType, MapType)):
        raise FixedProblem("argument must be a string, a collection type, or a structural type")
    if of == STRING and raw is not UNKNOWN:
        return Value(NUMBER, len(clusters(raw)))
    if of == STRING:
        # What follows takes nothing away from what is there, but may join its last character.
        fewest = len(clusters(refinement_of(value).prefix))
        return Value(NUMBER, UNKNOWN, refinement=Refinement(not_null=True, lowest=fewest))
    # Unknown elements of a set may turn out to be equal, so even of a known one only bounds may be known.
    known = refinement_of(value)
    if known.shortest == known.longest:
        return Value(NUMBER, known.shortest)
    bounds = Refinement(not_null=True, lowest=known.shortest, highest=known.longest)
    return Value(NUMBER, UNKNOWN, refinement=bounds)


def _length_with_marks(value: Value) -> Value:
    marks = value.marks
    return _length(value).with_marks(marks)


def list_parameter(description: str = "a list, set or tuple", **more: bool) -> Parameter:
    """A parameter that takes any list, set or tuple."""
    return Parameter("list", DYNAMIC, description, **more)


FUNCTIONS: Final = (
    Function(
        "alltrue",
        "Whether every element is true. True for an empty list.",
        (Parameter("list", ListType(BOOL), "a list of bools"),),
        BOOL,
        _all_true,
        (Example('alltrue(["true", true])', "true"), Example("alltrue([true, false])", "false")),
    ),
    Function(
        "anytrue",
        "Whether any element is true. False for an empty list.",
        (Parameter("list", ListType(BOOL), "a list of bools"),),
        BOOL,
        _any_true,
        (Example("anytrue([false, true])", "true"), Example("anytrue([])", "false")),
    ),
    Function(
        "coalesce",
        "The first argument other than null and the empty string.",
        (),
        _coalesced_type,
        _coalesce,
        (Example('coalesce("", "b")', '"b"'), Example("coalesce(null, 1, 2)", "1")),
        Parameter(
            "vals", DYNAMIC, "values of one type", allow_null=True, allow_unknown=True, allow_dynamic=True
        ),
    ),
    Function(
        "coalescelist",
        "The first non-empty list.",
        (),
        _coalesced_list_type,
        _coalesce_list,
        (Example('coalescelist([], ["c", "d"])', '["c", "d"]'),),
        anything("vals", "lists"),
    ),
    Function(
        "contains",
        "Whether a value is an element of a list, set or tuple.",
        (list_parameter(), Parameter("value", DYNAMIC, "the value", allow_unknown=True)),
        BOOL,
        _contains,
        (Example('contains(["a", "b"], "a")', "true"), Example("contains([1], 2)", "false")),
    ),
    Function(
        "element",
        "The element at an index. The index wraps around.",
        (
            list_parameter("a list or tuple", inner_marks=True),
            Parameter("index", NUMBER, "from 0; negative counts from the end"),
        ),
        _element_type,
        _element,
        (Example('element(["a", "b", "c"], 1)', '"b"'), Example('element(["a", "b", "c"], 3)', '"a"')),
        may_be_null=True,
    ),
    Function(
        "index",
        "The index of the first element equal to a value.",
        (list_parameter("a list or tuple"), Parameter("value", DYNAMIC, "the value")),
        NUMBER,
        _index,
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
        _length_with_marks,
        (Example("length([])", "0"), Example('length("hello")', "5"), Example("length({ a = 1 })", "1")),
    ),
    Function(
        "one",
        "The only element of a list, or null for an empty list. More elements are an error.",
        (list_parameter("a list, set or tuple", allow_unknown=True, allow_dynamic=True, inner_marks=True),),
        DYNAMIC,
        _one,
        (Example('one(["a"])', '"a"'), Example("one([])", "null")),
        may_be_null=True,
    ),
)
