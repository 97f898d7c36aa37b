"""Function records: signatures, the rules for passing arguments, and the evaluation of calls.

A signature looks like `max(a, b...)`.

The rules are the same for every function: arguments are converted to the parameter's type; a null
or a value of unknown type is rejected or short-circuits unless the parameter allows it; unknown
arguments give an unknown of the result's type; marks of arguments are added to the result.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, get_text_line, suggest_name
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.evaluation_run import CALL_UNITS, ExpressionRun
from nexusform.language.syntax.syntax_nodes import Call, Expression
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import (
    DYNAMIC,
    STRING,
    ListType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    NO_MARKS,
    NOT_NULL,
    UNKNOWN,
    Value,
    add_refinement,
    remove_all_marks,
)


class FunctionProblem(Exception):
    """Call without a result; `message` is a clause without a full stop.

    `argument` is the position of the argument at fault, None for the call as a whole. `line` is the
    line in that argument (from 1; 0 is all of it).
    """

    def __init__(self, message: str, argument: int | None = None, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        # Its position; None: the problem is one of the call as a whole.
        self.argument = argument
        # In the argument, from 1; 0: all of it.
        self.line = line


class FixedProblem(FunctionProblem):
    """Problem with a constant message, independent of the arguments.

    Only these messages are reported for sensitive arguments; `tests/trust/test_secrets.py`
    checks the calls.
    """


class Parameter(Struct, frozen=True):
    """One parameter.

    Disallowed values are rejected (null) or handled before the function runs. With `inner_marks`,
    marks inside the argument are kept there, since the function only moves elements; the argument's
    own mark is added to the result.
    """

    name: str
    type: Type
    description: str = ""
    allow_null: bool = False
    allow_unknown: bool = False
    allow_dynamic: bool = False
    allow_marked: bool = False
    inner_marks: bool = False


class Example(Struct, frozen=True):
    """Call and its result, both as expressions; run as a test."""

    call: str
    result: str


def build_any_parameter(
    name: str, description: str, *, allow_marked: bool = False, inner_marks: bool = False
) -> Parameter:
    """Build a parameter for all values: null, unknown, of any type.

    See `Parameter` for the options about marks.
    """
    return Parameter(
        name,
        DYNAMIC,
        description,
        allow_null=True,
        allow_unknown=True,
        allow_dynamic=True,
        allow_marked=allow_marked,
        inner_marks=inner_marks,
    )


ResultType: TypeAlias = Type | Callable[[Sequence[Value]], Type]
Thunk: TypeAlias = Callable[[], tuple[Value, list[Diagnostic]]]
TypeParser: TypeAlias = Callable[[Any], tuple[Type | None, list[Diagnostic]]]


class Function(Struct, frozen=True):
    """Function: `body` takes one Value for each argument and returns a Value.

    `returns` is the result's type, or computes it from the arguments (which may be unknown); both
    may raise FunctionProblem. With `is_lazy` the body takes unevaluated arguments (Thunk) instead.
    With `may_be_null` the result may be null although no argument is. With `parse_type` the last
    argument is a type expression, and the body takes the Type instead.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    returns: ResultType
    body: Callable[..., Value]
    examples: tuple[Example, ...] = ()
    variadic: Parameter | None = None
    is_lazy: bool = False
    may_be_null: bool = False
    parse_type: TypeParser | None = None

    def get_parameter(self, position: int) -> Parameter:
        """Return the parameter of the argument at a position."""
        if position < len(self.parameters):
            return self.parameters[position]
        assert self.variadic is not None
        return self.variadic


Functions: TypeAlias = Mapping[str, Function]

NULL_ARGUMENT: Final = "argument must not be null"


def convert_argument(function: Function, position: int, argument: Value) -> Value:
    """Convert an argument to its parameter's type.

    Raises FunctionProblem.
    """
    required = function.get_parameter(position).type
    if argument.type is required:
        return argument
    try:
        return convert_value(argument, required)
    except ConversionProblem as problem:
        # The path would reveal names; the message is about types alone.
        if argument.has_marks:
            raise FixedProblem(problem.message, argument=position) from None
        raise FunctionProblem(describe_problem(problem), argument=position) from None


