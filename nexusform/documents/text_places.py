"""Where values of a text were written, and how deep they may nest."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

MAX_DEPTH: Final = 512


class TextPlace(Struct, frozen=True):
    """Where a value was written: line and column from 1; the places of its keys or items. `written` is the
    text of a scalar that stands for another value ("yes" for true), else "".
    """

    line: int
    column: int
    children: dict[str | int, TextPlace] = field(default_factory=dict)
    written: str = ""
