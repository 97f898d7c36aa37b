"""What the operators do to values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nexusform.language.conversion import equals
from nexusform.language.numbers import divide, normalised, remainder
from nexusform.refinements import NOT_NULL
from nexusform.value_types import BOOL, NUMBER, PrimitiveType
from nexusform.values import FALSE, NO_MARKS, TRUE, UNKNOWN, Value, refinement_of


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
    # What bounds of numbers say already: an answer that no value between them changes.
    one, other = refinement_of(left), refinement_of(right)
    if not (one.not_null and other.not_null):
        return None
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
