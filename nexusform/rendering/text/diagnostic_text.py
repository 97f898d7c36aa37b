"""Diagnostics as people read them: OpenTofu's box with the source lines that each points at."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.rendering.notation.colours import Painter, columns, harmless, indented, wrap
from nexusform.source import SourceFile, Span
from nexusform.weights import Level, level_of
from nexusform.words import form

DEFAULT_WIDTH = 78
LONGEST_LINE = 300  # columns of a line of source that are shown where nothing is wrapped
_NUMBER = 6  # columns of a line's number and what follows it
_CUT = "..."


def render_diagnostics(
    diagnostics: Iterable[Diagnostic],
    files: Mapping[str, SourceFile],
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
    *,
    terraform: bool = False,
) -> str:
    """All diagnostics by weight, the heaviest first, equal ones consolidated. `terraform` knows warnings and
    errors alone, and has errors last, as Terraform.

    `width` is in terminal columns; 0 turns wrapping off. "" when there are none.
    """
    consolidated = consolidate(diagnostics)
    levels = ((each, _level(each, terraform=terraform)) for each in consolidated)
    by_weight = sorted(levels, key=lambda pair: (terraform and pair[1] is Level.ERROR, pair[1].order))
    return "".join(
        render_diagnostic(diagnostic, files, colour=colour, width=width, terraform=terraform)
        for diagnostic, _ in by_weight
    )


def render_diagnostic(
    diagnostic: Diagnostic,
    files: Mapping[str, SourceFile],
    *,
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
    terraform: bool = False,
) -> str:
    """One diagnostic in its box, with a newline at the end."""
    paint = Painter(colour)
    level = _level(diagnostic, terraform=terraform)
    word, tone = f"{level.value.capitalize()}: ", _TONES[level]
    room = width - 2 if width else 0
    first_line, *further_lines = wrap(f"{word}{harmless(diagnostic.summary)}", room)
    inner = [f"{paint(word, 'bold', tone)}{paint(first_line.removeprefix(word), 'bold')}"]
    inner += [paint(line, "bold") for line in further_lines]
    place = _place(diagnostic, files, paint, room)
    if place:
        inner += ["", *place]
    if diagnostic.detail:
        inner += ["", *wrap(harmless(diagnostic.detail), room)]
    bar = paint("│", tone)
    lines = [f"{bar} {line}" if line else bar for line in inner]
    return "\n".join([paint("╷", tone), *lines, paint("╵", tone), ""])


_TONES: Final = {Level.ERROR: "red", Level.WARNING: "yellow", Level.ADVICE: "cyan", Level.NOTE: "cyan"}


def _level(diagnostic: Diagnostic, *, terraform: bool) -> Level:
    level = level_of(diagnostic)
    return Level.WARNING if terraform and level is not Level.ERROR else level


def _place(diagnostic: Diagnostic, files: Mapping[str, SourceFile], paint: Painter, width: int) -> list[str]:
    """The address, the file with the source lines, and what was known there."""
    lines = indented(f"  with {harmless(diagnostic.address)},", 7, width) if diagnostic.address else []
    subject = diagnostic.subject
    if subject is None:
        return [*lines, *_notes(diagnostic, paint, width)]
    inside = f", in {harmless(diagnostic.block)}" if diagnostic.block else ""
    lines += indented(f"  on {_file(subject)} line {subject.start.line}{inside}:", 5, width)
    snippet = snippet_of(diagnostic, files)
    if snippet is None:
        lines.append("  (source code not available)")
    else:
        room = width - _NUMBER if width else LONGEST_LINE
        for offset, line in enumerate(snippet.highlighted()):
            before, marked, after = line
            # A line may be a whole file: no more of it is made fit for the screen than can be shown.
            most = 4 * room + 16
            parts = [_on_screen(part) for part in (before[-most:], marked[:most], after[:most])]
            before, marked, after = _around(parts, room)
            text = f"{before}{paint(marked, 'underline')}{after}"
            lines.append(f"{snippet.start_line + offset:4d}: {text}".rstrip())
        if snippet.more:
            lines.append(f"      ... ({snippet.more} more {form(snippet.more, 'line')})")
    return [*lines, *_notes(diagnostic, paint, width)]


def _on_screen(source: str) -> str:
    """Source as it takes columns: a tab takes more than one."""
    return harmless(source).replace("\t", "    ")


def _around(parts: Sequence[str], room: int) -> tuple[str, str, str]:
    """A line of source, cut to what is about the mark when it has more columns than there is room for."""
    before, marked, after = parts
    total = columns(before) + columns(marked) + columns(after)
    if total <= room:
        return before, marked, after
    # What is marked comes first, then what stands before it, then what follows, a third of the room each
    # at least where they need it.
    third = room // 3
    marked = _head(marked, room - min(columns(before), third) - min(columns(after), third))
    before = _tail(before, room - columns(marked) - min(columns(after), third))
    return before, marked, _head(after, room - columns(marked) - columns(before))


def _head(text: str, room: int) -> str:
    """How a text begins, in so many columns."""
    if columns(text) <= room:
        return text
    head = text[: max(0, room - len(_CUT))]
    while columns(head) > room - len(_CUT):
        head = head[:-1]
    return f"{head}{_CUT}"


def _tail(text: str, room: int) -> str:
    """How a text ends, in so many columns."""
    if columns(text) <= room:
        return text
    tail = text[-(room - len(_CUT)) :]
    while columns(tail) > room - len(_CUT):
        tail = tail[1:]
    return f"{_CUT}{tail}"


def _notes(diagnostic: Diagnostic, paint: Painter, width: int) -> list[str]:
    """What the sub-expressions were worth, and the function at work."""
    if not diagnostic.values and not diagnostic.function:
        return []
    bar = f"    {paint('│', 'grey')} "
    inner = width - columns(bar) if width else 0
    lines = [f"    {paint('├────────────────', 'grey')}"]
    if diagnostic.function:
        name, bracket, arguments = harmless(diagnostic.function).partition("(")
        lines.append(f"{bar}while calling {paint(name, 'bold')}{bracket}{arguments}")
    for note in sorted(diagnostic.values, key=lambda note: note.traversal):
        traversal = harmless(note.traversal)
        first_line, *further_lines = indented(f"{traversal} {harmless(note.statement)}", 2, inner)
        painted = paint(traversal, "bold") if first_line.startswith(traversal) else ""
        lines += [
            f"{bar}{painted}{first_line.removeprefix(traversal)}",
            *(f"{bar}{line}" for line in further_lines),
        ]
    return lines


def consolidate(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Warnings with one summary as one, the first, saying how many more there are.

    Errors stay one by one, and so do warnings without a place in the source.
    """
    shown: list[Diagnostic] = []
    first_of_kind: dict[tuple[str, str], int] = {}
    similar: Counter[int] = Counter()
    for diagnostic in diagnostics:
        if diagnostic.severity is Severity.WARNING and diagnostic.subject is not None:
            kind = (diagnostic.id, diagnostic.summary)
            if kind in first_of_kind:
                similar[first_of_kind[kind]] += 1
                continue
            first_of_kind[kind] = len(shown)
        shown.append(diagnostic)
    for index, count in similar.items():
        shown[index] = _with_note(shown[index], count)
    return shown


