"""Calls of functions: `max(a, b...)`."""

from __future__ import annotations

from functools import partial

from nexusform.diagnostics import Diagnostic, TextLine, did_you_mean, text_line
from nexusform.language.evaluation import CALL_UNITS, ExpressionRun
from nexusform.language.functions.function import (
    Function,
    FunctionProblem,
    Thunk,
    call,
    converted_argument,
    signature,
    without_secrets,
)
from nexusform.language.syntax.nodes import Call, Expression
from nexusform.value_types import DYNAMIC, ListType, SetType, TupleType
from nexusform.values import DYNAMIC_UNKNOWN, NO_MARKS, UNKNOWN, Value


def call_function(node: Call, run: ExpressionRun) -> Value:
    """The value of a call; what is wrong with its arguments is told at them."""
    # `core::` names the functions of the language, as distinct from those of a provider.
    function = run.scope.functions.get(node.name.removeprefix("core::"))
    if function is None:
        hint = did_you_mean(node.name, run.scope.functions)
        detail = f'There is no function named "{node.name}".{hint}'
        return run.problem("call-to-unknown-function", detail, node.name_span, node)
    if function.lazy:
        return _call_lazily(node, function, run)
    before = len(run.diagnostics)
    places: list[Expression] = list(node.arguments)
    arguments = [run.value(a) for a in node.arguments]
    marks = NO_MARKS
    if node.expand:
        expanded = _expanded(node, function, arguments[-1], run)
        if expanded is None or expanded.raw is UNKNOWN:
            return DYNAMIC_UNKNOWN.with_marks(arguments[-1].marks)
        marks = expanded.marks
        arguments[-1:] = expanded.raw
        places[-1:] = [node.arguments[-1]] * len(expanded.raw)
    if not _count_fits(node, function, len(arguments), run):
        return DYNAMIC_UNKNOWN
    if run.failed_since(before):
        return DYNAMIC_UNKNOWN
    return _invoke(node, function, arguments, places, run).with_marks(marks)


def _expanded(node: Call, function: Function, last: Value, run: ExpressionRun) -> Value | None:
    """What `...` stands behind, as a sequence; None, and a problem, for anything else."""
    if last.raw is None:
        detail = "The expanding argument (indicated by ...) must not be null."
    elif last.type is DYNAMIC or isinstance(last.type, (ListType, SetType, TupleType)):
        return last
    else:
        detail = "The expanding argument (indicated by ...) must be of a tuple, list, or set type."
    at = node.arguments[-1]
    run.problem("invalid-expanding-argument-value", detail, at, node, function=signature(function))
    return None


def _count_fits(node: Call, function: Function, count: int, run: ExpressionRun) -> bool:
    expected = len(function.parameters)
    if count < expected:
        at_least = "at least " if function.variadic else ""
        missing = function.parameters[count].name
        detail = (
            f'Function "{node.name}" expects {at_least}{expected} argument(s). Missing value for "{missing}".'
        )
        run.problem("not-enough-function-arguments", detail, node, function=signature(function))
        return False
    if count > expected and function.variadic is None:
        detail = f'Function "{node.name}" expects only {expected} argument(s).'
        position = min(expected, len(node.arguments) - 1)
        run.problem(
            "too-many-function-arguments",
            detail,
            node.arguments[position],
            node,
            function=signature(function),
        )
        return False
    return True


def _line(arguments: list[Value], problem: FunctionProblem) -> TextLine | None:
    """The line at fault of an argument that is text of several lines."""
    argument = arguments[problem.argument or 0]
    return text_line(argument.raw, problem.line) if problem.line else None


def _invoke(
    node: Call, function: Function, arguments: list[Value], places: list[Expression], run: ExpressionRun
) -> Value:
    """What a function gives; `places` are the expressions at which problems of its arguments are said."""
    try:
        converted = [converted_argument(function, i, a) for i, a in enumerate(arguments)]
        result = call(function, converted)
    except FunctionProblem as caught:
        problem = without_secrets(caught, arguments)
        if problem.argument is not None and problem.argument < len(places):
            name = function.parameter(problem.argument).name
            detail = f'Invalid value for "{name}" parameter: {problem.message}.'
            at = places[problem.argument]
            more = {"function": signature(function), "line": _line(arguments, problem)}
            return run.problem("invalid-function-argument", detail, at, node, **more)
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.problem("error-in-function-call", detail, node, function=signature(function))
    run.charge(CALL_UNITS)
    run.charge_result(result)
    return result


def _evaluated(value: Value) -> tuple[Value, list[Diagnostic]]:
    """An argument that is a value already."""
    return value, []


def _call_lazily(node: Call, function: Function, run: ExpressionRun) -> Value:
    thunks: list[Thunk] = [partial(run.attempt, e) for e in node.arguments]
    if node.expand:
        # What is expanded is evaluated first: its mistakes are nobody's to forgive.
        before = len(run.diagnostics)
        last = run.value(node.arguments[-1])
        expanded = None if run.failed_since(before) else _expanded(node, function, last, run)
        if expanded is None or expanded.raw is UNKNOWN:
            return DYNAMIC_UNKNOWN.with_marks(last.marks)
        thunks[-1:] = [partial(_evaluated, each.with_marks(expanded.marks)) for each in expanded.raw]
        if not _count_fits(node, function, len(thunks), run):
            return DYNAMIC_UNKNOWN
    try:
        return function.body(*thunks)
    except FunctionProblem as problem:
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.problem("error-in-function-call", detail, node, function=signature(function))
