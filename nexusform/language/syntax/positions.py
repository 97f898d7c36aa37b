"""Conversion of character offsets to lines, columns and bytes.

Python counts characters; HCL counts lines, grapheme clusters and UTF-8 bytes. Plain ASCII text, the usual
case, needs no counting.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from unicodedata import category

from nexusform.diagnostics.source import Position, Span

_FIRST = Position(1, 1, 0)
_BYTE_ORDER_MARK = "\ufeff"
_JOINER = "\u200d"
_MODIFIERS = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_REGIONAL = range(0x1F1E6, 0x1F200)
# The lead, vowel and trail jamo, and the composed syllables of Hangul.
_HANGUL_LEAD = range(0x1100, 0x1160)
_HANGUL_VOWEL = range(0x1160, 0x11A8)
_HANGUL_TRAIL = range(0x11A8, 0x1200)
_HANGUL_SYLLABLE = range(0xAC00, 0xD7A4)


def _is_extending_character(char: str) -> bool:
    """Check whether a character always belongs to the cluster before it."""
    code = ord(char)
    return (
        category(char) in {"Mn", "Me", "Mc"}
        or char in {_JOINER, "\u200c", "\uff9e", "\uff9f"}
        or code in _MODIFIERS
        or code in _TAGS
    )


def _is_pictographic(char: str) -> bool:
    """Check whether a joiner joins this character to an emoji before it (an approximation by block)."""
    code = ord(char)
    return 0x2190 <= code <= 0x2BFF or 0x1F000 <= code <= 0x1FAFF or char in "\xa9\xae\u203c\u2049"


def _is_one_syllable(before: str, after: str) -> bool:
    """Check whether two neighbouring Hangul characters form one syllable."""
    left, right = ord(before), ord(after)
    if left in _HANGUL_LEAD:
        return right in _HANGUL_LEAD or right in _HANGUL_VOWEL or right in _HANGUL_SYLLABLE
    if right in _HANGUL_VOWEL:
        return left in _HANGUL_VOWEL or (left in _HANGUL_SYLLABLE and (left - 0xAC00) % 28 == 0)
    return right in _HANGUL_TRAIL and (left in _HANGUL_VOWEL or left in _HANGUL_TRAIL or left in _HANGUL_SYLLABLE)


def count_clusters(text: str) -> int:
    """Count the grapheme clusters (characters, as seen by a reader) of the text."""
    if text.isascii():
        return len(text) - text.count("\r\n")
    clusters = 1
    flags = 1 if ord(text[0]) in _REGIONAL else 0
    is_emoji = _is_pictographic(text[0])
    for before, char in pairwise(text):
        is_regional = ord(char) in _REGIONAL
        is_same_cluster = (
            (before == "\r" and char == "\n")
            or _is_extending_character(char)
            or (is_regional and flags % 2 == 1)
            or (before == _JOINER and is_emoji and _is_pictographic(char))
            or _is_one_syllable(before, char)
        )
        if not is_same_cluster:
            clusters += 1
        flags = flags + 1 if is_regional else 0
        is_emoji = _is_pictographic(char) or (is_emoji and _is_extending_character(char))
    return clusters


class Positions:
    """Positions of the characters of one text.

    `start` is the position of the first character, if the text is a part of a file. A byte order mark at the
    start counts as bytes but has no column.
    """

    def __init__(self, filename: str, text: str, start: Position | None = None) -> None:
        self._filename = filename
        self._text = text
        self._start = start or _FIRST
        self._ascii = text.isascii()
        lines = [0]
        find, newline = text.find, text.find("\n")
        while newline >= 0:
            lines.append(newline + 1)
            newline = find("\n", newline + 1)
        self._lines = lines
        self._line_bytes = None if self._ascii else self._compute_byte_offsets()
        self._known: dict[int, Position] = {}
        # Nearly all spans lie on one line of an ASCII file, near the span asked for before: the
        # number of that line, and the offsets where it and the next one begin.
        self._simple = self._ascii and start is None
        self._line, self._low, self._high = 1, 0, 0

    def _compute_byte_offsets(self) -> list[int]:
        """Compute the byte at the start of each line."""
        offsets, total = [], 0
        for begin, end in pairwise([*self._lines, len(self._text)]):
            offsets.append(total)
            total += len(self._text[begin:end].encode("utf-8", "surrogatepass"))
        return offsets

    def find_position(self, offset: int) -> Position:
        """Return the position of a character offset (0 to the length of the text)."""
        position = self._known.get(offset)
        if position is None:
            position = self._known[offset] = self._compute_position(offset)
        return position

    def _compute_position(self, offset: int) -> Position:
        line = bisect_right(self._lines, offset) - 1
        begin = self._lines[line]
        start = self._start
        if self._line_bytes is None:
            column, byte = offset - begin, offset
        else:
            piece = self._text[begin:offset]
            byte = self._line_bytes[line] + len(piece.encode("utf-8", "surrogatepass"))
            visible = piece.removeprefix(_BYTE_ORDER_MARK) if line == 0 else piece
            column = count_clusters(visible) if visible else 0
        first_column = start.column if line == 0 else 1
        return Position(start.line + line, first_column + column, start.byte + byte)

    def build_span(self, begin: int, end: int) -> Span:
        """Build the span between two character offsets, the end exclusive."""
        if self._simple:
            if not self._low <= begin < self._high:
                self._cache_line(begin)
            if end < self._high:
                line, before = self._line, self._low - 1
                start = Position(line, begin - before, begin)
                return Span(self._filename, start, Position(line, end - before, end))
        return Span(self._filename, self.find_position(begin), self.find_position(end))

    def _cache_line(self, offset: int) -> None:
        self._line = line = bisect_right(self._lines, offset)
        self._low = self._lines[line - 1]
        self._high = self._lines[line] if line < len(self._lines) else len(self._text) + 1


class FixedPosition(Positions):
    """Positions of a text with another form in its file: all of it is at one span."""

    def __init__(self, fixed_span: Span) -> None:
        super().__init__(fixed_span.filename, "")
        self._fixed_span = fixed_span

    def find_position(self, offset: int) -> Position:  # noqa: ARG002 - the same answer for every offset
        """Return the start of the fixed span."""
        return self._fixed_span.start

    def build_span(self, begin: int, end: int) -> Span:  # noqa: ARG002 - the same answer for every range
        """Return the fixed span."""
        return self._fixed_span


def describe_span(span: Span) -> str:
    """Format a span for a sentence: `file:line,column-column`."""
    start, end = span.start, span.end
    if start.line == end.line:
        return f"{span.filename}:{start.line},{start.column}-{end.column}"
    return f"{span.filename}:{start.line},{start.column}-{end.line},{end.column}"
