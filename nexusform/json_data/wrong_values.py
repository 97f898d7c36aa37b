"""Plain texts of values that do not have the type of their field."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import ValidationError

# `Expected `int` >= 1, got `str` - at `$.cells[0].size``; bounds, types and places are optional.
_MESSAGE: Final = re.compile(
    r"Expected `(?P<types>[^`]+)`(?: (?P<operator>[<>]=?) (?P<bound>\S+?))?"
    r"(?:, got `(?P<found>\w+)`)?(?: - at `\$\.?(?P<place>[^`]*)`)?"
)
_TYPES: Final[Mapping[str, str]] = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_BOUNDS: Final[Mapping[str, str]] = {
    ">=": " of at least ",
    ">": " above ",
    "<=": " of at most ",
    "<": " below ",
}


def describe_wrong_value(problem: Exception) -> str:
    """Return what a value must be: `step_size must be a whole number of at least 1`.

    The text of another problem is returned as it is.
    """
    text = str(problem)
    match = _MESSAGE.fullmatch(text) if isinstance(problem, ValidationError) else None
    if match is None:
        return text
    types = " or ".join(_TYPES.get(name, name) for name in match["types"].split(" | "))
    bound = f"{_BOUNDS[match['operator']]}{match['bound']}" if match["operator"] else ""
    found = f", not {_describe_found_type(match)}" if match["found"] else ""
    return f"{match['place'] or 'the value'} must be {types}{bound}{found}"


def _describe_found_type(match: re.Match[str]) -> str:
    """Return the type of the value; a number with a fraction where a whole one is expected."""
    if match["types"] == "int" and match["found"] == "float":
        return "a fraction"
    return _TYPES.get(match["found"], match["found"])
