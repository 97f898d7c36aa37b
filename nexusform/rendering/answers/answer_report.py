"""Format-neutral report of an answer (verdict, facts, sections with tables), as terminal text and Markdown;
`answer_page.py` renders HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.levels import Impact
from nexusform.diagnostics.phrases import group_ranges
from nexusform.json_data.record_forms import RecordForm
from nexusform.placement_kinds.kinds import build_location_document
from nexusform.placement_kinds.vm_kind import format_cells
from nexusform.rendering.notation.colours import (
    Painter,
    compute_column_widths,
    count_columns,
    escape_control_characters,
    fill_to_width,
    wrap_line,
    wrap_lines,
)
from nexusform.rendering.pull_request.markdown_parts import disable_commands, escape_prose
from nexusform.scheduling.racks.vms import Placement
from nexusform.snapshots.availability import Replacement


class Row(Struct, frozen=True):
    """One row of a table; `is_finding` marks a part of the finding."""

    cells: tuple[str, ...]
    is_finding: bool = False


class Table(Struct, frozen=True):
    """Headers, rows, and the columns with figures (aligned to the right)."""

    headers: tuple[str, ...]
    rows: tuple[Row, ...]
    figures: frozenset[int] = frozenset()


class Section(Struct, frozen=True):
    """A section of a report. An `is_folded` one is detail: closed at first if the format allows. `commands`
    are for copying.
    """

    title: str
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    table: Table | None = None
    is_folded: bool = False
    is_finding: bool = False


class AnswerReport(Struct, frozen=True):
    """The whole answer. `is_finding` means that the verdict is a finding; `impact` is set for answers about a
    plan.
    """

    title: str
    verdict: str
    is_finding: bool
    facts: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    impact: Impact | None = None

    @property
    def alert_level(self) -> Impact | None:
        """The impact, the highest one for a rejected plan; None without a plan."""
        return Impact.LOSES if self.is_finding and self.impact is not None else self.impact


def format_spans(numbers: Iterable[int]) -> str:
    """Format ascending numbers as `1-3, 5`."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in group_ranges(numbers))


def format_short_location(placement: Placement) -> str:
    """Format `rack7-bm06 / cell 1`, with the rack first if the machine name does not contain it."""
    prefix = "" if placement.machine.startswith(placement.rack) else f"{placement.rack} / "
    cells = format_cells(placement)
    return f"{prefix}{placement.machine} / {cells}" if cells else f"{prefix}{placement.machine}"


# A re-created node as data: old and new location, null without capacity.
REPLACEMENT_FORM: Final = RecordForm(
    Replacement,
    "node=vm.name from=vm.placement to=placement",
    {"from": build_location_document, "to": build_location_document},
)


# --- formats -----------------------------------------------------------------------------------


_INDENT = "  "
_IMPACT_COLOURS = {Impact.NONE: "green", Impact.MOVES: "yellow", Impact.LOSES: "red"}
MAX_DETAIL_ROWS = 12  # of a folded section
MAX_FOLDED = 12  # folded sections without findings; more would hide the others


def render_report_text(report: AnswerReport, *, colour: bool = False, width: int = 80) -> str:
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


def render_report_markdown(report: AnswerReport) -> str:
    """Render the whole report as GitHub-flavoured Markdown with a final newline."""
    blocks = [f"### {escape_prose(report.title)}", _render_markdown_verdict(report)]
    if report.facts:
        blocks.append("\n".join(f"- {escape_prose(fact)}" for fact in report.facts))
    blocks += ["\n\n".join(_render_markdown_section(section)) for section in report.sections]
    return disable_commands("\n\n".join(blocks) + "\n")


def _render_markdown_verdict(report: AnswerReport) -> str:
    """Render the verdict in an alert box with the impact, or after a mark."""
    if report.alert_level is not None:
        return f"> [!{report.alert_level.value.upper()}]\n> **{escape_prose(report.verdict)}**"
    mark = "\u274c" if report.is_finding else "\u2705"
    return f"{mark} **{escape_prose(report.verdict)}**"


def _render_markdown_section(section: Section) -> Iterable[str]:
    """Render the text blocks of one section."""
    title = f"\u274c {escape_prose(section.title)}" if section.is_finding else escape_prose(section.title)
    yield f"<details><summary>{title}</summary>" if section.is_folded else f"#### {title}"
    if section.lines:
        yield _render_markdown_lines([escape_prose(line.strip()) for line in section.lines])
    if section.commands:
        yield "\n".join(("```sh", *(escape_control_characters(command) for command in section.commands), "```"))
    if section.table is not None:
        yield _render_markdown_table(section.table)
    if section.is_folded:
        yield "</details>"


def _render_markdown_lines(lines: Sequence[str]) -> str:
    # A list separates lines; a single line is a paragraph.
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def _render_markdown_table(table: Table) -> str:
    rule = ["---:" if column in table.figures else "---" for column in range(len(table.headers))]
    rows = [
        [escape_prose(header) for header in table.headers],
        rule,
        *(_render_markdown_cells(row) for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _render_markdown_cells(row: Row) -> list[str]:
    """Render the cells of a row as Markdown, bold for a finding."""
    cells = [escape_prose(cell) for cell in row.cells]
    return [f"**{cell}**" if cell else cell for cell in cells] if row.is_finding else cells
