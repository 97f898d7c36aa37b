"""The data of a page of thousands of objects, made small: what is the same is said once.

Differences of alike objects share their lines, rows of bindings and pods their values. `unpacked` in
assets/document.js makes the document whole again before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import json

# A document of fewer is read as it is.
_MANY: Final = 2000
_TEXT: Final = 5  # where a change has its difference, as FIELDS in page_data.py has it


def packed(document: dict[str, Any]) -> dict[str, Any]:
    """The document, packed where it has many changes or rows."""
    changes, rows = document["changes"], document["rows"]
    if len(changes) + len(rows) < _MANY:
        return document
    values, lines = _Once(), _Once()
    parts = {
        "changes": [_change(change, values, lines) for change in changes],
        "rows": [[values.number(value) for value in row] for row in rows],
    }
    kept = {name: value for name, value in document.items() if name not in parts}
    return {**kept, "packed": {**parts, "values": values.values, "lines": lines.values}}


class _Once:
    """Values, each with a number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[bytes, int] = {}

    def number(self, value: Any) -> int:
        """The number of a value."""
        key = json.encode(value)
        number = self._numbers.setdefault(key, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def _change(change: Sequence[Any], values: _Once, lines: _Once) -> list[Any]:
    """The numbers of its values; its difference is runs of lines, each its first number and how many."""
    runs = _runs([lines.number(line) for line in change[_TEXT].split("\n")])
    return [runs if at == _TEXT else values.number(value) for at, value in enumerate(change)]


def _runs(numbers: Iterable[int]) -> list[int]:
    runs: list[int] = []
    for number in numbers:
        if runs and number == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return runs
