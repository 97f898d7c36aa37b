"""Functions on sets."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
)
from nexusform.language.type_conversion import convert_value
from nexusform.language.type_unification import unify_types
from nexusform.schemas.value_types import DYNAMIC, ListType, SetType, TupleType, Type
from nexusform.values.typed_value import (
    UNKNOWN,
    Refinement,
    Value,
    add_refinement,
    build_set,
    compute_order_key,
    get_refinement,
)

_Combine: TypeAlias = Callable[[dict[Any, Value], dict[Any, Value]], dict[Any, Value]]

MAX_PRODUCT: Final = 1_000_000
_ANY_SET: Final = SetType(DYNAMIC)


def _get_element_type(value_type: Type) -> Type:
    """Return the element type of a set type."""
    assert isinstance(value_type, SetType)
    return value_type.element


def _find_common_type(arguments: Sequence[Value]) -> Type:
    """Return the type of a set with the common element type.

    Raises FunctionProblem without one.
    """
    common = unify_types([_get_element_type(a.type) for a in arguments])
    if common is None:
        raise FixedProblem("given sets must all have compatible element types")
    return SetType(common)


def _combine_sets(combine: _Combine, *sets: Value) -> Value:
    """Combine sets by `combine`, a function of two dicts.

    A dict has the elements of a set by a key of their value. The result of the first two sets is
    combined with the third one, and so on. With unknown parts it is unknown.
    """
    set_type = _find_common_type(sets)
    if not all(operand.is_wholly_known for operand in sets):
        return Value(set_type, UNKNOWN)
    converted_sets = [convert_value(operand, set_type).raw for operand in sets]
    first, *further_sets = [
        {compute_order_key(element): element for element in raw} for raw in converted_sets
    ]
    return build_set(reduce(combine, further_sets, first).values(), _get_element_type(set_type))


def _compute_union(*sets: Value) -> Value:
    """Return the union of sets.

    It is known even with unknown elements, since these remove none of the others.
    """
    set_type = _find_common_type(sets)
    items: list[Value] = []
    for operand in sets:
        items += convert_value(operand, set_type).raw
    return build_set(items, _get_element_type(set_type))


def _find_product_factor_type(factor_type: Type, position: int) -> Type:
    """Return the type of the elements of one factor.

    Raises FunctionProblem.
    """
    if isinstance(factor_type, (ListType, SetType)):
        return factor_type.element
    if isinstance(factor_type, TupleType):
        common = unify_types(factor_type.elements) if factor_type.elements else DYNAMIC
        if common is not None:
            return common
        raise FixedProblem("all elements must be of the same type", argument=position)
    raise FixedProblem("a set or a list is required", argument=position)


def _find_product_type(arguments: Sequence[Value]) -> Type:
    """Return a set of tuples if any factor is a set, else a list of tuples.

    Raises FunctionProblem.
    """
    if len(arguments) < 2:
        raise FixedProblem("at least two arguments are required")
    part_types = [
        _find_product_factor_type(argument.type, position)
        for position, argument in enumerate(arguments)
    ]
    # Of one combination.
    row_type = TupleType(tuple(part_types))
    has_set = any(isinstance(argument.type, SetType) for argument in arguments)
    return SetType(row_type) if has_set else ListType(row_type)


def _compute_cartesian_product(*sets: Value) -> Value:
    """Compute all combinations of elements, the last factor varying fastest.

    If a factor is unknown, or its length, the result is unknown, with bounds of its length.
    """
    result_type = _find_product_type(sets)
    assert isinstance(result_type, (ListType, SetType))
    row_type = result_type.element
    assert isinstance(row_type, TupleType)
    # Least and greatest length of each factor.
    shortest, longest = zip(*map(_compute_length_bounds, sets), strict=True)
    if shortest != longest or any(factor.raw is UNKNOWN for factor in sets):
        # In a set of rows, equal ones count once: of several rows, at least one remains.
        # None: no bound.
        row_bound = None if None in longest else prod(longest)
        product_bounds = Refinement(
            not_null=True, shortest=min(prod(shortest), 1), longest=row_bound
        )
        return add_refinement(Value(result_type, UNKNOWN), product_bounds)
    if prod(longest) > MAX_PRODUCT:
        raise FunctionProblem(f"the product has more than {MAX_PRODUCT} elements")
    factors: list[list[Value]] = []
    for operand, element_type in zip(sets, row_type.elements, strict=True):
        factors.append([convert_value(item, element_type) for item in operand.raw])
    rows = [Value(row_type, row) for row in product(*factors)]
    return (
        build_set(rows, row_type)
        if isinstance(result_type, SetType)
        else Value(result_type, tuple(rows))
    )


def _compute_length_bounds(sequence: Value) -> tuple[int, int | None]:
    """Return the least and greatest length (None: no limit).

    Unknown elements of a set may be equal to others.
    """
    if isinstance(sequence.type, TupleType):
        return len(sequence.type.elements), len(sequence.type.elements)
    refinement = get_refinement(sequence)
    return refinement.shortest, refinement.longest


def _build_set_function(
    name: str, description: str, body: Callable[..., Value], *examples: Example
) -> Function:
    first_set = Parameter("first_set", _ANY_SET, "a set")
    other_sets = Parameter("other_sets", _ANY_SET, "further sets")
    return Function(
        name, description, (first_set,), _find_common_type, body, examples, variadic=other_sets
    )


FUNCTIONS: Final = (
    _build_set_function(
        "setintersection",
        "The elements in all of the sets.",
        partial(_combine_sets, lambda a, b: {k: v for k, v in a.items() if k in b}),
        Example('setintersection(["a", "b"], ["b", "c"])', 'toset(["b"])'),
    ),
    Function(
        "setproduct",
        "Every combination of one element from each of the lists or sets.",
        (),
        _find_product_type,
        _compute_cartesian_product,
        (Example('setproduct(["a", "b"], [1, 2])[2]', '["b", 1]'),),
        Parameter(
            "sets", DYNAMIC, "lists or sets, two or more", allow_unknown=True, inner_marks=True
        ),
    ),
    Function(
        "setsubtract",
        "The elements of the first set without those of the second.",
        (Parameter("a", _ANY_SET, "a set"), Parameter("b", _ANY_SET, "the elements to remove")),
        _find_common_type,
        partial(_combine_sets, lambda a, b: {k: v for k, v in a.items() if k not in b}),
        (Example('setsubtract(["a", "b", "c"], ["a", "c"])', 'toset(["b"])'),),
    ),
    _build_set_function(
        "setunion",
        "The elements in any of the sets.",
        _compute_union,
        Example('setunion(["a", "b"], ["b", "c"])', 'toset(["a", "b", "c"])'),
    ),
)
