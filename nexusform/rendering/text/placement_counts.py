"""The `Placements:` line, and one per kind where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.rendering.notation.colours import Painter
from nexusform.rendering.report.placement_rows import PlacementSummary

_KIND_WORDS: Final = {"vm": "VMs", "binding": "Fleet bindings", "pod": "Pods"}


def placement_count_lines(summaries: Sequence[PlacementSummary], paint: Painter) -> list[str]:
    """`Placements: 215 to place, ...`, then a line per kind; moves stand out."""
    total = summaries[0]
    lines = [f"{paint('Placements:', 'bold')} {_counts(total, paint)}."]
    for kind in summaries[1:]:
        more = f", {kind.update} to update" if kind.update else ""
        lines.append(f"  {_KIND_WORDS[kind.kind]}: {_counts(kind, paint)}{more}.")
    if len(summaries) == 1 and total.update:
        lines.append(f"  {total.update} to update without moving.")
    return lines


def _counts(summary: PlacementSummary, paint: Painter) -> str:
    moves = f"{summary.move} to move"
    if summary.move:
        moves = paint(moves, "bold", "yellow")
    return f"{summary.place} to place, {moves}, {summary.remove} to remove, {summary.keep} kept"
