"""Report as terminal text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nexusform.diagnostics.levels import Impact
from nexusform.rendering.notation.colours import (
    Painter,
    compute_column_widths,
    count_columns,
    escape_control_characters,
    fill_to_width,
    wrap_line,
    wrap_lines,
)
from nexusform.rendering.report.report_tree import Report, Section, Table

_INDENT = "  "
_IMPACT_COLOURS = {Impact.NONE: "green", Impact.MOVES: "yellow", Impact.LOSES: "red"}
MAX_DETAIL_ROWS = 12  # of a folded section
MAX_FOLDED = 12  # folded sections without findings; more would hide the others


def render_report_text(report: Report, *, colour: bool = False, width: int = 80) -> str:
    """Render the whole report as text with a final newline."""
    paint = Painter(colour)
    colour_name = (
        _IMPACT_COLOURS[report.alert_level]
        if report.alert_level is not None
        else "red"
        if report.is_finding
        else "green"
    )
    lines = [paint(line, "bold") for line in _wrap_text(report.title, width)]
    lines += [paint(line, "bold", colour_name) for line in _wrap_text(report.verdict, width)]
    for fact in report.facts:
        lines += _render_fact(fact, width)
    details = [section for section in report.sections if section.is_folded and not section.is_finding]
    hidden_sections = details[MAX_FOLDED:]
    for section in report.sections:
        if section not in hidden_sections:
            lines += ["", *_render_section(section, paint, width)]
    if hidden_sections:
        first_title = escape_control_characters(hidden_sections[0].title)
        lines += ["", f"{len(hidden_sections)} more sections, from: {first_title}; -format=markdown lists all."]
    return "\n".join(lines) + "\n"


def _render_section(section: Section, paint: Painter, width: int) -> Iterable[str]:
    """Render the lines of one section."""
    styles = ("bold", "red") if section.is_finding else ("bold",)
    yield from (paint(line, *styles) for line in _wrap_text(section.title, width))
    inner_width = width - len(_INDENT)
    for line in section.lines:
        yield from (f"{_INDENT}{text}" for text in _wrap_text(line, inner_width))
    yield from (f"{_INDENT}{escape_control_characters(command)}" for command in section.commands)
    if section.table is None:
        return
    table = _truncate_table(section.table) if section.is_folded else section.table
    yield from (f"{_INDENT}{line}" for line in render_table(table, paint, inner_width))
    hidden_count = len(section.table.rows) - len(table.rows)
    if hidden_count:
        yield f"{_INDENT}... and {hidden_count} more; -format=markdown lists all."


def _truncate_table(table: Table) -> Table:
    """Return a table limited to the rows of the finding, or to its first rows."""
    if len(table.rows) <= MAX_DETAIL_ROWS:
        return table
    finding_rows = tuple(row for row in table.rows if row.is_finding)
    return replace(table, rows=(finding_rows or table.rows)[:MAX_DETAIL_ROWS])


def render_table(table: Table, paint: Painter, width: int) -> list[str]:
    """Render a table; if wider than `width`, each row as lines of `header: value`."""
    headers = _escape_cells(table.headers)
    rows = [_escape_cells(row.cells) for row in table.rows]
    widths = compute_column_widths([headers, *rows])
    if sum(widths) + 2 * (len(widths) - 1) > width:
        return _render_records(table, headers, rows, paint, width)
    lines = [paint(_render_row(headers, widths, table.figures), "bold")]
    for row, cells in zip(table.rows, rows, strict=True):
        line = _render_row(cells, widths, table.figures)
        lines.append(paint(line, "red") if row.is_finding else line)
    return lines


def _escape_cells(cells: Iterable[str]) -> list[str]:
    return [escape_control_characters(cell) for cell in cells]


def _render_row(cells: Sequence[str], widths: Sequence[int], figures: frozenset[int]) -> str:
    """Render a row with cells filled to the column widths."""
    cell_texts = (fill_to_width(cell, widths[column], right=column in figures) for column, cell in enumerate(cells))
    return "  ".join(cell_texts).rstrip()


def _render_records(
    table: Table, headers: Sequence[str], rows: Sequence[Sequence[str]], paint: Painter, width: int
) -> list[str]:
    """Render a wide table as a few lines per row."""
    lines: list[str] = []
    for row, cells in zip(table.rows, rows, strict=True):
        lines.append(paint(cells[0] or "-", "red" if row.is_finding else "bold"))
        clauses = [f"{header}: {cell}" for header, cell in zip(headers[1:], cells[1:], strict=True) if cell]
        lines += [f"{_INDENT}{clause}" for clause in _join_clauses(clauses, width - len(_INDENT))]
    return lines


def _join_clauses(clauses: Iterable[str], width: int) -> Iterable[str]:
    """Join clauses by commas, as many per line as fit; longer ones are wrapped."""
    line = ""
    for clause in clauses:
        # A comma may follow.
        if line and count_columns(line) + count_columns(clause) + 3 > width:
            yield from wrap_line(f"{line},", 2, width)
            line = clause
        else:
            line = f"{line}, {clause}" if line else clause
    if line:
        yield from wrap_line(line, 2, width)


def _wrap_text(text: str, width: int) -> list[str]:
    return wrap_lines(escape_control_characters(text), width)


def _render_fact(text: str, width: int) -> Iterable[str]:
    """Render a fact as a list item with indented further lines."""
    first_line, *further_lines = _wrap_text(text, width - 4)
    yield f"{_INDENT}- {first_line}"
    yield from (f"{_INDENT}  {line}" for line in further_lines)
