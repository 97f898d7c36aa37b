"""Conversion between protocol positions (lines and UTF-16 units, from 0) and byte offsets in UTF-8."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from lsprotocol.types import Position


def convert_to_byte(text: str, position: Position) -> int:
    """Return the byte at a position; the end of the text for a missing line."""
    lines, starts = _split_lines_with_offsets(text)
    if position.line >= len(lines):
        return starts[-1] - 1
    units = lines[position.line].decode().encode("utf-16-le")[: 2 * position.character]
    return starts[position.line] + len(units.decode("utf-16-le", errors="ignore").encode())


def convert_to_position(text: str, offset: int) -> Position:
    """Return the position of a byte."""
    lines, starts = _split_lines_with_offsets(text)
    number = min(bisect_right(starts, offset) - 1, len(lines) - 1)
    line_prefix = lines[number][: offset - starts[number]].decode(errors="ignore")
    return Position(number, len(line_prefix.encode("utf-16-le")) // 2)


@lru_cache(maxsize=32)
def _split_lines_with_offsets(text: str) -> tuple[list[bytes], list[int]]:
    """Return the lines and their start bytes, then the start of a further line. Cached by file."""
    lines = text.encode().split(b"\n")
    return lines, [0, *accumulate(len(line) + 1 for line in lines)]
