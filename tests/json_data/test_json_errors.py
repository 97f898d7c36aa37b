"""Tests of errors in JSON documents: their position is the same on every version of Python."""

import json

import pytest

from nexusform.json_data.json_errors import unify_json_error


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ('[\n  {"name": "r1", \n}]', "Illegal trailing comma before end of object", 2, 16),
        ("[1, 2 ,\n\n]", "Illegal trailing comma before end of array", 1, 7),
        ("[]]", "Extra data", 1, 3),
        ('{"a": 1, ]', "Expecting property name enclosed in double quotes", 1, 10),
        ("[1, }", "Expecting value", 1, 5),
        ('{"a": }', "Expecting value", 1, 7),
        ("[1,", "Expecting value", 1, 4),
    ],
)
def test_error_names_its_position(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(json.JSONDecodeError) as raised:
        json.loads(text)
    error = unify_json_error(raised.value)
    assert (error.msg, error.lineno, error.colno) == (message, line, column)
