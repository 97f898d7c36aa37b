"""Between positions of the protocol (lines and UTF-16 units, from 0) and bytes of a text in UTF-8."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from lsprotocol.types import Position


def byte_at(text: str, position: Position) -> int:
    """The byte at a position; where the text has no such line, its end."""
    lines, starts = _lines(text)
    if position.line >= len(lines):
        return starts[-1] - 1
    units = lines[position.line].decode().encode("utf-16-le")[: 2 * position.character]
    return starts[position.line] + len(units.decode("utf-16-le", errors="ignore").encode())


def position_at(text: str, at: int) -> Position:
    """The position of a byte."""
    lines, starts = _lines(text)
    number = min(bisect_right(starts, at) - 1, len(lines) - 1)
    before = lines[number][: at - starts[number]].decode(errors="ignore")
    return Position(number, len(before.encode("utf-16-le")) // 2)


@lru_cache(maxsize=32)
def _lines(text: str) -> tuple[list[bytes], list[int]]:
    """The lines, and where each begins; at last where one more would. All names of a file ask for them."""
    lines = text.encode().split(b"\n")
    return lines, [0, *accumulate(len(line) + 1 for line in lines)]
