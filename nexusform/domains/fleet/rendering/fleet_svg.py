"""SVG image of a fleet plan without a site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.diagnostics.phrases import format_count
from nexusform.domains.fleet.rendering.fleet_parts import (
    FleetMatrix,
    MatrixCell,
    build_fleet_matrix,
    format_binding_change,
    format_binding_scores,
)
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.notation.markup import Markup, build_svg_element, join_markup
from nexusform.rendering.page.svg_map import MARGIN, MAX_BYTES, render_document, render_text, translate_parts

_ACTION_COLOURS: Final = {
    PlacementAction.PLACE: "#dafbe1",
    PlacementAction.KEEP: "#f3f4f6",
    PlacementAction.REMOVE: "#ffebe9",
}
_CELL_WIDTH: Final = 132
_CELL_HEIGHT: Final = 40
_LETTER_WIDTH: Final = 7.4  # pixels, about
_FRAME_BYTES: Final = 200_000  # bytes reserved for parts outside the lines
_LINE_OVERHEAD: Final = 60
_OMITTED_NOTE: Final = (
    "{shown:,} of {all:,} placements are shown, changed ones first: the whole picture would exceed 5 MB."
)


def render_fleet_svg(plan: Plan, verdict: str) -> str:
    """Render placements as rows and clusters as columns, with the changes of bindings; "" without any."""
    matrix = build_fleet_matrix(plan)
    if not matrix.clusters:
        return ""
    label = round(max(len(placement) for placement in matrix.placements) * _LETTER_WIDTH) + 16
    columns = {name: MARGIN + label + position * _CELL_WIDTH for position, name in enumerate(matrix.clusters)}
    lines = _render_lines(matrix, columns)
    omitted_count = len(matrix.placements) - len(lines)
    notes = [_OMITTED_NOTE.format(shown=len(lines), all=len(matrix.placements))] if omitted_count else []
    if matrix.unpicked:
        notes.append(f"{format_count(len(matrix.unpicked), 'cluster')} without a placement: not shown.")
    note = " ".join(notes)
    parts = [render_text(MARGIN, MARGIN + 16, f"Fleet. {note}" if note else "Fleet", "heading")]
    parts += [render_text(offset + 4, MARGIN + 42, name, "rack") for name, offset in columns.items()]
    top = MARGIN + 50
    for line in lines:
        parts.append(translate_parts([line], 0, top))
        top += _CELL_HEIGHT
    binding_count = sum(cell.binding is not None for cell in matrix.cells.values())
    counts = (
        format_count(len(matrix.placements), "placement"),
        format_count(len(matrix.clusters), "cluster"),
        format_count(binding_count, "binding"),
    )
    width = label + len(columns) * _CELL_WIDTH
    description = " ".join(filter(None, (f"{', '.join(counts)}.", note)))
    return render_document("Fleet", description, parts, width, top + MARGIN, verdict)


def _render_lines(matrix: FleetMatrix, columns: Mapping[str, int]) -> list[Markup]:
    """Render a line per placement in order; if there are too many, changed placements have priority."""
    changed = {
        placement
        for (placement, _), cell in matrix.cells.items()
        if cell.binding is not None and cell.binding.action is not PlacementAction.KEEP
    }
    lines: dict[str, Markup] = {}
    remaining_bytes = MAX_BYTES - _FRAME_BYTES
    for placement in sorted(matrix.placements, key=lambda name: name not in changed):
        cells = [
            translate_parts(_render_cell(matrix.get_cell(placement, cluster)), offset, 0)
            for cluster, offset in columns.items()
        ]
        line = join_markup(render_text(MARGIN, 22, placement, "rack"), cells)
        remaining_bytes -= len(line) + _LINE_OVERHEAD
        if remaining_bytes < 0:
            break
        lines[placement] = line
    return [lines[placement] for placement in matrix.placements if placement in lines]


def _render_cell(cell: MatrixCell) -> list[Markup]:
    """Render one cell: white without a binding, else coloured by its change."""
    row = cell.binding
    fill = "#ffffff" if row is None else _ACTION_COLOURS.get(row.action, "#fff8c5")
    width, height = _CELL_WIDTH - 4, _CELL_HEIGHT - 4
    parts = [build_svg_element("title", cell.reason)] if cell.reason else []
    parts.append(build_svg_element("rect", class_="cell", width=width, height=height, style=f"fill:{fill}"))
    if row is not None:
        parts.append(render_text(8, 16, format_binding_change(row), "rack"))
        parts.append(render_text(8, 30, format_binding_scores(row), "slim"))
    elif cell.rejection:
        parts.append(render_text(8, 22, f"rejected: {cell.rule}" if cell.rule else "not picked", "slim"))
    return parts