def _with_note(warning: Diagnostic, similar: int) -> Diagnostic:
    """A warning that says how many similar ones there are."""
    note = "one more similar warning" if similar == 1 else f"{similar} more similar warnings"
    return replace(warning, detail=f"{warning.detail}\n\n(and {note} elsewhere)".lstrip("\n"))


def _file(place: Span) -> str:
    """The name of a file, which may hold a line end."""
    return harmless(place.filename).replace("\n", "\\n")


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
    """Bytes of source as text, whatever they are."""
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
    first_line, last_line = _line_range(subject, diagnostic.context, data, starts)
    last_shown = min(last_line, first_line + MAX_LINES - 1)
    begin = starts[first_line]
    end = starts[last_shown + 1] - 1 if last_shown + 1 < len(starts) else len(data)
    highlight_start = min(max(subject.start.byte - begin, 0), end - begin)
    return Snippet(
        code=data[begin:end].decode(errors="replace").replace("\r", ""),
        start_line=first_line + 1,
        highlight_start=highlight_start,
        highlight_end=min(max(subject.end.byte - begin, highlight_start), end - begin),
        more=last_line - last_shown,
    )


def _line_range(subject: Span, context: Span | None, data: bytes, starts: tuple[int, ...]) -> tuple[int, int]:
    """The numbers (from 0) of the first and the last line to show."""

    def line_at(byte: int) -> int:
        return bisect_right(starts, min(max(byte, 0), len(data))) - 1

    first_line = line_at(subject.start.byte)
    last_line = line_at(max(subject.end.byte - 1, subject.start.byte))
    if context is not None and context.filename == subject.filename:
        # A long construct must not push the subject out of sight.
        first_line = max(min(first_line, line_at(context.start.byte)), first_line - 3)
        last_line = max(last_line, line_at(max(context.end.byte - 1, context.start.byte)))
    return first_line, last_line
