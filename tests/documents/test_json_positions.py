"""Tests of lines of parts of a JSON text."""

import json

import pytest

from nexusform.documents.json_positions import find_json_lines

TEXT = """[
  {"a": 1,
   "b": {"c\\"d": [true, {"e": "x, y: ]"}], "empty": {}, "f": null}},
  [],
  [
   2]
]
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        ((0,), 2),
        ((0, "a"), 2),
        ((0, "b", 'c"d', 1, "e"), 3),
        ((0, "b", "f"), 3),
        ((1,), 4),
        ((2, 0), 6),
    ],
)
def test_line_of_a_part(path: tuple[str | int, ...], line: int) -> None:
    assert json.loads(TEXT)
    assert find_json_lines(TEXT, [path]) == {path: line}


def test_absent_part_has_no_line() -> None:
    assert find_json_lines(TEXT, [(7,), (0, "c")]) == {}


def test_documents_in_a_row_are_a_list() -> None:
    assert find_json_lines('{"a": 1}\n{"a": 2}', [(1, "a"), (0, "a")]) == {(0, "a"): 1, (1, "a"): 2}
