"""Functions on sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

from nexusform.language.conversion import convert
from nexusform.language.functions.function import Example, FixedProblem, Function, FunctionProblem, Parameter
from nexusform.language.unification import unify
from nexusform.value_types import DYNAMIC, ListType, SetType, TupleType, Type
from nexusform.values import (
    UNKNOWN,
    Refinement,
    Value,
    order_key,
    refined,
    refinement_of,
    set_value,
    tuple_value,
)

_Combine: TypeAlias = Callable[[dict[Any, Value], dict[Any, Value]], dict[Any, Value]]

PRODUCT_LIMIT: Final = 1_000_000


def _element(of: Type) -> Type:
    assert isinstance(of, SetType)
    return of.element


def _common_type(arguments: Sequence[Value]) -> Type:
    common = unify([_element(a.type) for a in arguments])
    if common is None:
        raise FixedProblem("given sets must all have compatible element types")
    return SetType(common)


def _operation(combine: _Combine) -> Callable[..., Value]:
    """A function of sets that takes in one after the other, as items by their order key."""

    def body(*sets: Value) -> Value:
        kind = _common_type(sets)
        if not all(s.is_wholly_known for s in sets):
            return Value(kind, UNKNOWN)
        result: dict[Any, Value] | None = None
        for operand in sets:
            items = {order_key(v): v for v in convert(operand, kind).raw}
            result = items if result is None else combine(result, items)
        return set_value((result or {}).values(), _element(kind))

    return body


def _union(*sets: Value) -> Value:
    # An element that is not known yet takes nothing away from the others.
    kind = _common_type(sets)
    items: list[Value] = []
    for operand in sets:
        items += convert(operand, kind).raw
    return set_value(items, _element(kind))


def _product_elements(of: Type, position: int) -> Type:
    """The type of the elements of one factor."""
    if isinstance(of, (ListType, SetType)):
        return of.element
    if isinstance(of, TupleType):
        common = unify(of.elements) if of.elements else DYNAMIC
        if common is not None:
            return common
        raise FixedProblem("all elements must be of the same type", position)
    raise FixedProblem("a set or a list is required", position)


def _product_type(arguments: Sequence[Value]) -> Type:
    if len(arguments) < 2:
        raise FixedProblem("at least two arguments are required")
    parts = TupleType(tuple([_product_elements(a.type, i) for i, a in enumerate(arguments)]))
    return SetType(parts) if any(isinstance(a.type, SetType) for a in arguments) else ListType(parts)


def _product(*sets: Value) -> Value:
    kind = _product_type(sets)
    assert isinstance(kind, (ListType, SetType))
    parts = kind.element
    assert isinstance(parts, TupleType)
    if not all(map(_has_known_length, sets)):
        return refined(Value(kind, UNKNOWN), _bounds_of_product(sets))
    if prod([len(s.raw) for s in sets]) > PRODUCT_LIMIT:
        raise FunctionProblem(f"the product has more than {PRODUCT_LIMIT} elements")
    factors: list[list[Value]] = []
    for operand, element in zip(sets, parts.elements, strict=True):
        factors.append([convert(item, element) for item in operand.raw])
    rows = [Value(parts, row) for row in product(*factors)]
    if isinstance(kind, SetType):
        return set_value(rows, parts)
    return Value(kind, tuple(rows)) if all(r.type == parts for r in rows) else tuple_value(rows)


def _has_known_length(factor: Value) -> bool:
    if factor.raw is UNKNOWN:
        return False
    return not isinstance(factor.type, SetType) or factor.is_wholly_known or len(factor.raw) == 1


def _bounds_of_product(factors: Sequence[Value]) -> Refinement:
    bounds = [_bounds_of_length(factor) for factor in factors]
    shortest = prod([low for low, _ in bounds])
    longest: int | None = 1
    for _, high in bounds:
        longest = None if longest is None or high is None else longest * high
    return Refinement(
        not_null=True,
        shortest=min(shortest, 1),  # rows may turn out to be equal
        longest=longest,
    )


def _bounds_of_length(sequence: Value) -> tuple[int, int | None]:
    if isinstance(sequence.type, TupleType):
        return len(sequence.type.elements), len(sequence.type.elements)
    known = refinement_of(sequence)
    return known.shortest, known.longest


_ANY_SET: Final = SetType(DYNAMIC)


def _set_function(
    name: str,
    description: str,
    body: Callable[..., Value],
    *examples: Example,
) -> Function:
    return Function(
        name,
        description,
        (Parameter("first_set", _ANY_SET, "a set"),),
        _common_type,
        body,
        examples,
        Parameter("other_sets", _ANY_SET, "further sets"),
    )


FUNCTIONS: Final = (
    _set_function(
        "setintersection",
        "The elements in all of the sets.",
        _operation(lambda a, b: {k: v for k, v in a.items() if k in b}),
        Example('setintersection(["a", "b"], ["b", "c"])', 'toset(["b"])'),
    ),
    Function(
        "setproduct",
        "Every combination of one element from each of the lists or sets.",
        (),
        _product_type,
        _product,
        (Example('setproduct(["a", "b"], [1, 2])[2]', '["b", 1]'),),
        Parameter("sets", DYNAMIC, "lists or sets, two or more", allow_unknown=True, inner_marks=True),
    ),
    Function(
        "setsubtract",
        "The elements of the first set without those of the second.",
        (Parameter("a", _ANY_SET, "a set"), Parameter("b", _ANY_SET, "the elements to remove")),
        _common_type,
        _operation(lambda a, b: {k: v for k, v in a.items() if k not in b}),
        (Example('setsubtract(["a", "b", "c"], ["a", "c"])', 'toset(["b"])'),),
    ),
    _set_function(
        "setunion",
        "The elements in any of the sets.",
        _union,
        Example('setunion(["a", "b"], ["b", "c"])', 'toset(["a", "b", "c"])'),
    ),
)
