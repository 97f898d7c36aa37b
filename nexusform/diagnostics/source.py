"""Source files, positions and spans.

Positions follow HCL: line and column count from 1, columns in grapheme clusters, bytes from 0 (UTF-8), and
the end of a span is exclusive.
"""

from __future__ import annotations

from msgspec import Struct


class Position(Struct, frozen=True, order=True, array_like=True, gc=False):
    """Position in a file: line and column from 1, byte offset from 0."""

    line: int
    column: int
    byte: int


class Span(Struct, frozen=True, array_like=True, gc=False):
    """Range of a named file; `end` is exclusive."""

    filename: str
    start: Position
    end: Position

    def extend_to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of `other` (same file)."""
        return Span(self.filename, self.start, other.end)


class SourceFile(Struct, frozen=True):
    """Text of a file and its name relative to the current directory of the command."""

    name: str
    text: str
