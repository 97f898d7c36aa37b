"""The source lines that a diagnostic points at, for the text and the JSON form."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from nexusform.diagnostics import Diagnostic
from nexusform.source import SourceFile, Span

MAX_LINES = 12


class Snippet(Struct, frozen=True):
    """Whole source lines from `start_line` on; the highlight is a byte range of `code`.

    `more` is how many further lines of the construct are not shown.
    """

    code: str
    start_line: int
    highlight_start: int
    highlight_end: int
    more: int = 0

    def highlighted(self) -> list[tuple[str, str, str]]:
        """Each line as (before, highlighted, after)."""
        lines: list[tuple[str, str, str]] = []
        at = 0
        for line in self.code.encode().split(b"\n"):
            low = min(max(self.highlight_start - at, 0), len(line))
            high = min(max(self.highlight_end - at, low), len(line))
            parts = (line[:low], line[low:high], line[high:])
            lines.append((_text(parts[0]), _text(parts[1]), _text(parts[2])))
            at += len(line) + 1
        return lines


def _text(part: bytes) -> str:
    return part.decode(errors="replace")


@lru_cache(maxsize=32)
def _lines(file: SourceFile) -> tuple[bytes, tuple[int, ...]]:
    """The file's bytes and where each line starts in them, found once per file."""
    data = file.text.encode()
    starts = [0]
    at = data.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = data.find(b"\n", at + 1)
    return data, tuple(starts)


def snippet_of(diagnostic: Diagnostic, files: Mapping[str, SourceFile]) -> Snippet | None:
    """The lines of the diagnostic's subject (and context); None when the file is not at hand, or its text
    could not be read that far.
    """
    subject = diagnostic.subject
    file = files.get(subject.filename) if subject else None
    if subject is None or file is None:
        return None
    data, starts = _lines(file)
    if subject.start.byte > len(data):
        return None
    first, last = _line_range(subject, diagnostic.context, data, starts)
    begin = starts[first]
    shown = min(last, first + MAX_LINES - 1)
    end = starts[shown + 1] - 1 if shown + 1 < len(starts) else len(data)
    code = data[begin:end].decode(errors="replace").replace("\r", "")
    low = min(max(subject.start.byte - begin, 0), end - begin)
    high = min(max(subject.end.byte - begin, low), end - begin)
    return Snippet(code, first + 1, low, high, last - shown)


def _line_range(subject: Span, context: Span | None, data: bytes, starts: tuple[int, ...]) -> tuple[int, int]:
    """The numbers (from 0) of the first and the last line to show."""

    def line_at(byte: int) -> int:
        return bisect_right(starts, min(max(byte, 0), len(data))) - 1

    first, last = line_at(subject.start.byte), line_at(max(subject.end.byte - 1, subject.start.byte))
    if context is not None and context.filename == subject.filename:
        # A long construct must not push the subject out of sight.
        first = max(min(first, line_at(context.start.byte)), first - 3)
        last = max(last, line_at(max(context.end.byte - 1, context.start.byte)))
    return first, last
