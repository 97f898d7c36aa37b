"""What the operators do to values, and reaching into a value: `.name` and `[key]`, with the words for what
can go wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.exact_numbers import divide, normalised, remainder
from nexusform.language.conversion import convert
from nexusform.language.unification import equals
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import (
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
    friendly_name,
)
from nexusform.values import DYNAMIC_UNKNOWN, FALSE, NO_MARKS, NOT_NULL, TRUE, UNKNOWN, Value, refinement_of


class OperationProblem(Exception):
    """An operation without a result; `message` is a clause without a full stop, `kind` the id of the
    diagnostic.
    """

    def __init__(self, message: str, kind: str = "operation-failed") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise OperationProblem("division by zero", "division-by-zero")
    if left.__class__ is int and right.__class__ is int and left % right == 0:
        return left // right
    return divide(left, right)


def _remainder(left: Any, right: Any) -> Any:
    if right == 0:
        raise OperationProblem("division by zero", "division-by-zero")
    return remainder(left, right)


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: normalised(a + b),
    "-": lambda a, b: normalised(a - b),
    "*": lambda a, b: normalised(a * b),
    "/": _divide,
    "%": _remainder,
}

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def operand_type(operator: str) -> PrimitiveType | None:
    """The type that both operands are converted to; None when any will do."""
    if operator in {"==", "!="}:
        return None
    return BOOL if operator in {"&&", "||", "!"} else NUMBER


def result_type(operator: str) -> PrimitiveType:
    """The type of the result."""
    return NUMBER if operator in _ARITHMETIC else BOOL


def apply_binary(operator: str, left: Value, right: Value) -> Value:
    """`left operator right`, both of the operand type. Raises OperationProblem."""
    if operator == "==":
        return equals(left, right)
    if operator == "!=":
        return apply_unary("!", equals(left, right))
    marks = left.marks | right.marks
    first, second = left.raw, right.raw
    if first is None or second is None:
        raise OperationProblem("argument must not be null")
    if operator in {"&&", "||"}:
        return _logical(operator, first, second).with_marks(marks)
    if first is UNKNOWN or second is UNKNOWN:
        sure = _compared(operator, left, right) if operator in _COMPARISONS else None
        if sure is not None:
            return (TRUE if sure else FALSE).with_marks(marks)
        return Value(result_type(operator), UNKNOWN, marks, NOT_NULL)
    if operator in _COMPARISONS:
        return (TRUE if _COMPARISONS[operator](first, second) else FALSE).with_marks(marks)
    try:
        return Value(NUMBER, _ARITHMETIC[operator](first, second), marks)
    except OverflowError:
        raise OperationProblem("the result has too many digits") from None


def _compared(operator: str, left: Value, right: Value) -> bool | None:
    # What bounds of numbers say already: an answer that no value between them changes. A null is an error.
    one, other = refinement_of(left), refinement_of(right)
    if operator in {">", ">="}:
        one, other = other, one
    compare = _COMPARISONS["<" if operator in {"<", ">"} else "<="]
    if one.highest is not None and other.lowest is not None and compare(one.highest, other.lowest):
        return True
    if one.lowest is not None and other.highest is not None and not compare(one.lowest, other.highest):
        return False
    return None


def _logical(operator: str, first: Any, second: Any) -> Value:
    decisive = operator == "||"
    if first is decisive or second is decisive:
        return TRUE if decisive else FALSE
    if first is UNKNOWN or second is UNKNOWN:
        return Value(BOOL, UNKNOWN, NO_MARKS, NOT_NULL)
    return FALSE if decisive else TRUE


def apply_unary(operator: str, operand: Value) -> Value:
    """`-x` and `!x`, the operand of the operand type. Raises OperationProblem."""
    raw = operand.raw
    if raw is None:
        raise OperationProblem("argument must not be null")
    if raw is UNKNOWN:
        return Value(operand.type, UNKNOWN, operand.marks, NOT_NULL)
    if operator == "!":
        return (FALSE if raw else TRUE).with_marks(operand.marks)
    return Value(NUMBER, -raw, operand.marks)


_NOT_THERE: Final = "The given key does not identify an element in this collection value"


def attribute(value: Value, name: str) -> Value | Problem:
    """`value.name`."""
    raw = value.raw
    if raw.__class__ is dict:
        member: Value | None = raw.get(name)
        if member is not None:
            return member.with_marks(value.marks) if value.marks else member
    of = value.type
    if raw is None:
        return Problem(
            (),
            "attempt-to-get-attribute-from-null-value",
            f'This value is null, so it does not have any attributes; "{name}" cannot be read from it.',
        )
    if of is DYNAMIC:
        return DYNAMIC_UNKNOWN.with_marks(value.marks)
    if isinstance(of, ObjectType):
        kind = of.attribute(name)
        if kind is not None:
            return Value(kind, UNKNOWN, value.marks)
        return _no_attribute(name, [] if value.marks else [n for n, _ in of.attributes])
    if isinstance(of, MapType):
        if raw is UNKNOWN:
            return Value(of.element, UNKNOWN, value.marks)
        hint = "" if value.marks else did_you_mean(name, raw)
        return Problem(
            (), "missing-map-element", f'This map does not have an element with the key "{name}".{hint}'
        )
    return Problem((), "unsupported-attribute", _unsupported(of, name))


def _no_attribute(name: str, names: list[str]) -> Problem:
    hint = did_you_mean(name, names) or _listed("Its attributes are", names)
    return Problem(
        (), "unsupported-attribute", f'This object does not have an attribute named "{name}".{hint}'
    )


def _unsupported(of: Type, name: str) -> str:
    """Why values of a type have no attribute."""
    if isinstance(of, PrimitiveType):
        return f"Can't access attributes on a primitive-typed value ({of.name})."
    kind = {ListType: "list", SetType: "set", TupleType: "tuple"}[of.__class__]
    element = of.element if isinstance(of, (ListType, SetType)) else None
    across = "access an attribute across all elements of it, as in value[*].name"
    if isinstance(element, ObjectType) and isinstance(of, SetType):
        return f"Can't access attributes on a set of objects. Did you mean to {across}?"
    if isinstance(element, ObjectType) or isinstance(of, TupleType):
        return (
            f'Can\'t access attribute "{name}" on a {kind}. Did you mean to access it for a specific '
            f"element of the {kind}, as in value[0].{name}, or across all elements, as in value[*].{name}?"
        )
    return "This value does not have any attributes."


def _listed(lead: str, names: list[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(f'"{n}"' for n in names[:12])
    return f" {lead} {shown}{' and more' if len(names) > 12 else ''}."


def index(value: Value, key: Value) -> Value | Problem:
    """`value[key]`."""
    marks = value.marks | key.marks
    if value.raw is None:
        return Problem(
            (), "attempt-to-index-null-value", "This value is null, so it does not have any indices."
        )
    if key.raw is None:
        return Problem((), "invalid-index", "Can't use a null value as an indexing key.")
    if value.type is DYNAMIC:
        return DYNAMIC_UNKNOWN.with_marks(marks)
    outcome = _index_by_type(value, key)
    return outcome if isinstance(outcome, Problem) else outcome.with_marks(marks)


def _index_by_type(value: Value, key: Value) -> Value | Problem:
    """The part of a value that is not null, by what values of its type can be asked for."""
    of = value.type
    if isinstance(of, (ListType, TupleType)):
        return _element(value, key)
    if isinstance(of, (MapType, ObjectType)):
        return _entry(value, key)
    if isinstance(of, SetType):
        return Problem(
            (),
            "invalid-index",
            "Elements of a set are identified only by their value and don't have any separate index or key "
            "to select with, so it's only possible to perform operations across all elements of the set.",
        )
    return Problem((), "invalid-index", "This value does not have any indices.")


def _element(value: Value, key: Value) -> Value | Problem:
    """The element of a list or tuple at a number."""
    of = value.type
    try:
        position = convert(key, NUMBER).raw
    except ConversionProblem as problem:
        return Problem((), "invalid-index", f"{_NOT_THERE}: {problem.message}.")
    if position is UNKNOWN:
        return Value(of.element, UNKNOWN) if isinstance(of, ListType) else DYNAMIC_UNKNOWN
    if not isinstance(position, int):
        why = "indexing a sequence requires a whole number, but the given index has a fractional part"
        return Problem((), "invalid-index", f"{_NOT_THERE}: {why}.")
    if position < 0:
        why = "a negative number is not a valid index for a sequence"
        return Problem((), "invalid-index", f"{_NOT_THERE}: {why}.")
    if isinstance(of, ListType) and value.raw is UNKNOWN:
        return Value(of.element, UNKNOWN)
    length = len(of.elements) if isinstance(of, TupleType) else len(value.raw)
    if position >= length:
        hidden = bool(key.marks or value.marks)
        why = "the index is past the end of the collection" if hidden else _too_far(position, length)
        return Problem((), "invalid-index", f"{_NOT_THERE}: {why}.")
    if value.raw is UNKNOWN:
        assert isinstance(of, TupleType)
        return Value(of.elements[position], UNKNOWN)
    element: Value = value.raw[position]
    return element


def _too_far(position: int, length: int) -> str:
    if length == 0:
        return "the collection has no elements"
    last = "only the index 0 exists" if length == 1 else f"the indices are 0 to {length - 1}"
    count = "1 element" if length == 1 else f"{length} elements"
    return f"the index {position} is past the end of a collection of {count} ({last})"


def _entry(value: Value, key: Value) -> Value | Problem:
    """The entry of a map or object under a key."""
    of = value.type
    try:
        name = convert(key, STRING).raw
    except ConversionProblem as problem:
        return Problem((), "invalid-index", f"{_NOT_THERE}: {problem.message}.")
    if isinstance(of, MapType) and (value.raw is UNKNOWN or name is UNKNOWN):
        return Value(of.element, UNKNOWN)
    if name is UNKNOWN:
        return DYNAMIC_UNKNOWN
    if value.raw is UNKNOWN:
        assert isinstance(of, ObjectType)
        kind = of.attribute(name)
        if kind is not None:
            return Value(kind, UNKNOWN)
        names = [n for n, _ in of.attributes]
    elif name in value.raw:
        entry: Value = value.raw[name]
        return entry
    else:
        names = list(value.raw)
    shown = '"(sensitive)"' if key.marks else f'"{name}"'
    hidden = bool(key.marks or value.marks)
    hint = "" if hidden else did_you_mean(name, names) or _listed("Its keys are", names)
    return Problem(
        (), "invalid-index", f"{_NOT_THERE}: there is no {shown} in this {friendly_name(of)}.{hint}"
    )
