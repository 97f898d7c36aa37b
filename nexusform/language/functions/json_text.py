"""Values as JSON text and back."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Final

from nexusform.exact_numbers import number_from_decimal, number_text
from nexusform.language.functions.function import FixedProblem, FunctionProblem
from nexusform.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values import UNKNOWN, Value, boolean, null, object_value, tuple_value

_SURROGATES: Final = re.compile("[\ud800-\udfff]")

# How deep a document may be nested: values are walked recursively.
DEEPEST: Final = 512

_ESCAPES: Final = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def json_string(text: str) -> str:
    """The text as a JSON string, safe inside HTML too."""
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPES)


def json_text(value: Value) -> str:
    """A wholly known value as compact JSON, object keys in order."""
    raw = value.raw
    assert raw is not UNKNOWN
    if raw is None:
        return "null"
    if isinstance(raw, str):
        return json_string(raw)
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, dict):
        return "{" + ",".join([f"{json_string(k)}:{json_text(v)}" for k, v in raw.items()]) + "}"
    if isinstance(raw, tuple):
        return "[" + ",".join([json_text(v) for v in raw]) + "]"
    return number_text(raw)


def _refuse_constant(name: str) -> Any:
    raise FunctionProblem(f"{name} is not a JSON number", 0)


def parse_json(text: str) -> Value:
    """The value that JSON text stands for: objects and tuples. Raises FunctionProblem."""
    try:
        data = json.loads(text, parse_int=_exact, parse_float=_exact, parse_constant=_refuse_constant)
    except json.JSONDecodeError as problem:
        what = problem.msg[0].lower() + problem.msg[1:]
        raise FunctionProblem(
            f"{what} on line {problem.lineno}, column {problem.colno}", 0, problem.lineno
        ) from None
    except RecursionError:
        raise FixedProblem("the document is nested too deeply", 0) from None
    return _value(data, DEEPEST)


_BEGINNINGS: Final = {
    **dict.fromkeys("-.0123456789", NUMBER),
    **dict.fromkeys("tf", BOOL),
    '"': STRING,
    **dict.fromkeys("n[{", DYNAMIC),
}


def json_beginning(of: Type) -> str:
    """How the JSON text of every value of a type begins that is not null."""
    if of is STRING:
        return '"'
    if isinstance(of, (MapType, ObjectType)):
        return "{"
    return "[" if isinstance(of, (ListType, SetType, TupleType)) else ""


def type_by_beginning(text: str) -> Type:
    """The type of a value of whose JSON text only the beginning is known. Raises FunctionProblem."""
    rest = text.lstrip(" \t\r\n")
    if not rest:
        return DYNAMIC
    if rest[0] not in _BEGINNINGS:
        raise FunctionProblem(f"a JSON document cannot begin with the character '{rest[0]}'", 0)
    return _BEGINNINGS[rest[0]]


def _exact(text: str) -> Value:
    try:
        return Value(NUMBER, number_from_decimal(text))
    except (OverflowError, ValueError):
        raise FixedProblem("a number in the document has too many digits", 0) from None


def _value(data: Any, depth: int) -> Value:
    """A value of what a JSON reader gave."""
    if depth < 0:
        raise FunctionProblem(f"the document is nested more than {DEEPEST} levels deep", 0)
    if isinstance(data, Value):
        return data
    if data is None:
        return null(DYNAMIC)
    if isinstance(data, bool):
        return boolean(data)
    if isinstance(data, str):
        return Value(STRING, clean_text(data))
    if isinstance(data, list):
        return tuple_value([_value(d, depth - 1) for d in data])
    return object_value({clean_text(k): _value(d, depth - 1) for k, d in data.items()})


def clean_text(text: str) -> str:
    """The text as strings are kept: NFC-normalised, lone surrogates replaced."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _SURROGATES.sub("\ufffd", text))
