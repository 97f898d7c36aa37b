"""Function records: signatures, and the rules for passing arguments.

The rules are the same for every function: arguments are converted to the parameter's type; a null or a value
of unknown type is rejected or short-circuits unless the parameter allows it; unknown arguments give an
unknown of the result's type; marks of arguments are added to the result.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import DYNAMIC, STRING, PrimitiveType, Type
from nexusform.values.typed_value import NO_MARKS, NOT_NULL, UNKNOWN, Value, add_refinement, remove_all_marks


class FunctionProblem(Exception):
    """Call without a result; `message` is a clause without a full stop.

    `argument` is the position of the argument at fault, None for the call as a whole; `line` the line in it
    (from 1, 0 = all of it).
    """

    def __init__(self, message: str, argument: int | None = None, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.line = line


class FixedProblem(FunctionProblem):
    """Problem with a constant message, independent of the arguments.

    Only these messages are reported for sensitive arguments; `tests/trust/test_secrets.py` checks the calls.
    """


class Parameter(Struct, frozen=True):
    """One parameter. Disallowed values are rejected (null) or handled before the function runs.

    `inner_marks`: marks inside the argument are kept there, since the function only moves elements; its own
    mark is added to the result.
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
    """Build a parameter that accepts every value: null, unknown, of any type."""
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

    `returns` is the result's type, or computes it from the arguments (which may be unknown); both may raise
    FunctionProblem. With `is_lazy` the body takes unevaluated arguments (Thunk) instead. `may_be_null`: the
    result may be null although no argument is. With `parse_type` the last argument is a type expression, and the
    body takes the Type instead.
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
    """Convert an argument to its parameter's type. Raises FunctionProblem."""
    required = function.get_parameter(position).type
    if argument.type is required:
        return argument
    try:
        return convert_value(argument, required)
    except ConversionProblem as problem:
        if argument.has_marks:  # the path would reveal names; the message is about types alone
            raise FixedProblem(problem.message, argument=position) from None
        raise FunctionProblem(describe_problem(problem), argument=position) from None


def invoke_function(function: Function, arguments: Sequence[Value]) -> Value:
    """Call a function with arguments of their parameters' types. Raises FunctionProblem.

    The result is unknown, without a call of the body, if an argument is unknown and its parameter does not allow it.
    """
    marks = NO_MARKS  # of the arguments, for the result
    values: list[Value] = []
    has_dynamic = has_unknown = False  # not allowed by its parameter: an argument of unknown type, or an unknown one
    for position, argument in enumerate(arguments):
        value = argument
        parameter = function.get_parameter(position)
        if value.raw is None and not parameter.allow_null:
            raise FixedProblem(NULL_ARGUMENT, position)
        if parameter.inner_marks:
            marks |= value.marks
            value = value.remove_marks()  # only its own: its parts keep theirs
        elif not parameter.allow_marked and (value.marks or value.raw.__class__ in _COMPOUND):  # parts may have marks
            value, inner_marks = remove_all_marks(value)
            marks |= inner_marks
        if value.raw is UNKNOWN:
            has_dynamic |= value.type is DYNAMIC and not parameter.allow_dynamic
            has_unknown |= not parameter.allow_unknown
        values.append(value)
    if has_dynamic:
        result_type = function.returns if not callable(function.returns) else DYNAMIC  # not computable yet
        result = Value(result_type, UNKNOWN)
    elif has_unknown:
        result = Value(function.returns(values) if callable(function.returns) else function.returns, UNKNOWN)
    else:
        result = function.body(*values)
    if result.raw is UNKNOWN and result.refinement is None and not function.may_be_null:  # unknown, but not null
        result = add_refinement(result, NOT_NULL)
    return result.add_marks(marks)


_COMPOUND: Final = (tuple, dict)

_REDACTED_MESSAGE: Final = "the reason is hidden because it may contain part of a sensitive argument"


def redact_problem(problem: FunctionProblem, arguments: Sequence[Value]) -> FunctionProblem:
    """Redact a problem: with marked arguments, replace its message unless it is constant (FixedProblem)."""
    if isinstance(problem, FixedProblem) or not any(a.has_marks for a in arguments):
        return problem
    return FixedProblem(_REDACTED_MESSAGE, problem.argument)


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


# Maximum length of a text returned by a function, in characters.
MAX_TEXT_LENGTH: Final = 64 * 1024 * 1024


def shorten_text(text: str, max_length: int) -> str:
    """Return the start of a long text, with an ellipsis."""
    return text if len(text) <= max_length else f"{text[:max_length]}..."


def check_text_length(characters: int) -> None:
    """Reject texts beyond the maximum length. Raises FunctionProblem."""
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

    def compute_value(*arguments: Value) -> Value:
        return Value(returns, compute(*[a.raw for a in arguments]))

    parameter_records = tuple([Parameter(*parameter) for parameter in parameters])  # names, types and descriptions
    example_records = tuple([Example(*example) for example in examples])  # calls and results
    return Function(name, description, parameter_records, returns, compute_value, example_records)
