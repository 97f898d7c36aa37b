"""Parser of a large List in JSON (`kubectl get -o json`): plain data with the position of each item.

Parts of an item have no position of their own: a million positions take more memory than the data. Small
texts are parsed as YAML, with every position.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from nexusform.documents.text_positions import MAX_DEPTH, TextPosition

# Minimum and maximum size of texts for this parser.
MIN_LARGE: Final = 4 * 1024 * 1024
MAX_LARGE: Final = 256 * 1024 * 1024
_ITEMS: Final = "items"
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class _UnsupportedJson(ValueError):
    # Control flow of this file: the text needs the normal parser, which reports its errors.
    pass


def parse_large_list(text: str) -> tuple[dict[str, Any], TextPosition] | None:
    """Parse the List and its positions; None if it is not one, or invalid."""
    try:
        data, position = _JsonListReader(text).parse()
    except (ValueError, RecursionError, IndexError):
        return None
    return None if _is_nested_too_deep(data) else (data, position)


class _JsonListReader:
    # Reads a List item by item.
    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self.line = 1
        self.counted_offset = 0  # lines are counted up to this offset
        self.decode = json.JSONDecoder(object_pairs_hook=_build_object, parse_constant=_reject_number).raw_decode

    def parse(self) -> tuple[dict[str, Any], TextPosition]:
        """Parse the whole text. Raises _UnsupportedJson, ValueError or RecursionError."""
        data: dict[str, Any] = {}
        self._skip_blanks()
        root_position = self._compute_current_position()
        self._require_and_skip_character("{")
        while True:
            key_position = self._compute_current_position()
            key = self._parse_value()
            self._require_and_skip_character(":")
            if not isinstance(key, str) or key in data:
                raise _UnsupportedJson
            if key == _ITEMS and self.text[self.offset] == "[":
                data[key], root_position.children[key] = self._parse_items(key_position)
            else:
                data[key] = self._parse_value()
                root_position.children[key] = key_position
            if not self._has_next_item("}"):
                break
        if self.offset != len(self.text) or not isinstance(data.get(_ITEMS), list):
            raise _UnsupportedJson
        return data, root_position

    def _parse_items(self, list_position: TextPosition) -> tuple[list[Any], TextPosition]:
        """Parse the items up to the end of the list."""
        items: list[Any] = []
        self._require_and_skip_character("[")
        if self.text[self.offset] == "]":
            self._require_and_skip_character("]")
            return items, list_position
        while True:
            list_position.children[len(items)] = self._compute_current_position()
            items.append(self._parse_value())
            if not self._has_next_item("]"):
                return items, list_position

    def _has_next_item(self, end: str) -> bool:
        """Check for a comma instead of the end."""
        has_comma = self.text[self.offset] == ","
        self._require_and_skip_character("," if has_comma else end)
        return has_comma

    def _parse_value(self) -> Any:
        value, self.offset = self.decode(self.text, self.offset)
        self._skip_blanks()
        return value

    def _require_and_skip_character(self, sign: str) -> None:
        if self.text[self.offset] != sign:
            raise _UnsupportedJson
        self.offset += 1
        self._skip_blanks()

    def _skip_blanks(self) -> None:
        blank = _SPACE.match(self.text, self.offset)
        self.offset = self.offset if blank is None else blank.end()

    def _compute_current_position(self) -> TextPosition:
        self.line += self.text.count("\n", self.counted_offset, self.offset)
        self.counted_offset = self.offset
        return TextPosition(self.line, self.offset - self.text.rfind("\n", 0, self.offset))


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; raise _UnsupportedJson for duplicate keys."""
    data = dict(pairs)
    if len(data) != len(pairs):
        raise _UnsupportedJson
    return data


def _reject_number(_constant: str) -> Any:
    raise _UnsupportedJson


def _is_nested_too_deep(data: Any) -> bool:
    """Check whether data is nested deeper than the maximum."""
    level = [data]
    for _ in range(MAX_DEPTH):
        next_level: list[Any] = []
        for part in level:
            next_level.extend(part.values() if isinstance(part, dict) else part)
        level = [part for part in next_level if isinstance(part, (dict, list))]
        if not level:
            return False
    return True
