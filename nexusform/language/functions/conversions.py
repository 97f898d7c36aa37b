"""Functions that change a value's type or marks, and those that catch errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from nexusform.diagnostics import has_errors
from nexusform.language.conversion import convert, describe
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    Thunk,
    anything,
)
from nexusform.language.value_notes import quoted
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import (
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
    friendly_name,
    has_dynamic,
)
from nexusform.values import FALSE, SENSITIVE, TRUE, UNKNOWN, Value


def _converter(of: Type) -> Callable[[Value], Value]:
    def body(value: Value) -> Value:
        try:
            return convert(value, of)
        except ConversionProblem as problem:
            raise FunctionProblem(_why_not(value, of, problem), 0) from None

    return body


def _why_not(value: Value, of: Type, problem: ConversionProblem) -> str:
    """Why a value cannot be converted, without saying what is sensitive."""
    name = friendly_name(of, constraint=True)
    if value.type == STRING and isinstance(of, PrimitiveType) and isinstance(value.raw, str):
        shown = "the sensitive text" if value.is_sensitive else quoted(value.raw)
        requirement = (
            "given string must be a decimal representation of a number"
            if of is NUMBER
            else 'only the strings "true" or "false" are allowed'
        )
        return f"cannot convert {shown} to {name}; {requirement}"
    return f"cannot convert {friendly_name(value.type)} to {name}: {describe(problem)}"


def _conversion(name: str, of: Type, description: str, *examples: Example) -> Function:
    parameter = anything("v", "a value", marked=True)
    return Function(name, description, (parameter,), of, _converter(of), examples, may_be_null=True)


# --- errors caught -----------------------------------------------------------------------------


def _try(*attempts: Thunk) -> Value:
    """The first attempt that goes well."""
    if not attempts:
        raise FixedProblem("at least one argument is required")
    details: list[str] = []
    for attempt in attempts:
        value, diagnostics = attempt()
        if not has_errors(diagnostics):
            # What is not wholly known may turn out to be an error yet: then even its type is open.
            return value if value.is_wholly_known else Value(DYNAMIC, UNKNOWN, value.marks)
        details.extend(f"{d.summary}: {d.detail}" for d in diagnostics)
    raise FunctionProblem(
        "no expression succeeded:\n"
        + "\n".join(f"- {d}" for d in details)
        + "\n\nAt least one expression must produce a successful result"
    )


def _can(*attempts: Thunk) -> Value:
    if len(attempts) != 1:
        raise FixedProblem("exactly one argument is required")
    value, diagnostics = attempts[0]()
    if has_errors(diagnostics):
        return FALSE
    return TRUE if value.is_wholly_known else Value(BOOL, UNKNOWN)


# --- marks -------------------------------------------------------------------------------------


def _anything(description: str) -> Parameter:
    return anything("value", description, marked=True)


def _own_type(arguments: Sequence[Value]) -> Type:
    return arguments[0].type


def _nonsensitive(value: Value) -> Value:
    return Value(value.type, value.raw, value.marks - SENSITIVE)


def _is_sensitive(value: Value) -> Value:
    if value.is_sensitive:
        return TRUE
    return Value(BOOL, UNKNOWN) if value.raw is UNKNOWN else FALSE


# --- types as text -----------------------------------------------------------------------------


def _type(value: Value) -> Value:
    # The type of what is not known yet may still be open.
    if has_dynamic(value.type) and not value.is_wholly_known:
        return Value(STRING, UNKNOWN)
    return Value(STRING, type_text(value.type))


def type_text(of: Type, indent: str = "") -> str:
    """The type as a type expression, over several lines where it has parts."""
    if isinstance(of, PrimitiveType):
        return of.name
    inner = indent + "    "
    if isinstance(of, (ListType, SetType, MapType)):
        name = {ListType: "list", SetType: "set", MapType: "map"}[type(of)]
        element = type_text(of.element, inner)
        return f"{name}({element})" if "\n" not in element else f"{name}(\n{inner}{element},\n{indent})"
    if isinstance(of, TupleType):
        lines = [f"{inner}{type_text(t, inner)},\n" for t in of.elements]
        return f"tuple([\n{''.join(lines)}{indent}])" if lines else "tuple([])"
    assert isinstance(of, ObjectType)
    lines = [f"{inner}{n}: {type_text(t, inner)},\n" for n, t in of.attributes]
    return f"object({{\n{''.join(lines)}{indent}}})" if lines else "object({})"


FUNCTIONS: Final = (
    _conversion(
        "tostring",
        STRING,
        "The value as a string; numbers and bools only.",
        Example("tostring(1)", '"1"'),
        Example("tostring(true)", '"true"'),
    ),
    _conversion("tonumber", NUMBER, "The value as a number.", Example('tonumber("1.5")', "1.5")),
    _conversion("tobool", BOOL, "The value as a bool.", Example('tobool("true")', "true")),
    _conversion(
        "tolist",
        ListType(DYNAMIC),
        "The value as a list with one element type.",
        Example('tolist(["a", 1])', 'tolist(["a", "1"])'),
    ),
    _conversion(
        "toset",
        SetType(DYNAMIC),
        "The value as a sorted set with one element type.",
        Example('tolist(toset(["c", "b", "b"]))', 'tolist(["b", "c"])'),
    ),
    _conversion(
        "tomap",
        MapType(DYNAMIC),
        "The value as a map with one element type.",
        Example('tomap({ a = 1, b = "x" }).a', '"1"'),
    ),
    Function(
        "try",
        "The first argument without an evaluation error.",
        (),
        DYNAMIC,
        _try,
        (Example('try({ a = 1 }.b, "none")', '"none"'), Example("try(1, 2)", "1")),
        _anything("expressions, in order of preference"),
        lazy=True,
    ),
    Function(
        "can",
        "Whether an expression evaluates without an error.",
        (_anything("an expression"),),
        BOOL,
        _can,
        (Example("can({ a = 1 }.b)", "false"), Example("can(1)", "true")),
        lazy=True,
    ),
    Function(
        "sensitive",
        "The value, marked sensitive and hidden in output.",
        (_anything("a value"),),
        _own_type,
        lambda v: v.with_marks(SENSITIVE),
        (Example('nonsensitive(sensitive("x"))', '"x"'),),
        may_be_null=True,
    ),
    Function(
        "nonsensitive",
        "The value without the sensitive mark. Use it only for values without secrets.",
        (_anything("a value"),),
        _own_type,
        _nonsensitive,
        (Example('nonsensitive(length(sensitive("abc")))', "3"),),
        may_be_null=True,
    ),
    Function(
        "issensitive",
        "Whether the value is marked sensitive.",
        (_anything("a value"),),
        BOOL,
        _is_sensitive,
        (Example("issensitive(sensitive(1))", "true"), Example("issensitive(1)", "false")),
    ),
    Function(
        "ephemeralasnull",
        "The value itself: nexusform has no ephemeral values.",
        (_anything("a value"),),
        _own_type,
        lambda v: v,
        (Example('ephemeralasnull("x")', '"x"'),),
        may_be_null=True,
    ),
    Function(
        "type",
        "The type of a value as text.",
        (_anything("a value"),),
        STRING,
        _type,
        (Example('type(tolist(["a"]))', '"list(string)"'), Example("type(1)", '"number"')),
    ),
)