def invoke_function(function: Function, arguments: Sequence[Value]) -> Value:
    """Call a function of the language with converted arguments, and return the result.

    Raises FunctionProblem. A parameter may exclude null, unknown values and marks (such as
    "sensitive"). An excluded null is an error. With an excluded unknown value the result is
    unknown, and the body is not called. Excluded marks are removed for the call. The result gets
    all removed marks.
    """
    # Of the arguments, for the result.
    marks = NO_MARKS
    values: list[Value] = []
    # An argument of unknown type, excluded by its parameter.
    has_dynamic = False
    # An unknown argument, excluded by its parameter.
    has_unknown = False
    for position, argument in enumerate(arguments):
        value = argument
        parameter = function.get_parameter(position)
        if value.raw is None and not parameter.allow_null:
            raise FixedProblem(NULL_ARGUMENT, position)
        if parameter.inner_marks:
            marks |= value.marks
            # Only its own: its parts keep theirs.
            value = value.remove_marks()
        elif not parameter.allow_marked and (value.marks or value.raw.__class__ in _COMPOUND):
            # Parts may have marks.
            value, inner_marks = remove_all_marks(value)
            marks |= inner_marks
        if value.raw is UNKNOWN:
            has_dynamic |= value.type is DYNAMIC and not parameter.allow_dynamic
            has_unknown |= not parameter.allow_unknown
        values.append(value)
    if has_dynamic:
        # Not computable yet.
        result_type = function.returns if not callable(function.returns) else DYNAMIC
        result = Value(result_type, UNKNOWN)
    elif has_unknown:
        result = Value(
            function.returns(values) if callable(function.returns) else function.returns, UNKNOWN
        )
    else:
        result = function.body(*values)
    # Unknown, but not null.
    if result.raw is UNKNOWN and result.refinement is None and not function.may_be_null:
        result = add_refinement(result, NOT_NULL)
    return result.add_marks(marks)


_COMPOUND: Final = (tuple, dict)
_REDACTED_MESSAGE: Final = (
    "the reason is hidden because it may contain part of a sensitive argument"
)


def format_signature(function: Function) -> str:
    """Format the signature of a function: `join(separator, lists...)`."""
    names = [p.name for p in function.parameters]
    if function.variadic is not None:
        names.append(f"{function.variadic.name}...")
    return f"{function.name}({', '.join(names)})"


def find_shared_type(arguments: Sequence[Value]) -> Type:
    """Return the type of all arguments; DYNAMIC if they differ, or without arguments."""
    types = {argument.type for argument in arguments}
    return types.pop() if len(types) == 1 else DYNAMIC


def get_first_argument_type(arguments: Sequence[Value]) -> Type:
    """Return the type of the first argument, for functions whose result has it."""
    return arguments[0].type


# Characters of a text returned by a function.
MAX_TEXT_LENGTH: Final = 64 * 1024 * 1024


def check_text_length(characters: int) -> None:
    """Reject texts beyond the maximum length.

    Raises FunctionProblem.
    """
    if characters > MAX_TEXT_LENGTH:
        raise FunctionProblem(f"the result would have more than {MAX_TEXT_LENGTH} characters")


def build_plain_function(
    name: str,
    description: str,
    parameters: Sequence[tuple[str, PrimitiveType, str]],
    *,
    returns: PrimitiveType = STRING,
    compute: Callable[..., Any],
    examples: Sequence[tuple[str, str]] = (),
) -> Function:
    """Build a function from primitives to a primitive; `compute` works on the raw values."""
    return Function(
        name,
        description,
        # Names, types and descriptions.
        tuple([Parameter(*parameter) for parameter in parameters]),
        returns,
        lambda *arguments: Value(returns, compute(*[argument.raw for argument in arguments])),
        # Calls and results.
        tuple([Example(*example) for example in examples]),
    )


def call_function(node: Call, run: ExpressionRun) -> Value:
    """Evaluate a call.

    Problems are reported at its arguments, and the value is then unknown.
    """
    # `core::` is the prefix of the functions of the language, as opposed to those of a provider.
    function: Function | None = run.scope.functions.get(node.name.removeprefix("core::"))
    if function is None:
        hint = suggest_name(node.name, run.scope.functions)
        detail = f'There is no function named "{node.name}".{hint}'
        return run.report_problem("call-to-unknown-function", detail, node.name_span, node)
    # `try` or `can`.
    if function.is_lazy:
        return _call_with_unevaluated_arguments(node, function, run)
    if function.parse_type is not None:
        return _call_conversion(node, function, function.parse_type, run)
    before = len(run.diagnostics)
    argument_nodes: list[Expression] = list(node.arguments)
    arguments = list(map(run.evaluate, node.arguments))
    # Those of an expanded sequence itself.
    marks = NO_MARKS
    # `...` after the last argument: each element is an argument.
    if node.expand:
        sequence = _check_expanded_argument(node, function, arguments[-1], run)
        # None: no sequence, as reported.
        if sequence is None or sequence.raw is UNKNOWN:
            return DYNAMIC_UNKNOWN.add_marks(arguments[-1].marks)
        marks = sequence.marks
        arguments[-1:] = sequence.raw
        argument_nodes[-1:] = [node.arguments[-1]] * len(sequence.raw)
    if not _is_argument_count_valid(node, function, len(arguments), run) or run.has_failed_since(
        before
    ):
        return DYNAMIC_UNKNOWN
    return _call_with_values(node, function, arguments, argument_nodes, run).add_marks(marks)


