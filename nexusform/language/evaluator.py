"""The tree to a value: `evaluate` gives an expression its value in a scope."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final

from nexusform.diagnostics import Diagnostic, Problem, ValueNote, error, has_errors
from nexusform.exact_numbers import normalised, number_from_decimal
from nexusform.language.calls import call_function
from nexusform.language.comprehension import for_object, for_tuple, splat, splat_element, template_for
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluation import ExpressionRun, Handler, Scope, Trace, Tracing, bounded
from nexusform.language.operators import (
    OperationProblem,
    apply_binary,
    apply_unary,
    index,
    operand_type,
    result_type,
)
from nexusform.language.syntax import nodes as syntax
from nexusform.language.templates import conditional, template, template_if
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import BOOL, DYNAMIC, NUMBER, STRING
from nexusform.values import (
    DYNAMIC_UNKNOWN,
    FALSE,
    NO_MARKS,
    NOT_NULL,
    NULL,
    TRUE,
    UNKNOWN,
    Value,
    object_value,
    tuple_value,
)

__all__ = ["Scope", "Trace", "evaluate", "notes_on", "traced"]


def evaluate(expression: syntax.Expression, scope: Scope) -> tuple[Value, list[Diagnostic]]:
    """The value of an expression and everything that was wrong with it.

    After an error the value is unknown, of the open type unless the expression's own is plain.
    """
    run = ExpressionRun(scope, _HANDLERS)
    try:
        return run.value(expression), run.diagnostics
    except MemoryError:
        detail = (
            "The expression produces more elements or text than a configuration can reasonably need. "
            "Look for nested `for` expressions over large collections, and split it up."
        )
        run.diagnostics.append(error("expression-too-large", detail, expression.span))
    except RecursionError:
        detail = "The expression or the value it makes is nested too deeply. Split it up with local values."
        run.diagnostics.append(error("expression-too-deeply-nested", detail, expression.span))
    return DYNAMIC_UNKNOWN, run.diagnostics


def traced(expression: syntax.Expression, scope: Scope) -> tuple[Trace, list[Diagnostic]]:
    """What an expression and each of its parts came to, and everything that was wrong with it."""
    run = Tracing(scope, _HANDLERS, expression)
    try:
        run.value(expression)
    except (MemoryError, RecursionError):
        return Trace(expression), evaluate(expression, scope)[1]
    return run.at.parts[0], run.diagnostics


def notes_on(expression: syntax.Expression, scope: Scope) -> tuple[ValueNote, ...]:
    """What the references of an expression stand for, to be shown beside it."""
    return ExpressionRun(scope, _HANDLERS).notes(expression)


# --- literals ----------------------------------------------------------------------------------


def _literal(node: syntax.Literal, run: ExpressionRun) -> Value:
    value = node.value
    if value.__class__ is bool:
        return TRUE if value else FALSE
    if value is None:
        return NULL
    try:
        return _number(value)
    except OverflowError:
        detail = "The number has too many digits: at most 4000 may stand before or after the point."
        return run.problem("number-too-large", detail, node)


@lru_cache(maxsize=1024)
def _number(number: Decimal | int) -> Value:
    return Value(NUMBER, number_from_decimal(number) if isinstance(number, Decimal) else normalised(number))


def _string_literal(node: syntax.StringLiteral, _run: ExpressionRun) -> Value:
    return Value(STRING, node.value)


def _template_wrap(node: syntax.TemplateWrap, run: ExpressionRun) -> Value:
    return run.value(node.wrapped)


def _parentheses(node: syntax.Parentheses, run: ExpressionRun) -> Value:
    return run.value(node.inner)


# --- references --------------------------------------------------------------------------------


def _traversal(node: syntax.Traversal, run: ExpressionRun) -> Value:
    return run.traverse(node)


def _relative_traversal(node: syntax.RelativeTraversal, run: ExpressionRun) -> Value:
    return run.follow(run.value(node.source), node.steps, node)


def _index(node: syntax.Index, run: ExpressionRun) -> Value:
    before = len(run.diagnostics)
    collection, key = run.value(node.collection), run.value(node.key)
    if run.failed_since(before):
        return DYNAMIC_UNKNOWN
    outcome = index(collection, key)
    if isinstance(outcome, Problem):
        at = node.key if outcome.id == "invalid-index" else node.collection
        return run.problem(outcome.id, outcome.detail, at, node)
    return outcome


# --- operators ---------------------------------------------------------------------------------


def _unary(node: syntax.Unary, run: ExpressionRun) -> Value:
    before = len(run.diagnostics)
    operand = run.value(node.operand)
    required = operand_type(node.operator) or DYNAMIC
    failed = Value(required, UNKNOWN, operand.marks)
    if run.failed_since(before):
        return failed
    try:
        return apply_unary(node.operator, convert(operand, required))
    except ConversionProblem as problem:
        detail = f"Unsuitable value for unary operand: {describe(problem)}."
        run.problem("invalid-operand", detail, node.operand, node)
    except OperationProblem as problem:
        run.problem(problem.kind, f"Error during operation: {problem.message}.", node)
    return failed


def _operand(
    node: syntax.Binary, expression: syntax.Expression, side: str, run: ExpressionRun
) -> tuple[Value, list[Diagnostic]]:
    # The value as the operator takes it and the errors in it. That it is of the wrong type is told at once.
    value, problems = run.attempt(expression)
    required = operand_type(node.operator)
    if required is None or value.type is required:
        return value, problems
    try:
        return convert(value, required), problems
    except ConversionProblem as problem:
        detail = f"Unsuitable value for {side} operand: {describe(problem)}."
        run.problem("invalid-operand", detail, expression, node)
        return Value(required, UNKNOWN, value.marks), problems


def _binary(node: syntax.Binary, run: ExpressionRun) -> Value:
    """An operation on two values. One side may settle `&&` and `||`, and then the other does not count."""
    before = len(run.diagnostics)
    left, left_problems = _operand(node, node.left, "left", run)
    right, right_problems = _operand(node, node.right, "right", run)
    marks = left.marks | right.marks
    failed = len(run.diagnostics) > before
    decisive = _DECISIVE.get(node.operator)
    if decisive is not None and not failed:
        left_failed, right_failed = has_errors(left_problems), has_errors(right_problems)
        if left.raw is decisive and not left_failed:
            run.diagnostics.extend(left_problems)
            return left.with_marks(marks)
        if right.raw is decisive and not right_failed:
            # The right side settles it, so what is wrong or unknown on the left does not matter.
            run.diagnostics.extend(right_problems)
            return right.with_marks(marks)
        if not left_failed and _may_be_settled(left, right, right_failed=right_failed):
            return _UNDECIDED.with_marks(marks)
    problems = left_problems + right_problems
    run.diagnostics.extend(problems)
    if failed or has_errors(problems):
        return Value(result_type(node.operator), UNKNOWN, marks)
    try:
        return apply_binary(node.operator, left, right)
    except OperationProblem as problem:
        run.problem(problem.kind, f"Error during operation: {problem.message}.", node)
        return Value(result_type(node.operator), UNKNOWN, marks)


_DECISIVE: Final = {"&&": False, "||": True}
_UNDECIDED: Final = Value(BOOL, UNKNOWN, refinement=NOT_NULL)


def _may_be_settled(left: Value, right: Value, *, right_failed: bool) -> bool:
    # Whether one side, once it is known, may make up for what the other is: the left one for an error or
    # a null, the right one for a null. An error on the left is told, as in HCL.
    if left.raw is UNKNOWN:
        return right_failed or right.raw is None
    return left.raw is None and right.raw is UNKNOWN and not right_failed


# --- constructors ------------------------------------------------------------------------------


def _tuple_cons(node: syntax.TupleCons, run: ExpressionRun) -> Value:
    run.charge(len(node.items))
    return bounded(tuple_value([run.value(item) for item in node.items]))


def _object_cons(node: syntax.ObjectCons, run: ExpressionRun) -> Value:
    run.charge(len(node.items))
    items: dict[str, Value] = {}
    marks = NO_MARKS
    known = True
    for key, expression in node.items:
        name = _key_text(key, run, node)
        value = run.value(expression)
        if name is None or name.raw is UNKNOWN:
            known = False
            continue
        marks |= name.marks
        items[name.raw] = value
    if not known:
        return DYNAMIC_UNKNOWN.with_marks(marks)
    return bounded(object_value(items)).with_marks(marks)


def _key_text(key: syntax.ObjectKey, run: ExpressionRun, whole: syntax.ObjectCons) -> Value | None:
    # The name of an item as a string Value; None after a diagnostic.
    expression = key.expression
    if key.bare and isinstance(expression, syntax.Traversal) and not expression.steps:
        return Value(STRING, expression.root.name)
    if key.is_ambiguous:
        detail = (
            "If this expression is intended to be a reference, wrap it in parentheses. If it's instead "
            "intended as a literal name containing periods, wrap it in quotes to create a string literal."
        )
        run.problem("ambiguous-attribute-key", detail, expression.span)
        return None
    if isinstance(expression, syntax.Literal) and expression.value is None:
        return Value(STRING, "null")
    before = len(run.diagnostics)
    value = run.value(expression)
    if run.failed_since(before):
        return None
    if value.raw is None:
        run.problem("null-value-as-key", "Can't use a null value as a key.", expression, whole)
        return None
    try:
        return convert(value, STRING)
    except ConversionProblem as problem:
        detail = f"Can't use this value as a key: {describe(problem)}."
        run.problem("incorrect-key-type", detail, expression, whole)
        return None


_HANDLERS: Final[Mapping[type, Handler]] = {
    syntax.Literal: _literal,
    syntax.StringLiteral: _string_literal,
    syntax.Template: template,
    syntax.TemplateWrap: _template_wrap,
    syntax.TemplateIf: template_if,
    syntax.TemplateFor: template_for,
    syntax.Traversal: _traversal,
    syntax.RelativeTraversal: _relative_traversal,
    syntax.Index: _index,
    syntax.Splat: splat,
    syntax.SplatElement: splat_element,
    syntax.Unary: _unary,
    syntax.Binary: _binary,
    syntax.Conditional: conditional,
    syntax.Call: call_function,
    syntax.TupleCons: _tuple_cons,
    syntax.ObjectCons: _object_cons,
    syntax.ForTuple: for_tuple,
    syntax.ForObject: for_object,
    syntax.Parentheses: _parentheses,
}
