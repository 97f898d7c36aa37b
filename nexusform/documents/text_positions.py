"""Positions of values in a text, and the maximum nesting."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

MAX_DEPTH: Final = 512


class TextPosition(Struct, frozen=True):
    """Position of a value: line and column from 1, and the positions of its keys or items.

    `source_text` is the text of a scalar that is parsed to another value ("yes" for true), else "".
    """

    line: int
    column: int
    children: dict[str | int, TextPosition] = field(default_factory=dict)
    source_text: str = ""
