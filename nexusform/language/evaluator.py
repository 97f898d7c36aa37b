"""Evaluation of expressions: `evaluate_expression` returns the value in a scope."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, ValueNote, build_error, has_errors
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.comprehension import (
    evaluate_for_object,
    evaluate_for_tuple,
    evaluate_splat,
    evaluate_template_for,
    get_splat_element,
)
from nexusform.language.conversion import convert_value, describe_problem
from nexusform.language.evaluation_run import EvaluationTrace, ExpressionRun, Handler, Scope, TracingRun, check_size
from nexusform.language.operators import (
    OperationProblem,
    apply_binary,
    apply_unary,
    get_element,
    get_operand_type,
    get_result_type,
)
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.template_evaluation import evaluate_conditional, evaluate_template, evaluate_template_if
from nexusform.schemas.value_types import BOOL, DYNAMIC, NUMBER, STRING
from nexusform.values.exact_numbers import convert_decimal, normalize_number
from nexusform.values.value import (
    DYNAMIC_UNKNOWN,
    FALSE,
    NO_MARKS,
    NOT_NULL,
    NULL,
    TRUE,
    UNKNOWN,
    Value,
    build_object,
    build_tuple,
)

__all__ = ["EvaluationTrace", "Scope", "build_value_notes", "evaluate_expression", "trace_expression"]


def evaluate_expression(expression: syntax.Expression, scope: Scope) -> tuple[Value, list[Diagnostic]]:
    """Evaluate an expression. Return its value and all problems.

    After an error the value is unknown, of the open type unless the expression's own type is fixed.
    """
    run = ExpressionRun(scope, _HANDLERS)
    try:
        return run.evaluate(expression), run.diagnostics
    except MemoryError:
        detail = (
            "The expression produces more elements or text than a configuration can reasonably need. "
            "Look for nested `for` expressions over large collections, and split it up."
        )
        run.diagnostics.append(build_error("expression-too-large", detail, expression.span))
    except RecursionError:
        detail = "The expression or the value it makes is nested too deeply. Split it up with local values."
        run.diagnostics.append(build_error("expression-too-deeply-nested", detail, expression.span))
    return DYNAMIC_UNKNOWN, run.diagnostics


def trace_expression(expression: syntax.Expression, scope: Scope) -> tuple[EvaluationTrace, list[Diagnostic]]:
    """Evaluate an expression and return the trace with all problems."""
    run = TracingRun(scope, _HANDLERS, expression)
    try:
        run.evaluate(expression)
    except (MemoryError, RecursionError):
        return EvaluationTrace(expression), evaluate_expression(expression, scope)[1]
    return run.current.parts[0], run.diagnostics


def build_value_notes(expression: syntax.Expression, scope: Scope) -> tuple[ValueNote, ...]:
    """Build the notes of an expression: the values of its references."""
    return ExpressionRun(scope, _HANDLERS).build_notes(expression)


# --- literals ----------------------------------------------------------------------------------


def _evaluate_literal(node: syntax.Literal, run: ExpressionRun) -> Value:
    value = node.value
    if value.__class__ is bool:
        return TRUE if value else FALSE
    if value is None:
        return NULL
    try:
        return _build_number(value)
    except OverflowError:
        detail = "The number has too many digits: at most 4000 are allowed before or after the point."
        return run.report_problem("number-too-large", detail, node)


@lru_cache(maxsize=1024)
def _build_number(number: Decimal | int) -> Value:
    return Value(NUMBER, convert_decimal(number) if isinstance(number, Decimal) else normalize_number(number))


def _evaluate_string(node: syntax.StringLiteral, _run: ExpressionRun) -> Value:
    return Value(STRING, node.value)


def _evaluate_template_wrap(node: syntax.TemplateWrap, run: ExpressionRun) -> Value:
    return run.evaluate(node.wrapped)


def _evaluate_parentheses(node: syntax.Parentheses, run: ExpressionRun) -> Value:
    return run.evaluate(node.inner)


# --- references --------------------------------------------------------------------------------


def _evaluate_traversal(node: syntax.Traversal, run: ExpressionRun) -> Value:
    return run.traverse(node)


def _evaluate_relative_traversal(node: syntax.RelativeTraversal, run: ExpressionRun) -> Value:
    return run.apply_steps(run.evaluate(node.source), node.steps, node)


def _evaluate_index(node: syntax.Index, run: ExpressionRun) -> Value:
    previous_count = len(run.diagnostics)
    collection, key = run.evaluate(node.collection), run.evaluate(node.key)
    if run.has_failed_since(previous_count):
        return DYNAMIC_UNKNOWN
    outcome = get_element(collection, key)
    if isinstance(outcome, Problem):
        node_at_fault = node.key if outcome.id == "invalid-index" else node.collection
        return run.report_problem(outcome.id, outcome.detail, node_at_fault, node)
    return outcome


# --- operators ---------------------------------------------------------------------------------


def _evaluate_unary(node: syntax.Unary, run: ExpressionRun) -> Value:
    previous_count = len(run.diagnostics)
    operand = run.evaluate(node.operand)
    required = get_operand_type(node.operator) or DYNAMIC
    unknown_result = Value(required, UNKNOWN, operand.marks)
    if run.has_failed_since(previous_count):
        return unknown_result
    try:
        return apply_unary(node.operator, convert_value(operand, required))
    except ConversionProblem as problem:
        detail = f"Unsuitable value for unary operand: {describe_problem(problem)}."
        run.report_problem("invalid-operand", detail, node.operand, node)
    except OperationProblem as problem:
        run.report_problem(problem.kind, f"Error during operation: {problem.message}.", node)
    return unknown_result


def _evaluate_operand(
    node: syntax.Binary, expression: syntax.Expression, side: str, run: ExpressionRun
) -> tuple[Value, list[Diagnostic]]:
    # Returns the value converted for the operator, and its errors. A wrong type is reported at once.
    value, problems = run.evaluate_separately(expression)
    required = get_operand_type(node.operator)
    if required is None or value.type is required:
        return value, problems
    try:
        return convert_value(value, required), problems
    except ConversionProblem as problem:
        detail = f"Unsuitable value for {side} operand: {describe_problem(problem)}."
        run.report_problem("invalid-operand", detail, expression, node)
        return Value(required, UNKNOWN, value.marks), problems


def _evaluate_binary(node: syntax.Binary, run: ExpressionRun) -> Value:
    """Evaluate a binary operation. If one side of `&&` or `||` decides the result, the other is ignored."""
    previous_count = len(run.diagnostics)
    left, left_problems = _evaluate_operand(node, node.left, "left", run)
    right, right_problems = _evaluate_operand(node, node.right, "right", run)
    marks = left.marks | right.marks
    has_failed = len(run.diagnostics) > previous_count
    decisive = _DECISIVE.get(node.operator)
    if decisive is not None and not has_failed:
        left_failed, right_failed = has_errors(left_problems), has_errors(right_problems)
        if left.raw is decisive and not left_failed:
            run.diagnostics.extend(left_problems)
            return left.add_marks(marks)
        if right.raw is decisive and not right_failed:
            # The right side decides, so an error or unknown value on the left is irrelevant.
            run.diagnostics.extend(right_problems)
            return right.add_marks(marks)
        if not left_failed and _may_be_decided(left, right, right_failed=right_failed):
            return _UNDECIDED.add_marks(marks)
    problems = left_problems + right_problems
    run.diagnostics.extend(problems)
    if has_failed or has_errors(problems):
        return Value(get_result_type(node.operator), UNKNOWN, marks)
    try:
        return apply_binary(node.operator, left, right)
    except OperationProblem as problem:
        run.report_problem(problem.kind, f"Error during operation: {problem.message}.", node)
        return Value(get_result_type(node.operator), UNKNOWN, marks)


_DECISIVE: Final = {"&&": False, "||": True}
_UNDECIDED: Final = Value(BOOL, UNKNOWN, refinement=NOT_NULL)


def _may_be_decided(left: Value, right: Value, *, right_failed: bool) -> bool:
    # Whether a known side decides the result although the other is an error (left side only) or null. As in
    # HCL, an error on the left is always reported.
    if left.raw is UNKNOWN:
        return right_failed or right.raw is None
    return left.raw is None and right.raw is UNKNOWN and not right_failed


# --- constructors ------------------------------------------------------------------------------


def _evaluate_tuple(node: syntax.TupleCons, run: ExpressionRun) -> Value:
    run.count_work(len(node.items))
    return check_size(build_tuple([run.evaluate(item) for item in node.items]))


def _evaluate_object(node: syntax.ObjectCons, run: ExpressionRun) -> Value:
    run.count_work(len(node.items))
    items: dict[str, Value] = {}
    marks = NO_MARKS
    is_known = True
    for key, expression in node.items:
        name = _evaluate_key(key, run, node)
        value = run.evaluate(expression)
        if name is None or name.raw is UNKNOWN:
            is_known = False
            continue
        marks |= name.marks
        items[name.raw] = value
    if not is_known:
        return DYNAMIC_UNKNOWN.add_marks(marks)
    return check_size(build_object(items)).add_marks(marks)


def _evaluate_key(key: syntax.ObjectKey, run: ExpressionRun, enclosing: syntax.ObjectCons) -> Value | None:
    # Returns the name of an item as a string Value; None after a diagnostic.
    expression = key.expression
    if key.bare and isinstance(expression, syntax.Traversal) and not expression.steps:
        return Value(STRING, expression.root.name)
    if key.is_ambiguous:
        detail = (
            "If this expression is intended to be a reference, wrap it in parentheses. If it's instead "
            "intended as a literal name containing periods, wrap it in quotes to create a string literal."
        )
        run.report_problem("ambiguous-attribute-key", detail, expression.span)
        return None
    if isinstance(expression, syntax.Literal) and expression.value is None:
        return Value(STRING, "null")
    previous_count = len(run.diagnostics)
    value = run.evaluate(expression)
    if run.has_failed_since(previous_count):
        return None
    if value.raw is None:
        run.report_problem("null-value-as-key", "Can't use a null value as a key.", expression, enclosing)
        return None
    try:
        return convert_value(value, STRING)
    except ConversionProblem as problem:
        detail = f"Can't use this value as a key: {describe_problem(problem)}."
        run.report_problem("incorrect-key-type", detail, expression, enclosing)
        return None


def _evaluate_call(expression: syntax.Call, run: ExpressionRun) -> Value:
    # loaded by the first call of a function
    from nexusform.language.calls import call_function

    return call_function(expression, run)


_HANDLERS: Final[Mapping[type, Handler]] = {
    syntax.Literal: _evaluate_literal,
    syntax.StringLiteral: _evaluate_string,
    syntax.Template: evaluate_template,
    syntax.TemplateWrap: _evaluate_template_wrap,
    syntax.TemplateIf: evaluate_template_if,
    syntax.TemplateFor: evaluate_template_for,
    syntax.Traversal: _evaluate_traversal,
    syntax.RelativeTraversal: _evaluate_relative_traversal,
    syntax.Index: _evaluate_index,
    syntax.Splat: evaluate_splat,
    syntax.SplatElement: get_splat_element,
    syntax.Unary: _evaluate_unary,
    syntax.Binary: _evaluate_binary,
    syntax.Conditional: evaluate_conditional,
    syntax.Call: _evaluate_call,
    syntax.TupleCons: _evaluate_tuple,
    syntax.ObjectCons: _evaluate_object,
    syntax.ForTuple: evaluate_for_tuple,
    syntax.ForObject: evaluate_for_object,
    syntax.Parentheses: _evaluate_parentheses,
}
