"""Where text came from: files, positions and spans.

Positions follow HCL: line and column count from 1, columns in grapheme clusters, bytes from 0
(UTF-8), and the end of a span is exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file: line and column from 1, byte offset from 0."""

    line: int
    column: int
    byte: int


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a named file; `end` is exclusive."""

    filename: str
    start: Position
    end: Position

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other` (same file)."""
        return Span(self.filename, self.start, other.end)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's name (as shown to the user, relative to where the command ran) and its text."""

    name: str
    text: str
