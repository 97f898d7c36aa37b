"""Compression of large page data by shared values. Differences of similar objects share their lines, rows of
bindings and pods their values. `unpacked` in assets/document.js restores the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import json

# Smaller documents are not packed.
_MIN_PACKED: Final = 2000
_TEXT_INDEX: Final = 5  # position of the difference in FIELDS of page_data.py


def compress_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document, packed if it has many changes or rows."""
    changes, rows = document["changes"], document["rows"]
    if len(changes) + len(rows) < _MIN_PACKED:
        return document
    values, lines = _NumberedValues(), _NumberedValues()
    parts = {
        "changes": [_compress_change(change, values, lines) for change in changes],
        "rows": [[values.assign_number(value) for value in row] for row in rows],
    }
    other_parts = {name: value for name, value in document.items() if name not in parts}
    return {**other_parts, "packed": {**parts, "values": values.values, "lines": lines.values}}


class _NumberedValues:
    """Distinct values with numbers."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[bytes, int] = {}

    def assign_number(self, value: Any) -> int:
        """Return the number of a value, assigned on first use."""
        key = json.encode(value)
        number = self._numbers.setdefault(key, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def _compress_change(change: Sequence[Any], values: _NumberedValues, lines: _NumberedValues) -> list[Any]:
    """Return the numbers of the values of a change; its difference becomes runs of lines (first number, count)."""
    numbers = [lines.assign_number(line) for line in change[_TEXT_INDEX].split("\n")]
    runs: list[int] = []
    for number in numbers:
        if runs and number == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return [runs if position == _TEXT_INDEX else values.assign_number(value) for position, value in enumerate(change)]
