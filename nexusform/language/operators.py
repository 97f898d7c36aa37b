"""Operators on values, and access to parts of a value: `.name` and `[key]`, with messages for errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, suggest_name
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.conversion import convert_value
from nexusform.language.unification import compare_values
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
    describe_type,
)
from nexusform.values.exact_numbers import compute_quotient, compute_remainder, normalize_number
from nexusform.values.value import DYNAMIC_UNKNOWN, FALSE, NO_MARKS, NOT_NULL, TRUE, UNKNOWN, Value, get_refinement


class OperationProblem(Exception):
    """Operation without a result; `message` is a clause without a full stop, `kind` a diagnostic id."""

    def __init__(self, message: str, kind: str = "operation-failed") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


def _compute_quotient(left: Any, right: Any) -> Any:
    if right == 0:
        raise OperationProblem("division by zero", "division-by-zero")
    if left.__class__ is int and right.__class__ is int and left % right == 0:
        return left // right
    return compute_quotient(left, right)


def _compute_remainder(left: Any, right: Any) -> Any:
    if right == 0:
        raise OperationProblem("division by zero", "division-by-zero")
    return compute_remainder(left, right)


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: normalize_number(a + b),
    "-": lambda a, b: normalize_number(a - b),
    "*": lambda a, b: normalize_number(a * b),
    "/": _compute_quotient,
    "%": _compute_remainder,
}

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def get_operand_type(operator: str) -> PrimitiveType | None:
    """Return the type that both operands are converted to; None if any is accepted."""
    if operator in {"==", "!="}:
        return None
    return BOOL if operator in {"&&", "||", "!"} else NUMBER


def get_result_type(operator: str) -> PrimitiveType:
    """Return the type of the result."""
    return NUMBER if operator in _ARITHMETIC else BOOL


def apply_binary(operator: str, left: Value, right: Value) -> Value:
    """Compute `left operator right`, both of the operand type. Raises OperationProblem."""
    if operator == "==":
        return compare_values(left, right)
    if operator == "!=":
        return apply_unary("!", compare_values(left, right))
    marks = left.marks | right.marks
    first, second = left.raw, right.raw
    if first is None or second is None:
        raise OperationProblem("argument must not be null")
    if operator in {"&&", "||"}:
        return _apply_logical(operator, first, second).add_marks(marks)
    if first is UNKNOWN or second is UNKNOWN:
        certain_result = _compare_bounds(operator, left, right) if operator in _COMPARISONS else None
        if certain_result is not None:
            return (TRUE if certain_result else FALSE).add_marks(marks)
        return Value(get_result_type(operator), UNKNOWN, marks, NOT_NULL)
    if operator in _COMPARISONS:
        return (TRUE if _COMPARISONS[operator](first, second) else FALSE).add_marks(marks)
    try:
        return Value(NUMBER, _ARITHMETIC[operator](first, second), marks)
    except OverflowError:
        raise OperationProblem("the result has too many digits") from None


def _compare_bounds(operator: str, left: Value, right: Value) -> bool | None:
    # Compares known bounds of numbers: the result is the same for all values between them. A null is an
    # error.
    left_bounds, right_bounds = get_refinement(left), get_refinement(right)
    if operator in {">", ">="}:
        left_bounds, right_bounds = right_bounds, left_bounds
    compare = _COMPARISONS["<" if operator in {"<", ">"} else "<="]
    if (
        left_bounds.highest is not None
        and right_bounds.lowest is not None
        and compare(left_bounds.highest, right_bounds.lowest)
    ):
        return True
    if (
        left_bounds.lowest is not None
        and right_bounds.highest is not None
        and not compare(left_bounds.lowest, right_bounds.highest)
    ):
        return False
    return None


def _apply_logical(operator: str, first: Any, second: Any) -> Value:
    decisive = operator == "||"
    if first is decisive or second is decisive:
        return TRUE if decisive else FALSE
    if first is UNKNOWN or second is UNKNOWN:
        return Value(BOOL, UNKNOWN, NO_MARKS, NOT_NULL)
    return FALSE if decisive else TRUE


def apply_unary(operator: str, operand: Value) -> Value:
    """Compute `-x` or `!x`, with an operand of the operand type. Raises OperationProblem."""
    raw = operand.raw
    if raw is None:
        raise OperationProblem("argument must not be null")
    if raw is UNKNOWN:
        return Value(operand.type, UNKNOWN, operand.marks, NOT_NULL)
    if operator == "!":
        return (FALSE if raw else TRUE).add_marks(operand.marks)
    return Value(NUMBER, -raw, operand.marks)


_NO_ELEMENT: Final = "The given key does not identify an element in this collection value"


def get_attribute(value: Value, name: str) -> Value | Problem:
    """Return `value.name`."""
    raw = value.raw
    if raw.__class__ is dict:
        member: Value | None = raw.get(name)
        if member is not None:
            return member.add_marks(value.marks) if value.marks else member
    value_type = value.type
    if raw is None:
        return Problem(
            (),
            "attempt-to-get-attribute-from-null-value",
            f'This value is null, so it does not have any attributes; "{name}" cannot be read from it.',
        )
    if value_type is DYNAMIC:
        return DYNAMIC_UNKNOWN.add_marks(value.marks)
    if isinstance(value_type, ObjectType):
        attribute_type = value_type.get_attribute(name)
        if attribute_type is not None:
            return Value(attribute_type, UNKNOWN, value.marks)
        return _report_missing_attribute(name, [] if value.marks else [n for n, _ in value_type.attributes])
    if isinstance(value_type, MapType):
        if raw is UNKNOWN:
            return Value(value_type.element, UNKNOWN, value.marks)
        hint = "" if value.marks else suggest_name(name, raw)
        return Problem((), "missing-map-element", f'This map does not have an element with the key "{name}".{hint}')
    return Problem((), "unsupported-attribute", _describe_unsupported(value_type, name))


def _report_missing_attribute(name: str, names: list[str]) -> Problem:
    hint = suggest_name(name, names) or _format_list("Its attributes are", names)
    return Problem((), "unsupported-attribute", f'This object does not have an attribute named "{name}".{hint}')


def _describe_unsupported(value_type: Type, name: str) -> str:
    """Return why values of a type have no attribute."""
    if isinstance(value_type, PrimitiveType):
        return f"Can't access attributes on a primitive-typed value ({value_type.name})."
    kind = {ListType: "list", SetType: "set", TupleType: "tuple"}[value_type.__class__]
    element = value_type.element if isinstance(value_type, (ListType, SetType)) else None
    advice = "access an attribute across all elements of it, as in value[*].name"
    if isinstance(element, ObjectType) and isinstance(value_type, SetType):
        return f"Can't access attributes on a set of objects. Did you mean to {advice}?"
    if isinstance(element, ObjectType) or isinstance(value_type, TupleType):
        return (
            f'Can\'t access attribute "{name}" on a {kind}. Did you mean to access it for a specific '
            f"element of the {kind}, as in value[0].{name}, or across all elements, as in value[*].{name}?"
        )
    return "This value does not have any attributes."


def _format_list(lead: str, names: list[str]) -> str:
    if not names:
        return ""
    listed_names = ", ".join(f'"{n}"' for n in names[:12])
    return f" {lead} {listed_names}{' and more' if len(names) > 12 else ''}."


def get_element(value: Value, key: Value) -> Value | Problem:
    """Return `value[key]`."""
    marks = value.marks | key.marks
    if value.raw is None:
        return Problem((), "attempt-to-index-null-value", "This value is null, so it does not have any indices.")
    if key.raw is None:
        return Problem((), "invalid-index", "Can't use a null value as an indexing key.")
    if value.type is DYNAMIC:
        return DYNAMIC_UNKNOWN.add_marks(marks)
    outcome = _get_element_by_type(value, key)
    return outcome if isinstance(outcome, Problem) else outcome.add_marks(marks)


def _get_element_by_type(value: Value, key: Value) -> Value | Problem:
    """Return an element of a value that is not null, according to its type."""
    value_type = value.type
    if isinstance(value_type, (ListType, TupleType)):
        return _get_sequence_element(value, key)
    if isinstance(value_type, (MapType, ObjectType)):
        return _get_map_entry(value, key)
    if isinstance(value_type, SetType):
        return Problem(
            (),
            "invalid-index",
            "Elements of a set are identified only by their value and don't have any separate index or key "
            "to select with, so it's only possible to perform operations across all elements of the set.",
        )
    return Problem((), "invalid-index", "This value does not have any indices.")


def _get_sequence_element(value: Value, key: Value) -> Value | Problem:
    """Return the element of a list or tuple at a position."""
    value_type = value.type
    try:
        position = convert_value(key, NUMBER).raw
    except ConversionProblem as problem:
        return Problem((), "invalid-index", f"{_NO_ELEMENT}: {problem.message}.")
    if position is UNKNOWN:
        return Value(value_type.element, UNKNOWN) if isinstance(value_type, ListType) else DYNAMIC_UNKNOWN
    if not isinstance(position, int):
        reason = "indexing a sequence requires a whole number, but the given index has a fractional part"
        return Problem((), "invalid-index", f"{_NO_ELEMENT}: {reason}.")
    if position < 0:
        reason = "a negative number is not a valid index for a sequence"
        return Problem((), "invalid-index", f"{_NO_ELEMENT}: {reason}.")
    if isinstance(value_type, ListType) and value.raw is UNKNOWN:
        return Value(value_type.element, UNKNOWN)
    length = len(value_type.elements) if isinstance(value_type, TupleType) else len(value.raw)
    if position >= length:
        is_sensitive = bool(key.marks or value.marks)
        reason = "the index is past the end of the collection" if is_sensitive else _describe_range(position, length)
        return Problem((), "invalid-index", f"{_NO_ELEMENT}: {reason}.")
    if value.raw is UNKNOWN:
        assert isinstance(value_type, TupleType)
        return Value(value_type.elements[position], UNKNOWN)
    element: Value = value.raw[position]
    return element


def _describe_range(position: int, length: int) -> str:
    if length == 0:
        return "the collection has no elements"
    last = "only the index 0 exists" if length == 1 else f"the indices are 0 to {length - 1}"
    count = "1 element" if length == 1 else f"{length} elements"
    return f"the index {position} is past the end of a collection of {count} ({last})"


def _get_map_entry(value: Value, key: Value) -> Value | Problem:
    value_type = value.type
    try:
        name = convert_value(key, STRING).raw
    except ConversionProblem as problem:
        return Problem((), "invalid-index", f"{_NO_ELEMENT}: {problem.message}.")
    if isinstance(value_type, MapType) and (value.raw is UNKNOWN or name is UNKNOWN):
        return Value(value_type.element, UNKNOWN)
    if name is UNKNOWN:
        return DYNAMIC_UNKNOWN
    if value.raw is UNKNOWN:
        assert isinstance(value_type, ObjectType)
        attribute_type = value_type.get_attribute(name)
        if attribute_type is not None:
            return Value(attribute_type, UNKNOWN)
        names = [n for n, _ in value_type.attributes]
    elif name in value.raw:
        entry: Value = value.raw[name]
        return entry
    else:
        names = list(value.raw)
    displayed_key = '"(sensitive)"' if key.marks else f'"{name}"'
    is_sensitive = bool(key.marks or value.marks)
    hint = "" if is_sensitive else suggest_name(name, names) or _format_list("Its keys are", names)
    return Problem(
        (), "invalid-index", f"{_NO_ELEMENT}: there is no {displayed_key} in this {describe_type(value_type)}.{hint}"
    )
