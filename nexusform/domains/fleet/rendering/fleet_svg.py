"""The picture of a plan of a fleet without a site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.domains.fleet.rendering.fleet_parts import (
    FleetMatrix,
    Square,
    fleet_matrix,
    scores_text,
    state_text,
)
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.notation.markup import Markup, joined, shape
from nexusform.rendering.page.svg_map import MARGIN, document, lettering, moved
from nexusform.rendering.page.svg_racks import MOST_BYTES
from nexusform.words import counted

_FATES: Final = {
    PlacementAction.PLACE: "#dafbe1",
    PlacementAction.KEEP: "#f3f4f6",
    PlacementAction.REMOVE: "#ffebe9",
}
_SQUARE_WIDTH: Final = 132
_SQUARE_HEIGHT: Final = 40
_LETTER: Final = 7.4  # pixels, about
_FRAME: Final = 200_000  # bytes for what stands around the lines
_AROUND_A_LINE: Final = 60
_LEFT_OUT: Final = (
    "{shown:,} of {all:,} placements are drawn, those first in which something changes: "
    "with all this picture would be larger than 5 MB."
)


def fleet_svg(plan: Plan, verdict: str) -> str:
    """Placements down, clusters across, and what becomes of bindings; "" where nothing is to be drawn."""
    matrix = fleet_matrix(plan)
    if not matrix.clusters:
        return ""
    label = round(max(len(placement) for placement in matrix.placements) * _LETTER) + 16
    columns = {name: MARGIN + label + at * _SQUARE_WIDTH for at, name in enumerate(matrix.clusters)}
    lines = _lines(matrix, columns)
    left_out = len(matrix.placements) - len(lines)
    notes = [_LEFT_OUT.format(shown=len(lines), all=len(matrix.placements))] if left_out else []
    if matrix.others:
        notes.append(f"{counted(len(matrix.others), 'cluster')} that no placement picks: not drawn.")
    note = " ".join(notes)
    parts = [lettering(MARGIN, MARGIN + 16, f"Fleet. {note}" if note else "Fleet", "heading")]
    parts += [lettering(left + 4, MARGIN + 42, name, "rack") for name, left in columns.items()]
    top = MARGIN + 50
    for line in lines:
        parts.append(moved([line], 0, top))
        top += _SQUARE_HEIGHT
    picked = sum(square.binding is not None for square in matrix.squares.values())
    counts = (
        counted(len(matrix.placements), "placement"),
        counted(len(matrix.clusters), "cluster"),
        counted(picked, "binding"),
    )
    width = label + len(columns) * _SQUARE_WIDTH
    description = " ".join(filter(None, (f"{', '.join(counts)}.", note)))
    return document("Fleet", description, parts, width, top + MARGIN, verdict)


def _lines(matrix: FleetMatrix, columns: Mapping[str, int]) -> list[Markup]:
    """A line of squares per placement, in their order; of too many those in which something changes first."""
    changing = {
        placement
        for (placement, _), square in matrix.squares.items()
        if square.binding is not None and square.binding.action is not PlacementAction.KEEP
    }
    lines: dict[str, Markup] = {}
    room = MOST_BYTES - _FRAME
    for placement in sorted(matrix.placements, key=lambda name: name not in changing):
        squares = [
            moved(_square(matrix.square(placement, cluster)), left, 0) for cluster, left in columns.items()
        ]
        line = joined(lettering(MARGIN, 22, placement, "rack"), squares)
        room -= len(line) + _AROUND_A_LINE
        if room < 0:
            break
        lines[placement] = line
    return [lines[placement] for placement in matrix.placements if placement in lines]


def _square(square: Square) -> list[Markup]:
    """One square: white where nothing is bound, else by what becomes of the binding."""
    row = square.binding
    fill = "#ffffff" if row is None else _FATES.get(row.action, "#fff8c5")
    wide, high = _SQUARE_WIDTH - 4, _SQUARE_HEIGHT - 4
    parts = [shape("title", square.why)] if square.why else []
    parts.append(shape("rect", class_="cell", width=wide, height=high, style=f"fill:{fill}"))
    if row is not None:
        parts.append(lettering(8, 16, state_text(row), "rack"))
        parts.append(lettering(8, 30, scores_text(row), "slim"))
    elif square.why_not:
        parts.append(lettering(8, 22, f"refused: {square.rule}" if square.rule else "not picked", "slim"))
    return parts
