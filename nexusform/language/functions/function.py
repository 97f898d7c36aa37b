"""What a function is: its signature, and the rules by which arguments reach it.

The rules are the same for every function: arguments are converted to the parameter's type, a null
or a value of unknown type is refused or short-circuits unless the parameter allows it, unknown
arguments give an unknown of the result's type, and marks of arguments end up on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics import Diagnostic
from nexusform.language.conversion import convert, describe
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import DYNAMIC, PrimitiveType, Type
from nexusform.values import NO_MARKS, NOT_NULL, UNKNOWN, Value, refined, unmark_deep


class FunctionProblem(Exception):
    """A call that cannot be answered; `message` is a clause without a full stop.

    `argument` is the position of the argument at fault, None when it is the call as a whole; `line` the line
    in it (from 1, 0 = all of it).
    """

    def __init__(self, message: str, argument: int | None = None, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.line = line


class FixedProblem(FunctionProblem):
    """One whose message is the same whatever the arguments hold: written down as it is, with no value in it.

    Only these are told of sensitive arguments as they are; `tests/trust/test_secrets.py` reads the calls.
    """


class Parameter(Struct, frozen=True):
    """One parameter. What is not allowed is refused (null) or handled before the function runs.

    `inner_marks`: marks inside the argument stay where they are, since the function only moves
    elements; its own mark goes to the result all the same.
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
    """A call and what it gives, both as expressions; run as a test."""

    call: str
    result: str


def anything(name: str, description: str, *, marked: bool = False, inner_marks: bool = False) -> Parameter:
    """A parameter that takes every value: null, unknown, of any type."""
    return Parameter(
        name,
        DYNAMIC,
        description,
        allow_null=True,
        allow_unknown=True,
        allow_dynamic=True,
        allow_marked=marked,
        inner_marks=inner_marks,
    )


ResultType: TypeAlias = Type | Callable[[Sequence[Value]], Type]
Thunk: TypeAlias = Callable[[], tuple[Value, list[Diagnostic]]]


class Function(Struct, frozen=True):
    """A function: `body` takes one Value for each argument and gives a Value.

    `returns` is the result's type, or finds it from the arguments (which may be unknown); both
    may raise FunctionProblem. With `lazy` the body takes unevaluated arguments (Thunk) instead.
    `may_be_null` tells that the result may be null although no argument is.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    returns: ResultType
    body: Callable[..., Value]
    examples: tuple[Example, ...] = ()
    variadic: Parameter | None = None
    lazy: bool = False
    may_be_null: bool = False

    def parameter(self, position: int) -> Parameter:
        """The parameter that takes the argument at a position."""
        if position < len(self.parameters):
            return self.parameters[position]
        assert self.variadic is not None
        return self.variadic


Functions: TypeAlias = Mapping[str, Function]

NULL_ARGUMENT: Final = "argument must not be null"


def converted_argument(function: Function, position: int, argument: Value) -> Value:
    """An argument as its parameter's type. Raises FunctionProblem."""
    required = function.parameter(position).type
    if argument.type is required:
        return argument
    try:
        return convert(argument, required)
    except ConversionProblem as problem:
        if argument.has_marks:
            raise FixedProblem(
                problem.message, position
            ) from None  # of types alone, without the path to a part
        raise FunctionProblem(describe(problem), position) from None


def call(function: Function, arguments: Sequence[Value]) -> Value:
    """The result for arguments that are already of their parameters' types.

    Raises FunctionProblem.
    """
    marks = NO_MARKS
    passed: list[Value] = []
    dynamic = unknown = False
    for position, argument in enumerate(arguments):
        value = argument
        parameter = function.parameter(position)
        if value.raw is None and not parameter.allow_null:
            raise FixedProblem(NULL_ARGUMENT, position)
        if parameter.inner_marks:
            marks |= value.marks
            value = value.without_marks()
        elif not parameter.allow_marked and (value.marks or value.raw.__class__ in _COMPOUND):
            value, more = unmark_deep(value)
            marks |= more
        if value.type is DYNAMIC and value.raw is UNKNOWN and not parameter.allow_dynamic:
            dynamic = True
        if value.raw is UNKNOWN and not parameter.allow_unknown:
            unknown = True
        passed.append(value)
    if dynamic:
        fixed = function.returns if not callable(function.returns) else DYNAMIC
        result = Value(fixed, UNKNOWN)
    elif unknown:
        result = Value(_result_type(function, passed), UNKNOWN)
    else:
        result = function.body(*passed)
    if result.raw is UNKNOWN and result.refinement is None and not function.may_be_null:
        result = refined(result, NOT_NULL)
    return result.with_marks(marks) if marks else result


_COMPOUND: Final = (tuple, dict)

_UNTOLD: Final = "what is wrong is not told: it would show something of a sensitive argument"


def without_secrets(problem: FunctionProblem, arguments: Sequence[Value]) -> FunctionProblem:
    """What is told of a problem: of sensitive arguments nothing that a message was made with."""
    if isinstance(problem, FixedProblem) or not any(a.has_marks for a in arguments):
        return problem
    return FixedProblem(_UNTOLD, problem.argument)


def _result_type(function: Function, arguments: Sequence[Value]) -> Type:
    return function.returns(arguments) if callable(function.returns) else function.returns


def signature(function: Function) -> str:
    """How a function is called: `join(separator, lists...)`."""
    names = [p.name for p in function.parameters]
    if function.variadic is not None:
        names.append(f"{function.variadic.name}...")
    return f"{function.name}({', '.join(names)})"


# The longest text that a function makes, in characters.
LONGEST_TEXT: Final = 64 * 1024 * 1024


def check_length(characters: int) -> None:
    """Refuse to make a text of absurd length. Raises FunctionProblem."""
    if characters > LONGEST_TEXT:
        raise FunctionProblem(f"the result would have more than {LONGEST_TEXT} characters")


def plain_function(
    name: str,
    description: str,
    parameters: Sequence[tuple[str, PrimitiveType, str]],
    *,
    returns: PrimitiveType,
    compute: Callable[..., Any],
    examples: Sequence[tuple[str, str]],
) -> Function:
    """A function from primitives to a primitive; `compute` works on the raw values."""

    def body(*arguments: Value) -> Value:
        return Value(returns, compute(*[a.raw for a in arguments]))

    return Function(
        name,
        description,
        tuple([Parameter(n, t, d) for n, t, d in parameters]),
        returns,
        body,
        tuple([Example(c, r) for c, r in examples]),
    )
