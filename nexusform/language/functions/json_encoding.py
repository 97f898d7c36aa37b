"""Conversion of values to JSON text and back."""

import json
import re
import unicodedata
from typing import Any, Final

from nexusform.json_data.plain_data import unify_json_error
from nexusform.language.functions.function import FixedProblem, FunctionProblem
from nexusform.schemas.value_types import (
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
from nexusform.values.typed_value import (
    UNKNOWN,
    Value,
    build_boolean,
    build_null,
    build_object,
    build_tuple,
    convert_decimal,
    format_number,
)

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
# Levels of a document: values are traversed recursively.
MAX_DEPTH: Final = 512
_ESCAPES: Final = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def render_json_string(text: str) -> str:
    """Render the text as a JSON string, safe inside HTML too."""
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPES)


def render_json(value: Value) -> str:
    """Render a wholly known value as compact JSON, object keys in order."""
    raw = value.raw
    assert raw is not UNKNOWN
    if raw is None:
        return "null"
    if isinstance(raw, str):
        return render_json_string(raw)
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, dict):
        return (
            "{"
            + ",".join([f"{render_json_string(k)}:{render_json(v)}" for k, v in raw.items()])
            + "}"
        )
    if isinstance(raw, tuple):
        return "[" + ",".join(map(render_json, raw)) + "]"
    # The only other type.
    return format_number(raw)


def _reject_constant(name: str) -> Any:
    """Reject NaN or Infinity: Python's parser accepts them, JSON does not."""
    raise FunctionProblem(f"{name} is not a JSON number", argument=0)


def parse_json(text: str) -> Value:
    """Parse JSON text to objects and tuples.

    Raises FunctionProblem.
    """
    try:
        data = json.loads(
            text, parse_int=parse_number, parse_float=parse_number, parse_constant=_reject_constant
        )
    except json.JSONDecodeError as problem:
        error = unify_json_error(problem)
        message = (
            f"{error.msg[0].lower()}{error.msg[1:]} on line {error.lineno}, column {error.colno}"
        )
        raise FunctionProblem(message, argument=0, line=error.lineno) from None
    except RecursionError:
        raise FixedProblem("the document is nested too deeply", argument=0) from None
    return _build_value_from_json(data, MAX_DEPTH)


_BEGINNINGS: Final = {
    **dict.fromkeys("-.0123456789", NUMBER),
    **dict.fromkeys("tf", BOOL),
    '"': STRING,
    **dict.fromkeys("n[{", DYNAMIC),
}


def get_json_prefix(value_type: Type) -> str:
    """Return the common prefix of the JSON text of all values of a type, except null.

    Return "" without a common prefix.
    """
    if value_type is STRING:
        return '"'
    if isinstance(value_type, (MapType, ObjectType)):
        return "{"
    return "[" if isinstance(value_type, (ListType, SetType, TupleType)) else ""


def determine_json_type(text: str) -> Type:
    """Return the type of a JSON value by the known start of its text.

    The type is DYNAMIC for an object, an array or null, and for an empty start. Raises
    FunctionProblem for an invalid start.
    """
    prefix = text.lstrip(" \t\r\n")
    if not prefix:
        return DYNAMIC
    if prefix[0] not in _BEGINNINGS:
        raise FunctionProblem(
            f"a JSON document cannot begin with the character '{prefix[0]}'", argument=0
        )
    return _BEGINNINGS[prefix[0]]


def parse_number(text: str) -> Value:
    """Parse a number of a document."""
    try:
        return Value(NUMBER, convert_decimal(text))
    except (OverflowError, ValueError):
        raise FixedProblem("a number in the document has too many digits", argument=0) from None


def _build_value_from_json(data: Any, depth: int) -> Value:
    """Build a value from the result of a JSON parser; `depth` is the number of levels left."""
    if depth < 0:
        raise FunctionProblem(
            f"the document is nested more than {MAX_DEPTH} levels deep", argument=0
        )
    if isinstance(data, Value):
        # A number, from parse_number.
        return data
    if data is None:
        return build_null(DYNAMIC)
    if isinstance(data, bool):
        return build_boolean(data)
    if isinstance(data, str):
        return Value(STRING, normalize_stored_text(data))
    if isinstance(data, list):
        return build_tuple([_build_value_from_json(d, depth - 1) for d in data])
    return build_object(
        {normalize_stored_text(k): _build_value_from_json(d, depth - 1) for k, d in data.items()}
    )


def normalize_stored_text(text: str) -> str:
    """Normalize a text as all strings of values: in NFC form, with lone surrogates replaced."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _SURROGATES.sub("\ufffd", text))
