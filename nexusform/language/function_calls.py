"""Evaluation of function calls: `max(a, b...)`."""

from functools import partial

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, get_text_line, suggest_name
from nexusform.language.evaluation_run import CALL_UNITS, ExpressionRun
from nexusform.language.functions.function import (
    Function,
    FunctionProblem,
    Thunk,
    TypeParser,
    convert_argument,
    format_signature,
    invoke_function,
    redact_problem,
)
from nexusform.language.syntax.syntax_nodes import Call, Expression
from nexusform.schemas.value_types import DYNAMIC, ListType, SetType, TupleType
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, NO_MARKS, UNKNOWN, Value


def call_function(node: Call, run: ExpressionRun) -> Value:
    """Evaluate a call. Problems are reported at its arguments, and the value is then unknown."""
    # `core::` is the prefix of the functions of the language, as opposed to those of a provider.
    function = run.scope.functions.get(node.name.removeprefix("core::"))
    if function is None:
        hint = suggest_name(node.name, run.scope.functions)
        detail = f'There is no function named "{node.name}".{hint}'
        return run.report_problem("call-to-unknown-function", detail, node.name_span, node)
    if function.is_lazy:  # `try` or `can`
        return _call_with_unevaluated_arguments(node, function, run)
    if function.parse_type is not None:
        return _call_conversion(node, function, function.parse_type, run)
    before = len(run.diagnostics)
    argument_nodes: list[Expression] = list(node.arguments)
    arguments = [run.evaluate(a) for a in node.arguments]
    marks = NO_MARKS  # those of an expanded sequence itself
    if node.expand:  # `...` after the last argument: each element is an argument
        sequence = _check_expanded_argument(node, function, arguments[-1], run)
        if sequence is None or sequence.raw is UNKNOWN:  # None: no sequence, as reported
            return DYNAMIC_UNKNOWN.add_marks(arguments[-1].marks)
        marks = sequence.marks
        arguments[-1:] = sequence.raw
        argument_nodes[-1:] = [node.arguments[-1]] * len(sequence.raw)
    if not _is_argument_count_valid(node, function, len(arguments), run) or run.has_failed_since(before):
        return DYNAMIC_UNKNOWN
    return _invoke_function(node, function, arguments, argument_nodes, run).add_marks(marks)


def _call_conversion(node: Call, function: Function, parse_type: TypeParser, run: ExpressionRun) -> Value:
    """Call `convert`, with a value and a type expression as its arguments. Return an unknown value after an error."""
    if node.expand:
        detail = "A type cannot be an expanding argument (indicated by ...)."
        return run.report_problem("invalid-expanding-argument-value", detail, node.arguments[-1], node)
    if not _is_argument_count_valid(node, function, len(node.arguments), run):
        return DYNAMIC_UNKNOWN
    target, problems = parse_type(node.arguments[-1])
    before = len(run.diagnostics)
    value = run.evaluate(node.arguments[0])
    run.diagnostics += problems
    if target is None or run.has_failed_since(before):
        return DYNAMIC_UNKNOWN
    # The function for this type: the value is its only argument.
    body = partial(function.body, target)
    conversion = replace(function, parameters=function.parameters[:1], returns=target, body=body)
    return _invoke_function(node, conversion, [value], [node.arguments[0]], run)


def _check_expanded_argument(node: Call, function: Function, last: Value, run: ExpressionRun) -> Value | None:
    """Return the argument of `...`, a sequence or unknown; None, and a problem, for anything else."""
    if last.raw is None:
        detail = "The expanding argument (indicated by ...) must not be null."
    elif last.type is DYNAMIC or isinstance(last.type, (ListType, SetType, TupleType)):
        return last
    else:
        detail = "The expanding argument (indicated by ...) must be of a tuple, list, or set type."
    node_at_fault = node.arguments[-1]
    signature = format_signature(function)
    run.report_problem("invalid-expanding-argument-value", detail, node_at_fault, node, function=signature)
    return None


def _is_argument_count_valid(node: Call, function: Function, count: int, run: ExpressionRun) -> bool:
    """Check the number of arguments, after the expansion of `...`; report a wrong one."""
    expected = len(function.parameters)
    if count < expected:
        at_least = "at least " if function.variadic else ""
        missing = function.parameters[count].name
        detail = f'Function "{node.name}" expects {at_least}{expected} argument(s). Missing value for "{missing}".'
        run.report_problem("not-enough-function-arguments", detail, node, function=format_signature(function))
        return False
    if count > expected and function.variadic is None:
        detail = f'Function "{node.name}" expects only {expected} argument(s).'
        node_at_fault = node.arguments[min(expected, len(node.arguments) - 1)]  # the first surplus or the expanded one
        run.report_problem(
            "too-many-function-arguments", detail, node_at_fault, node, function=format_signature(function)
        )
        return False
    return True


def _invoke_function(
    node: Call, function: Function, arguments: list[Value], argument_nodes: list[Expression], run: ExpressionRun
) -> Value:
    """Invoke a function; `argument_nodes` are the expressions of its arguments, to report problems at them."""
    try:
        converted_arguments = [convert_argument(function, i, a) for i, a in enumerate(arguments)]
        result = invoke_function(function, converted_arguments)
    except FunctionProblem as original:
        problem = redact_problem(original, arguments)
        if problem.argument is not None and problem.argument < len(argument_nodes):  # of one argument, not the call
            name = function.get_parameter(problem.argument).name
            detail = f'Invalid value for "{name}" parameter: {problem.message}.'
            node_at_fault = argument_nodes[problem.argument]
            argument = arguments[problem.argument]
            line = get_text_line(argument.raw, problem.line) if problem.line else None  # the text of the line at fault
            details = {"function": format_signature(function), "line": line}
            return run.report_problem("invalid-function-argument", detail, node_at_fault, node, **details)
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.report_problem("error-in-function-call", detail, node, function=format_signature(function))
    run.count_work(CALL_UNITS)
    run.count_result(result)
    return result


def _return_given_value(value: Value) -> tuple[Value, list[Diagnostic]]:
    """Return an argument that is already a value."""
    return value, []


def _call_with_unevaluated_arguments(node: Call, function: Function, run: ExpressionRun) -> Value:
    """Call `try` or `can`: it evaluates its arguments itself. Return an unknown value after an error."""
    thunks: list[Thunk] = [partial(run.evaluate_separately, e) for e in node.arguments]  # not evaluated yet
    if node.expand:  # `...` after the last argument: each element is an argument
        before = len(run.diagnostics)
        last = run.evaluate(node.arguments[-1])  # now, so that its errors are always reported
        sequence = None if run.has_failed_since(before) else _check_expanded_argument(node, function, last, run)
        if sequence is None or sequence.raw is UNKNOWN:  # None: reported
            return DYNAMIC_UNKNOWN.add_marks(last.marks)
        thunks[-1:] = [partial(_return_given_value, item.add_marks(sequence.marks)) for item in sequence.raw]
        if not _is_argument_count_valid(node, function, len(thunks), run):
            return DYNAMIC_UNKNOWN
    try:
        return function.body(*thunks)
    except FunctionProblem as problem:
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.report_problem("error-in-function-call", detail, node, function=format_signature(function))
