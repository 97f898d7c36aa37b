"""Diagnostics as text, in OpenTofu's box with source lines."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity, SourceFile, Span
from nexusform.diagnostics.levels import Level, get_diagnostic_level
from nexusform.diagnostics.names import escape_control_characters, escape_name
from nexusform.diagnostics.phrases import enclose, select_word_form
from nexusform.rendering.notation.colours import (
    Painter,
    count_columns,
    truncate_around,
    wrap_line,
    wrap_lines,
)

DEFAULT_WIDTH = 78
# Number of columns of a line number and its separator.
_NUMBER_WIDTH = 6
MAX_LINES = 12
# More equal errors share a box.
_MAX_LISTED_ERRORS: Final = 3
_LEVEL_COLOURS: Final = {
    Level.ERROR: "red",
    Level.WARNING: "yellow",
    Level.ADVICE: "cyan",
    Level.NOTE: "cyan",
}


def render_diagnostics(
    diagnostics: Iterable[Diagnostic],
    files: Mapping[str, SourceFile],
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
    *,
    terraform: bool = False,
) -> str:
    """Render all diagnostics by level, the most severe first, with similar ones merged.

    `terraform` uses errors and warnings only, errors last, as Terraform does. `width` is in
    terminal columns. Return "" without diagnostics.
    """
    # They are sorted below: the most severe first, which Terraform shows last.
    merged = merge_similar_warnings(diagnostics)
    if not terraform and len(merged) > _MAX_LISTED_ERRORS:
        from nexusform.rendering.report.finding_entries import merge_equal_errors

        merged = merge_equal_errors(merged)
    merged.sort(
        key=lambda diagnostic: _get_level(diagnostic, terraform=terraform).order, reverse=terraform
    )
    return "".join(
        render_diagnostic(diagnostic, files, colour=colour, width=width, terraform=terraform)
        for diagnostic in merged
    )


def render_diagnostic(
    diagnostic: Diagnostic,
    files: Mapping[str, SourceFile],
    *,
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
    terraform: bool = False,
) -> str:
    """Render one diagnostic in its box, with a newline at the end.

    With `terraform`, only Terraform's two levels are used.
    """
    paint = Painter(colour)
    level = _get_level(diagnostic, terraform=terraform)
    title = f"{level.value.capitalize()}: "
    colour_name = _LEVEL_COLOURS[level]
    # The text is right of the bar.
    inner_width = width - 2
    first_line, *further_lines = wrap_lines(
        f"{title}{escape_name(diagnostic.summary)}", inner_width
    )
    inner = [f"{paint(title, 'bold', colour_name)}{paint(first_line.removeprefix(title), 'bold')}"]
    inner += [paint(line, "bold") for line in further_lines]
    location = _render_location(diagnostic, files, paint, inner_width)
    if location:
        inner += ["", *location]
    if diagnostic.detail:
        inner += ["", *wrap_lines(escape_control_characters(diagnostic.detail), inner_width)]
    bar = paint("│", colour_name)
    lines = [f"{bar} {line}" if line else bar for line in inner]
    return "\n".join([paint("╷", colour_name), *lines, paint("╵", colour_name), ""])


def _get_level(diagnostic: Diagnostic, *, terraform: bool) -> Level:
    """Return the level; Terraform has two of them, so there anything but an error is a warning."""
    level = get_diagnostic_level(diagnostic)
    return Level.WARNING if terraform and level is not Level.ERROR else level


def _render_location(
    diagnostic: Diagnostic, files: Mapping[str, SourceFile], paint: Painter, width: int
) -> list[str]:
    """Render the address, the file with its source lines, and the values in the expression.

    Without a position there is no file.
    """
    address = escape_name(diagnostic.address)
    subject = diagnostic.subject
    lines = wrap_line(f"  with {address},", len("  with "), width) if address else []
    if subject is None:
        return [*lines, *_render_expression_values(diagnostic, paint, width)]
    block_note = enclose(", in ", escape_name(diagnostic.block))
    filename = escape_name(subject.filename)
    lines += wrap_line(
        f"  on {filename} line {subject.start.line}{block_note}:", len("  on "), width
    )
    snippet = extract_snippet(diagnostic, files)
    if snippet is None:
        lines.append("  (source code not available)")
    else:
        line_width = width - _NUMBER_WIDTH
        for offset, line in enumerate(snippet.split_lines()):
            before, highlight, after = line
            # A line may be a whole file, so escape only its visible part. Some characters have no
            # width: allow more.
            maximum = 4 * line_width + 16
            visible_parts = (before[-maximum:], highlight[:maximum], after[:maximum])
            parts = [
                escape_control_characters(part).replace("\t", "    ") for part in visible_parts
            ]
            before, highlight, after = truncate_around(parts, line_width)
            text = f"{before}{paint(highlight, 'underline')}{after}"
            lines.append(f"{snippet.start_line + offset:4d}: {text}".rstrip())
        if snippet.hidden_lines:
            lines.append(
                f"      ... ({snippet.hidden_lines} more "
                f"{select_word_form(snippet.hidden_lines, 'line')})"
            )
    return [*lines, *_render_expression_values(diagnostic, paint, width)]


def _render_expression_values(diagnostic: Diagnostic, paint: Painter, width: int) -> list[str]:
    """Render the values of sub-expressions and the called function.

    Return [] if the diagnostic has neither.
    """
    if not diagnostic.values and not diagnostic.function:
        return []
    bar = f"    {paint('│', 'grey')} "
    inner_width = width - count_columns(bar)
    lines = [f"    {paint('├────────────────', 'grey')}"]
    if diagnostic.function:
        name, bracket, arguments = escape_name(diagnostic.function).partition("(")
        lines.append(f"{bar}while calling {paint(name, 'bold')}{bracket}{arguments}")
    for note in sorted(diagnostic.values, key=lambda note: note.traversal):
        traversal = escape_name(note.traversal)
        first_line, *further_lines = wrap_line(
            f"{traversal} {escape_name(note.statement)}", 2, inner_width
        )
        # "": it is wrapped.
        coloured = paint(traversal, "bold") if first_line.startswith(traversal) else ""
        lines += [
            f"{bar}{coloured}{first_line.removeprefix(traversal)}",
            *(f"{bar}{line}" for line in further_lines),
        ]
    return lines


def merge_similar_warnings(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Merge warnings with the same id and summary into the first one.

    Its detail has the number of further ones.

    Errors and warnings without a source location stay separate.
    """
    groups: dict[object, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        is_located_warning = (
            diagnostic.severity is Severity.WARNING and diagnostic.subject is not None
        )
        # A number equals no other key.
        key = (diagnostic.id, diagnostic.summary) if is_located_warning else len(groups)
        groups.setdefault(key, []).append(diagnostic)
    merged: list[Diagnostic] = []
    for first, *others in groups.values():
        count = len(others)
        note = "one more similar warning" if count == 1 else f"{count} more similar warnings"
        detail = f"{first.detail}\n\n(and {note} elsewhere)".lstrip("\n")
        merged.append(replace(first, detail=detail) if others else first)
    return merged


class SourceSnippet(Struct, frozen=True):
    """Whole source lines from `start_line` on.

    The highlight is a byte range, `hidden_lines` a number.
    """

    code: str
    start_line: int
    highlight_start: int
    highlight_end: int
    hidden_lines: int = 0

    def split_lines(self) -> list[tuple[str, str, str]]:
        """Return each line as (before, highlighted, after)."""
        lines: list[tuple[str, str, str]] = []
        # Of the line, in bytes like the highlight.
        offset = 0
        for line in self.code.encode().split(b"\n"):
            # The highlight is limited to this line.
            low = min(max(self.highlight_start - offset, 0), len(line))
            high = min(max(self.highlight_end - offset, low), len(line))
            # A limit may be inside of a character.
            before = line[:low].decode(errors="replace")
            highlight = line[low:high].decode(errors="replace")
            lines.append((before, highlight, line[high:].decode(errors="replace")))
            offset += len(line) + 1
        return lines


@lru_cache(maxsize=32)
def _index_line_starts(file: SourceFile) -> tuple[bytes, tuple[int, ...]]:
    """Return the bytes of a file and the start of each line, cached per file."""
    data = file.text.encode()
    return data, (0, *(newline.end() for newline in re.finditer(b"\n", data)))


def extract_snippet(
    diagnostic: Diagnostic, files: Mapping[str, SourceFile]
) -> SourceSnippet | None:
    """Extract the source lines of the subject of a diagnostic, at most MAX_LINES of them.

    Return None without a subject or its file, or if the file is too short by now.
    """
    subject = diagnostic.subject
    file = files.get(subject.filename) if subject else None
    if subject is None or file is None:
        return None
    data, starts = _index_line_starts(file)
    if subject.start.byte > len(data):
        return None
    first_line, last_line = _find_line_range(subject, diagnostic.context, data, starts)
    last_visible = min(last_line, first_line + MAX_LINES - 1)
    begin = starts[first_line]
    end = starts[last_visible + 1] - 1 if last_visible + 1 < len(starts) else len(data)
    highlight_start = min(max(subject.start.byte - begin, 0), end - begin)
    return SourceSnippet(
        code=data[begin:end].decode(errors="replace").replace("\r", ""),
        start_line=first_line + 1,
        highlight_start=highlight_start,
        highlight_end=min(max(subject.end.byte - begin, highlight_start), end - begin),
        hidden_lines=last_line - last_visible,
    )


def _find_line_range(
    subject: Span, context: Span | None, data: bytes, starts: tuple[int, ...]
) -> tuple[int, int]:
    """Return the numbers (from 0) of the first and the last source line to show for an error.

    `subject` is the wrong part, `context` the block around it, if known. `data` is the file, and
    `starts` the position of each line in it.
    """

    def find_line(byte: int) -> int:
        """Return the number of the line of a byte."""
        return bisect_right(starts, min(max(byte, 0), len(data))) - 1

    first_line = find_line(subject.start.byte)
    last_line = find_line(max(subject.end.byte - 1, subject.start.byte))
    if context is not None and context.filename == subject.filename:
        # Show the construct around the subject, but at most three lines before it: the end of a
        # long snippet is cut.
        first_line = max(min(first_line, find_line(context.start.byte)), first_line - 3)
        last_line = max(last_line, find_line(max(context.end.byte - 1, context.start.byte)))
    return first_line, last_line
