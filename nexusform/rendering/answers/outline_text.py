"""Answers as terminal text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nexusform.rendering.answers.outline import Outline, Section, Table
from nexusform.rendering.notation.colours import Painter, column_widths, columns, harmless, pad, wrap

_INDENT = "  "
MOST_ROWS = 12  # of a part that is detail
MOST_FOLDED = 12  # parts that are detail and no finding; more would bury the rest


def outline_text(outline: Outline, *, colour: bool = False, width: int = 80) -> str:
    """The whole answer, with a newline at the end."""
    paint = Painter(colour)
    tone = "red" if outline.bad else "green"
    lines = [paint(harmless(outline.title), "bold")]
    lines += [paint(line, "bold", tone) for line in _wrapped(outline.verdict, width)]
    for fact in outline.facts:
        lines += _hanging(fact, width)
    details = [section for section in outline.sections if section.folded and not section.bad]
    left_out = details[MOST_FOLDED:]
    for section in outline.sections:
        if section not in left_out:
            lines += ["", *_section(section, paint, width)]
    if left_out:
        first = harmless(left_out[0].title)
        lines += ["", f"{len(left_out)} more parts, from: {first}. -format=markdown shows all."]
    return "\n".join(lines) + "\n"


def _section(section: Section, paint: Painter, width: int) -> Iterable[str]:
    """The lines of one section."""
    styles = ("bold", "red") if section.bad else ("bold",)
    yield paint(harmless(section.title), *styles)
    inner_width = width - len(_INDENT)
    for line in section.lines:
        yield from (f"{_INDENT}{part}" for part in _wrapped(line, inner_width))
    yield from (f"{_INDENT}{harmless(command)}" for command in section.commands)
    if section.table is None:
        return
    table = _shortened(section.table) if section.folded else section.table
    yield from (f"{_INDENT}{line}" for line in table_lines(table, paint, inner_width))
    left_out = len(section.table.rows) - len(table.rows)
    if left_out:
        yield f"{_INDENT}... and {left_out} more; -format=markdown shows all."


def _shortened(table: Table) -> Table:
    """A table with the rows that are part of the finding, or its first ones, where it has many."""
    if len(table.rows) <= MOST_ROWS:
        return table
    bad = tuple(row for row in table.rows if row.bad)
    return replace(table, rows=(bad or table.rows)[:MOST_ROWS])


def table_lines(table: Table, paint: Painter, width: int) -> list[str]:
    """The table's lines; where it is wider than `width`, every row as lines of `head: value`."""
    heads = _harmless(table.heads)
    rows = [_harmless(row.cells) for row in table.rows]
    widths = column_widths([heads, *rows])
    if sum(widths) + 2 * (len(widths) - 1) > width:
        return _records(table, heads, rows, paint, width)
    lines = [paint(_line(heads, widths, table.figures), "bold")]
    for row, cells in zip(table.rows, rows, strict=True):
        line = _line(cells, widths, table.figures)
        lines.append(paint(line, "red") if row.bad else line)
    return lines


def _harmless(cells: Iterable[str]) -> list[str]:
    return [harmless(cell) for cell in cells]


def _line(cells: Sequence[str], widths: Sequence[int], figures: frozenset[int]) -> str:
    padded = (pad(cell, widths[k], right=k in figures) for k, cell in enumerate(cells))
    return "  ".join(padded).rstrip()


def _records(
    table: Table, heads: Sequence[str], rows: Sequence[Sequence[str]], paint: Painter, width: int
) -> list[str]:
    """A table that is too wide, as a few lines per row."""
    lines: list[str] = []
    for row, cells in zip(table.rows, rows, strict=True):
        lines.append(paint(cells[0] or "-", "red" if row.bad else "bold"))
        parts = [f"{head}: {cell}" for head, cell in zip(heads[1:], cells[1:], strict=True) if cell]
        lines += [f"{_INDENT}{part}" for part in _packed(parts, width - len(_INDENT))]
    return lines


def _packed(parts: Iterable[str], width: int) -> Iterable[str]:
    """Parts joined by commas, as many to a line as fit."""
    line = ""
    for part in parts:
        if line and columns(line) + 2 + columns(part) > width:
            yield f"{line},"
            line = part
        else:
            line = f"{line}, {part}" if line else part
    if line:
        yield line


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(harmless(text), width)


def _hanging(text: str, width: int) -> Iterable[str]:
    first, *rest = _wrapped(text, width - 4)
    yield f"{_INDENT}- {first}"
    yield from (f"{_INDENT}  {line}" for line in rest)
