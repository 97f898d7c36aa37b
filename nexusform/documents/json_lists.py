"""A large List in JSON, as `kubectl get -o json` writes it -> plain data with the place of each item.

What is in an item has no place of its own: a million of them take more room than the data. Small texts are
read like YAML, with every place.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from nexusform.documents.text_places import MAX_DEPTH, TextPlace

# From which size on a text is read this way, and how large it may be.
LARGE: Final = 4 * 1024 * 1024
MOST: Final = 256 * 1024 * 1024
_ITEMS: Final = "items"
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class _Unusual(ValueError):
    # Control flow of this file: the text is to be read like any other, which tells what is wrong with it.
    pass


def read_large_list(text: str) -> tuple[dict[str, Any], TextPlace] | None:
    """The List and its places; None where it is none, or something is wrong with it."""
    try:
        data, place = _Reader(text).read()
    except (ValueError, RecursionError, IndexError):
        return None
    return None if _is_too_deep(data) else (data, place)


class _Reader:
    # Reads a List item by item.
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.counted = 0  # up to here lines are counted
        self.decode = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_no_number).raw_decode

    def read(self) -> tuple[dict[str, Any], TextPlace]:
        """The whole text. Raises _Unusual, ValueError or RecursionError."""
        data: dict[str, Any] = {}
        self._skip()
        place = self._place()
        self._expect("{")
        while True:
            here = self._place()
            key = self._value()
            self._expect(":")
            if not isinstance(key, str) or key in data:
                raise _Unusual
            if key == _ITEMS and self.text[self.at] == "[":
                data[key], place.children[key] = self._items(here)
            else:
                data[key] = self._value()
                place.children[key] = here
            if not self._goes_on("}"):
                break
        if self.at != len(self.text) or not isinstance(data.get(_ITEMS), list):
            raise _Unusual
        return data, place

    def _items(self, place: TextPlace) -> tuple[list[Any], TextPlace]:
        """The items up to the end of the list."""
        items: list[Any] = []
        self._expect("[")
        if self.text[self.at] == "]":
            self._expect("]")
            return items, place
        while True:
            place.children[len(items)] = self._place()
            items.append(self._value())
            if not self._goes_on("]"):
                return items, place

    def _goes_on(self, end: str) -> bool:
        """Whether a comma follows, and not the end."""
        goes_on = self.text[self.at] == ","
        self._expect("," if goes_on else end)
        return goes_on

    def _value(self) -> Any:
        value, self.at = self.decode(self.text, self.at)
        self._skip()
        return value

    def _expect(self, sign: str) -> None:
        if self.text[self.at] != sign:
            raise _Unusual
        self.at += 1
        self._skip()

    def _skip(self) -> None:
        blank = _SPACE.match(self.text, self.at)
        self.at = self.at if blank is None else blank.end()

    def _place(self) -> TextPlace:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return TextPlace(self.line, self.at - self.text.rfind("\n", 0, self.at))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand once."""
    data = dict(pairs)
    if len(data) != len(pairs):
        raise _Unusual
    return data


def _no_number(_constant: str) -> Any:
    raise _Unusual


def _is_too_deep(data: Any) -> bool:
    """Whether data nests deeper than any document may."""
    level = [data]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for each in level:
            below.extend(each.values() if isinstance(each, dict) else each)
        level = [each for each in below if isinstance(each, (dict, list))]
        if not level:
            return False
    return True
