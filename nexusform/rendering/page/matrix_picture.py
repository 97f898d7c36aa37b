"""Matrix of a section as an SVG drawing: a line per row, a coloured box per cell."""

from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.phrases import format_count, join_texts
from nexusform.rendering.notation.markup import Markup, build_svg_element, join_markup
from nexusform.rendering.page.svg_elements import (
    MARGIN,
    MAX_BYTES,
    render_document,
    render_text,
    translate_parts,
)
from nexusform.rendering.report.report_tree import ActionText, Row, Section, Table, get_plain_text

_ACTION_COLOURS: Final = {"": "#ffffff", "place": "#dafbe1", "keep": "#f3f4f6", "remove": "#ffebe9"}
_OTHER_COLOUR: Final = "#fff8c5"
_CELL_WIDTH: Final = 132
_CELL_HEIGHT: Final = 40
_LETTER_WIDTH: Final = 7.4  # pixels, about
# Positions of texts in pixels: heading and names of columns below the margin, first row, text
# in a cell.
_LABEL_GAP: Final = 16
_HEADING_OFFSET: Final = 16
_COLUMN_OFFSET: Final = 42
_ROWS_OFFSET: Final = 50
_ROW_TEXT_OFFSET: Final = 22
_CELL_GAP: Final = 4
_CELL_INDENT: Final = 8
_CHANGE_OFFSET: Final = 16
_DETAIL_OFFSET: Final = 30
# Bytes reserved for parts outside the lines.
_FRAME_BYTES: Final = 200_000
_LINE_OVERHEAD: Final = 60


def render_matrix_picture(section: Section, verdict: str) -> str:
    """Render the matrix of a section as an SVG document; "" for a section without one."""
    for table in section.all_tables:
        if table.is_matrix:
            return _render_matrix(section, table, verdict)
    return ""


def _render_matrix(section: Section, table: Table, verdict: str) -> str:
    """Render the first rows of a matrix that fit into a picture, and name what it does not show."""
    row_names = [get_plain_text(row.cells[0]) for row in table.rows]
    label_width = round(max(map(len, row_names)) * _LETTER_WIDTH) + _LABEL_GAP
    offsets = [
        MARGIN + label_width + position * _CELL_WIDTH for position in range(len(table.headers) - 1)
    ]
    lines = _render_lines(table, offsets)
    notes = [f"{group.name}: not shown." for group in section.groups]
    # The picture has a maximum size.
    if len(lines) < len(row_names):
        total = format_count(len(row_names), table.headers[0].lower())
        notes.insert(
            0,
            f"{len(lines):,} of {total} are shown, changed ones first: the whole picture would "
            "exceed 5 MB.",
        )
    note = " ".join(notes)
    heading = join_texts((section.title, note), ". ")
    parts = [render_text(MARGIN, MARGIN + _HEADING_OFFSET, heading, "heading")]
    for name, offset in zip(table.headers[1:], offsets, strict=True):
        parts.append(render_text(offset + _CELL_GAP, MARGIN + _COLUMN_OFFSET, name, "rack"))
    top = MARGIN + _ROWS_OFFSET
    for line in lines:
        parts.append(translate_parts([line], 0, top))
        top += _CELL_HEIGHT
    width = label_width + len(offsets) * _CELL_WIDTH
    description = join_texts((table.summary, note), " ")
    return render_document(section.title, description, parts, width, top + MARGIN, verdict)


def _render_lines(table: Table, offsets: Sequence[int]) -> list[Markup]:
    """Render a line per row, as many as fit into MAX_BYTES."""
    lines: list[Markup] = []
    remaining_bytes = MAX_BYTES - _FRAME_BYTES
    for row in table.rows:
        line = _render_line(row, offsets)
        remaining_bytes -= len(line) + _LINE_OVERHEAD
        if remaining_bytes < 0:
            break
        lines.append(line)
    return lines


def _render_line(row: Row, offsets: Sequence[int]) -> Markup:
    name, *cells = row.cells
    drawings = [
        translate_parts(_render_cell(cell), offset, 0)
        for cell, offset in zip(cells, offsets, strict=True)
        if isinstance(cell, ActionText)
    ]
    return join_markup(
        render_text(MARGIN, _ROW_TEXT_OFFSET, get_plain_text(name), "rack"), drawings
    )


def _render_cell(cell: ActionText) -> list[Markup]:
    """Render one cell in the colour of its action, with its reason as a tooltip."""
    box = build_svg_element(
        "rect",
        class_="cell",
        width=_CELL_WIDTH - _CELL_GAP,
        height=_CELL_HEIGHT - _CELL_GAP,
        style=f"fill:{_ACTION_COLOURS.get(cell.action, _OTHER_COLOUR)}",
    )
    parts = [build_svg_element("title", cell.reason), box] if cell.reason else [box]
    if cell.action:
        parts.append(render_text(_CELL_INDENT, _CHANGE_OFFSET, cell.text, "rack"))
        parts.append(render_text(_CELL_INDENT, _DETAIL_OFFSET, cell.detail, "slim"))
    elif cell.text:
        parts.append(render_text(_CELL_INDENT, _ROW_TEXT_OFFSET, cell.text, "slim"))
    return parts
