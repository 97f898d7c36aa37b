"""Functions that change a value's type or marks, and functions that catch errors."""

from functools import partial
from typing import Final

from nexusform.diagnostics.diagnostic import has_errors
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    Thunk,
    build_any_parameter,
    get_first_argument_type,
)
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.language.type_expressions import parse_type
from nexusform.language.value_descriptions import quote_text
from nexusform.schemas.value_types import (
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
    describe_type,
    has_dynamic,
)
from nexusform.values.typed_value import EPHEMERAL, FALSE, SENSITIVE, TRUE, UNKNOWN, Value


def _convert_to_type(target: Type, value: Value) -> Value:
    """Convert a value.

    Raises FunctionProblem with the reason, without the content of a sensitive value.
    """
    try:
        return convert_value(value, target)
    except ConversionProblem as problem:
        name = describe_type(target, constraint=True)
        is_text = value.type == STRING and isinstance(value.raw, str)
        # A text without the form of the type.
        if is_text and isinstance(target, PrimitiveType):
            description = "the hidden text" if value.marks else quote_text(value.raw)
            requirement = (
                "given string must be a decimal representation of a number"
                if target is NUMBER
                else 'only the strings "true" or "false" are allowed'
            )
            failure = f"cannot convert {description} to {name}; {requirement}"
        else:
            failure = (
                f"cannot convert {describe_type(value.type)} to {name}: {describe_problem(problem)}"
            )
        raise FunctionProblem(failure, argument=0) from None


def _build_conversion(name: str, target: Type, description: str, *examples: Example) -> Function:
    """Build a function that converts any value to one type."""
    parameter = build_any_parameter("v", "a value", allow_marked=True)
    convert = partial(_convert_to_type, target)
    return Function(name, description, (parameter,), target, convert, examples, may_be_null=True)


def _evaluate_try(*attempts: Thunk) -> Value:
    """Return the first value without errors.

    If it is not wholly known, return an unknown value of open type. Raises FunctionProblem with the
    errors of all attempts if none succeeds.
    """
    if not attempts:
        raise FixedProblem("at least one argument is required")
    details: list[str] = []
    for attempt in attempts:
        value, diagnostics = attempt()
        if not has_errors(diagnostics):
            # A value that is not wholly known may still be an error: its type is open.
            return value if value.is_wholly_known else Value(DYNAMIC, UNKNOWN, value.marks)
        details.extend(f"{d.summary}: {d.detail}" for d in diagnostics)
    raise FunctionProblem(
        "no expression succeeded:\n"
        + "\n".join(f"- {d}" for d in details)
        + "\n\nAt least one expression must produce a successful result"
    )


def _evaluate_can(*attempts: Thunk) -> Value:
    """Return whether the attempt has no errors.

    With unknown parts it may still fail, so the result is unknown.
    """
    if len(attempts) != 1:
        raise FixedProblem("exactly one argument is required")
    (attempt,) = attempts
    value, diagnostics = attempt()
    if has_errors(diagnostics):
        return FALSE
    return TRUE if value.is_wholly_known else Value(BOOL, UNKNOWN)


def _build_expression_parameter(description: str) -> Parameter:
    return build_any_parameter("value", description, allow_marked=True)


def _replace_ephemeral_by_null(value: Value) -> Value:
    """Replace the ephemeral parts of a value by null.

    An unknown part stays unknown, because its type may still change.
    """
    if not value.has_ephemeral:
        return value
    if value.is_ephemeral:
        # No known facts: an ephemeral value may differ at apply.
        return Value(value.type, None if value.is_known else UNKNOWN, value.marks - EPHEMERAL)
    return Value(value.type, value.change_parts(_replace_ephemeral_by_null), value.marks)


def _is_sensitive(value: Value) -> Value:
    """Return whether a value is sensitive.

    It is unknown for an unknown value without the mark.
    """
    if value.is_sensitive:
        return TRUE
    # An unknown value may become sensitive.
    return Value(BOOL, UNKNOWN) if value.raw is UNKNOWN else FALSE


def _format_type_of_value(value: Value) -> Value:
    """Return the type of a value as text.

    It is unknown if the type of an unknown part is open (DYNAMIC).
    """
    if has_dynamic(value.type) and not value.is_wholly_known:
        return Value(STRING, UNKNOWN)
    return Value(STRING, format_type(value.type))