def _call_conversion(
    node: Call, function: Function, parse_type: TypeParser, run: ExpressionRun
) -> Value:
    """Call `convert`, with a value and a type expression as its arguments.

    Return an unknown value after an error.
    """
    if node.expand:
        detail = "A type cannot be an expanding argument (indicated by ...)."
        return run.report_problem(
            "invalid-expanding-argument-value", detail, node.arguments[-1], node
        )
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
    return _call_with_values(node, conversion, [value], [node.arguments[0]], run)


def _check_expanded_argument(
    node: Call, function: Function, last: Value, run: ExpressionRun
) -> Value | None:
    """Return the argument of `...`, a sequence or unknown.

    Report anything else, and return None.
    """
    if last.raw is None:
        detail = "The expanding argument (indicated by ...) must not be null."
    elif last.type is DYNAMIC or isinstance(last.type, (ListType, SetType, TupleType)):
        return last
    else:
        detail = "The expanding argument (indicated by ...) must be of a tuple, list, or set type."
    node_at_fault = node.arguments[-1]
    signature = format_signature(function)
    run.report_problem(
        "invalid-expanding-argument-value", detail, node_at_fault, node, function=signature
    )
    return None


def _is_argument_count_valid(
    node: Call, function: Function, count: int, run: ExpressionRun
) -> bool:
    """Check the number of arguments (`count`), after the expansion of `...`.

    A wrong number is reported.
    """
    expected = len(function.parameters)
    if count == expected or (count > expected and function.variadic is not None):
        return True
    signature = format_signature(function)
    if count < expected:
        at_least = "at least " if function.variadic else ""
        missing = function.parameters[count].name
        detail = (
            f'Function "{node.name}" expects {at_least}{expected} argument(s). Missing value for '
            f'"{missing}".'
        )
        run.report_problem("not-enough-function-arguments", detail, node, function=signature)
    else:
        detail = f'Function "{node.name}" expects only {expected} argument(s).'
        # The first surplus or the expanded one.
        node_at_fault = node.arguments[min(expected, len(node.arguments) - 1)]
        run.report_problem(
            "too-many-function-arguments", detail, node_at_fault, node, function=signature
        )
    return False


def _call_with_values(
    node: Call,
    function: Function,
    arguments: list[Value],
    argument_nodes: list[Expression],
    run: ExpressionRun,
) -> Value:
    """Call a function with evaluated arguments of any type.

    Report problems at their expressions, `argument_nodes`.
    """
    try:
        converted_arguments = [convert_argument(function, i, a) for i, a in enumerate(arguments)]
        result = invoke_function(function, converted_arguments)
    except FunctionProblem as original:
        problem = original
        if not isinstance(original, FixedProblem) and any(
            argument.has_marks for argument in arguments
        ):
            # The message may contain part of an argument.
            problem = FixedProblem(_REDACTED_MESSAGE, original.argument)
        # Of one argument, not the call.
        if problem.argument is not None and problem.argument < len(argument_nodes):
            name = function.get_parameter(problem.argument).name
            detail = f'Invalid value for "{name}" parameter: {problem.message}.'
            node_at_fault = argument_nodes[problem.argument]
            argument = arguments[problem.argument]
            # The text of the line at fault.
            line = get_text_line(argument.raw, problem.line) if problem.line else None
            details = {"function": format_signature(function), "line": line}
            return run.report_problem(
                "invalid-function-argument", detail, node_at_fault, node, **details
            )
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.report_problem(
            "error-in-function-call", detail, node, function=format_signature(function)
        )
    run.count_work(CALL_UNITS)
    run.count_result(result)
    return result


def _return_given_value(value: Value) -> tuple[Value, list[Diagnostic]]:
    """Return an argument that is already a value, and no problems."""
    return value, []


def _call_with_unevaluated_arguments(node: Call, function: Function, run: ExpressionRun) -> Value:
    """Call `try` or `can`: it evaluates its arguments itself.

    Return an unknown value after an error.
    """
    # Not evaluated yet.
    thunks: list[Thunk] = [partial(run.evaluate_separately, e) for e in node.arguments]
    # `...` after the last argument: each element is an argument.
    if node.expand:
        before = len(run.diagnostics)
        # Now, so that its errors are always reported.
        last = run.evaluate(node.arguments[-1])
        sequence = (
            None
            if run.has_failed_since(before)
            else _check_expanded_argument(node, function, last, run)
        )
        if sequence is None or sequence.raw is UNKNOWN:  # None: reported
            return DYNAMIC_UNKNOWN.add_marks(last.marks)
        thunks[-1:] = [
            partial(_return_given_value, item.add_marks(sequence.marks)) for item in sequence.raw
        ]
        if not _is_argument_count_valid(node, function, len(thunks), run):
            return DYNAMIC_UNKNOWN
    try:
        return function.body(*thunks)
    except FunctionProblem as problem:
        detail = f'Call to function "{node.name}" failed: {problem.message}.'
        return run.report_problem(
            "error-in-function-call", detail, node, function=format_signature(function)
        )
