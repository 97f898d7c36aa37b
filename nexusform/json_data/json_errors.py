"""Errors of the JSON parser, the same on every version of Python."""

from __future__ import annotations

from json import JSONDecodeError
from typing import Final

_BLANKS: Final = " \t\n\r"
# Before Python 3.13 a comma before the end has these errors, at the end instead of the comma.
_TRAILING_COMMAS: Final = {
    ("Expecting property name enclosed in double quotes", "}"): "object",
    ("Expecting value", "]"): "array",
}


def unify_json_error(error: JSONDecodeError) -> JSONDecodeError:
    """Return the error with the message and the position of Python 3.13."""
    text, position = error.doc, error.pos
    container = _TRAILING_COMMAS.get((error.msg, text[position : position + 1]))
    before = text[:position].rstrip(_BLANKS)
    if container is None or not before.endswith(","):
        return error
    return JSONDecodeError(f"Illegal trailing comma before end of {container}", text, len(before) - 1)
