"""Operators: their evaluation, and their results for values, with messages for errors."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, has_errors
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.evaluation_run import ExpressionRun
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.language.type_unification import compare_values
from nexusform.schemas.value_types import BOOL, NUMBER, PrimitiveType
from nexusform.values.typed_value import (
    NOT_NULL,
    UNKNOWN,
    Value,
    build_boolean,
    compute_quotient,
    compute_remainder,
    get_refinement,
    normalize_number,
)


class OperationProblem(Exception):
    """Operation without a result; `message` is a clause without a full stop."""

    def __init__(self, message: str, diagnostic_id: str = "operation-failed") -> None:
        super().__init__(message)
        self.message = message
        self.diagnostic_id = diagnostic_id


def _compute_quotient(left: Any, right: Any) -> Any:
    """Compute `left / right`; whole numbers without a remainder need no fraction."""
    if left.__class__ is int and right.__class__ is int and left % right == 0:
        return left // right
    return compute_quotient(left, right)


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: normalize_number(a + b),
    "-": lambda a, b: normalize_number(a - b),
    "*": lambda a, b: normalize_number(a * b),
    "/": _compute_quotient,
    "%": compute_remainder,
}

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


# The type that operands are converted to; `==` and `!=` accept any.
_OPERAND_TYPES: Final[Mapping[str, PrimitiveType]] = {
    **dict.fromkeys(("&&", "||", "!"), BOOL),
    **dict.fromkeys((*_ARITHMETIC, *_COMPARISONS), NUMBER),
}


def get_result_type(operator: str) -> PrimitiveType:
    """Return the type of the result of an operator."""
    return NUMBER if operator in _ARITHMETIC else BOOL


def apply_binary_operator(operator: str, left: Value, right: Value) -> Value:
    """Compute `left operator right`.

    The operands are already converted to the type of the operator. The caller handles a false
    operand of `&&`, and a true one of `||`, because each decides alone. Raises OperationProblem.
    """
    if operator == "==":
        return compare_values(left, right)
    if operator == "!=":
        return apply_unary_operator("!", compare_values(left, right))
    marks = left.marks | right.marks
    first = left.raw
    second = right.raw
    if first is None or second is None:
        raise OperationProblem("argument must not be null")
    if first is UNKNOWN or second is UNKNOWN:
        certain_result = (
            _compare_refinement_bounds(operator, left, right) if operator in _COMPARISONS else None
        )
        # The known bounds decide.
        if certain_result is not None:
            return build_boolean(certain_result).add_marks(marks)
        return Value(get_result_type(operator), UNKNOWN, marks, NOT_NULL)
    # No side is decisive: both are true for `&&`, false for `||`.
    if operator in {"&&", "||"}:
        return build_boolean(operator == "&&").add_marks(marks)
    if operator in _COMPARISONS:
        return build_boolean(_COMPARISONS[operator](first, second)).add_marks(marks)
    if operator in {"/", "%"} and second == 0:
        raise OperationProblem("division by zero", "division-by-zero")
    try:
        return Value(NUMBER, _ARITHMETIC[operator](first, second), marks)
    except OverflowError:
        raise OperationProblem("the result has too many digits") from None


def _compare_refinement_bounds(operator: str, left: Value, right: Value) -> bool | None:
    """Compare numbers by their known bounds.

    Return the result if it is the same for all values, else None.
    """
    left_bounds = get_refinement(left)
    right_bounds = get_refinement(right)
    if operator in {">", ">="}:
        # A > b is b < a.
        left_bounds, right_bounds = right_bounds, left_bounds
    # `>` and `>=` are exchanged.
    compare = _COMPARISONS["<" if operator in {"<", ">"} else "<="]
    # None: no bound.
    left_lowest = left_bounds.lowest
    left_highest = left_bounds.highest
    right_lowest = right_bounds.lowest
    right_highest = right_bounds.highest
    if (
        left_highest is not None
        and right_lowest is not None
        and compare(left_highest, right_lowest)
    ):
        return True
    if (
        left_lowest is not None
        and right_highest is not None
        and not compare(left_lowest, right_highest)
    ):
        return False
    return None


def apply_unary_operator(operator: str, operand: Value) -> Value:
    """Compute `-x` or `!x`, for `x` of the operator's type (a number or a bool).

    Raises OperationProblem for null.
    """
    raw = operand.raw
    if raw is None:
        raise OperationProblem("argument must not be null")
    if raw is UNKNOWN:
        return Value(operand.type, UNKNOWN, operand.marks, refinement=NOT_NULL)
    if operator == "!":
        return build_boolean(not raw).add_marks(operand.marks)
    return Value(NUMBER, -raw, operand.marks)


def evaluate_unary(node: syntax.Unary, run: ExpressionRun) -> Value:
    """Evaluate a unary operation.

    Its value is unknown after an error.
    """
    previous_count = len(run.diagnostics)
    operand = run.evaluate(node.operand)
    required = _OPERAND_TYPES[node.operator]
    unknown_result = Value(required, UNKNOWN, operand.marks)
    if run.has_failed_since(previous_count):
        return unknown_result
    try:
        return apply_unary_operator(node.operator, convert_value(operand, required))
    except ConversionProblem as problem:
        detail = f"Unsuitable value for unary operand: {describe_problem(problem)}."
        run.report_problem("invalid-operand", detail, node.operand, node)
    except OperationProblem as problem:
        run.report_problem(
            problem.diagnostic_id, f"Error during operation: {problem.message}.", node
        )
    return unknown_result


def _evaluate_operand(
    node: syntax.Binary, expression: syntax.Expression, side: str, run: ExpressionRun
) -> tuple[Value, list[Diagnostic]]:
    """Return an operand's value and the problems of its evaluation, for the caller to report.

    A wrong type is reported here.
    """
    value, problems = run.evaluate_separately(expression)
    # None for `==` and `!=`: any type.
    required = _OPERAND_TYPES.get(node.operator)
    if required is None or value.type is required:
        return value, problems
    try:
        return convert_value(value, required), problems
    except ConversionProblem as problem:
        detail = f"Unsuitable value for {side} operand: {describe_problem(problem)}."
        run.report_problem("invalid-operand", detail, expression, node)
        return Value(required, UNKNOWN, value.marks), problems


def evaluate_binary(node: syntax.Binary, run: ExpressionRun) -> Value:
    """Evaluate a binary operation.

    If one side of `&&` or `||` decides the result, the other is ignored.
    """
    previous_count = len(run.diagnostics)
    left, left_problems = _evaluate_operand(node, node.left, "left", run)
    right, right_problems = _evaluate_operand(node, node.right, "right", run)
    marks = left.marks | right.marks
    # An operand has a wrong type.
    has_failed = len(run.diagnostics) > previous_count
    # False for `&&`, true for `||`, else None.
    decisive = _DECISIVE.get(node.operator)
    if decisive is not None and not has_failed:
        left_failed = has_errors(left_problems)
        right_failed = has_errors(right_problems)
        if left.raw is decisive and not left_failed:
            run.diagnostics.extend(left_problems)
            return left.add_marks(marks)
        if right.raw is decisive and not right_failed:
            # The right side decides, so an error or unknown value on the left is irrelevant.
            run.diagnostics.extend(right_problems)
            return right.add_marks(marks)
        if not left_failed and _may_be_decided_by_unknown_side(
            left, right, right_failed=right_failed
        ):
            # Unknown instead of an error.
            return _UNDECIDED.add_marks(marks)
    problems = left_problems + right_problems
    run.diagnostics.extend(problems)
    if has_failed or has_errors(problems):
        return Value(get_result_type(node.operator), UNKNOWN, marks)
    try:
        return apply_binary_operator(node.operator, left, right)
    except OperationProblem as problem:
        run.report_problem(
            problem.diagnostic_id, f"Error during operation: {problem.message}.", node
        )
        return Value(get_result_type(node.operator), UNKNOWN, marks)


_DECISIVE: Final = {"&&": False, "||": True}
_UNDECIDED: Final = Value(BOOL, UNKNOWN, refinement=NOT_NULL)


def _may_be_decided_by_unknown_side(left: Value, right: Value, *, right_failed: bool) -> bool:
    """Return whether `&&` or `||` is unknown instead of an error.

    It is unknown if its unknown side may decide the result. Without an unknown side it is an
    error: the other side is null, or the right side has failed. A failed left side is always
    reported, as in HCL.
    """
    if left.raw is UNKNOWN:
        return right_failed or right.raw is None
    return left.raw is None and right.raw is UNKNOWN and not right_failed