def format_type(value_type: Type, indent: str = "") -> str:
    """Format the type as a type expression; tuples and objects with parts take several lines."""
    if isinstance(value_type, PrimitiveType):
        return value_type.name
    inner = indent + "    "
    if isinstance(value_type, (ListType, SetType, MapType)):
        name = {ListType: "list", SetType: "set", MapType: "map"}[type(value_type)]
        element = format_type(value_type.element, inner)
        return (
            f"{name}({element})"
            if "\n" not in element
            else f"{name}(\n{inner}{element},\n{indent})"
        )
    if isinstance(value_type, TupleType):
        lines = [f"{inner}{format_type(t, inner)},\n" for t in value_type.elements]
        return f"tuple([\n{''.join(lines)}{indent}])" if lines else "tuple([])"
    assert isinstance(value_type, ObjectType)
    lines = [f"{inner}{n}: {format_type(t, inner)},\n" for n, t in value_type.attributes]
    return f"object({{\n{''.join(lines)}{indent}}})" if lines else "object({})"


FUNCTIONS: Final = (
    _build_conversion(
        "tostring",
        STRING,
        "The value as a string; numbers and bools only.",
        Example("tostring(1)", '"1"'),
        Example("tostring(true)", '"true"'),
    ),
    _build_conversion(
        "tonumber", NUMBER, "The value as a number.", Example('tonumber("1.5")', "1.5")
    ),
    _build_conversion("tobool", BOOL, "The value as a bool.", Example('tobool("true")', "true")),
    _build_conversion(
        "tolist",
        ListType(DYNAMIC),
        "The value as a list with one element type.",
        Example('tolist(["a", 1])', 'tolist(["a", "1"])'),
    ),
    _build_conversion(
        "toset",
        SetType(DYNAMIC),
        "The value as a sorted set with one element type.",
        Example('tolist(toset(["c", "b", "b"]))', 'tolist(["b", "c"])'),
    ),
    _build_conversion(
        "tomap",
        MapType(DYNAMIC),
        "The value as a map with one element type.",
        Example('tomap({ a = 1, b = "x" }).a', '"1"'),
    ),
    Function(
        "convert",
        "The value as the type of a type expression.",
        (
            build_any_parameter("value", "a value", allow_marked=True),
            build_any_parameter("type", "a type, such as list(string)"),
        ),
        DYNAMIC,
        _convert_to_type,
        (Example("convert([1, 2], list(string))", 'tolist(["1", "2"])'),),
        may_be_null=True,
        parse_type=parse_type,
    ),
    Function(
        "try",
        "The first argument without an evaluation error.",
        (),
        DYNAMIC,
        _evaluate_try,
        (Example('try({ a = 1 }.b, "none")', '"none"'), Example("try(1, 2)", "1")),
        _build_expression_parameter("expressions, in order of preference"),
        is_lazy=True,
    ),
    Function(
        "can",
        "Whether an expression evaluates without an error.",
        (_build_expression_parameter("an expression"),),
        BOOL,
        _evaluate_can,
        (Example("can({ a = 1 }.b)", "false"), Example("can(1)", "true")),
        is_lazy=True,
    ),
    Function(
        "sensitive",
        "The value, marked sensitive and hidden in output.",
        (_build_expression_parameter("a value"),),
        get_first_argument_type,
        lambda v: v.add_marks(SENSITIVE),
        (Example('nonsensitive(sensitive("x"))', '"x"'),),
        may_be_null=True,
    ),
    Function(
        "nonsensitive",
        "The value without the sensitive mark. Use it only for values without secrets.",
        (_build_expression_parameter("a value"),),
        get_first_argument_type,
        lambda v: Value(v.type, v.raw, v.marks - SENSITIVE),
        (Example('nonsensitive(length(sensitive("abc")))', "3"),),
        may_be_null=True,
    ),
    Function(
        "issensitive",
        "Whether the value is marked sensitive.",
        (_build_expression_parameter("a value"),),
        BOOL,
        _is_sensitive,
        (Example("issensitive(sensitive(1))", "true"), Example("issensitive(1)", "false")),
    ),
    Function(
        "ephemeralasnull",
        "The value with null instead of each ephemeral part.",
        (_build_expression_parameter("a value"),),
        get_first_argument_type,
        _replace_ephemeral_by_null,
        (Example('ephemeralasnull("x")', '"x"'),),
        may_be_null=True,
    ),
    Function(
        "type",
        "The type of a value as text.",
        (_build_expression_parameter("a value"),),
        STRING,
        _format_type_of_value,
        (Example('type(tolist(["a"]))', '"list(string)"'), Example("type(1)", '"number"')),
    ),
)
