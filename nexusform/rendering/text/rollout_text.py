"""Rollouts as text: a line per step, in a column for when, for the stage or wave, and for what happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.rendering.notation.colours import Painter, harmless, pad
from nexusform.rendering.report.rollout_rows import RolloutTable
from nexusform.rendering.text.short_placements import hanging

TITLE: Final = "How it rolls out (times at the earliest):"
_MOST_STEPS: Final = 12


def rollout_text(tables: Sequence[RolloutTable], width: int, paint: Painter, most: int = _MOST_STEPS) -> str:
    """The rollouts with at most so many steps each; "" without any."""
    lines: list[str] = [paint(TITLE, "bold")] if tables else []
    for table in tables:
        rows, more = table.first(most)
        lines += hanging("", harmless(table.title), 2, width)
        first = max(len(begins) for begins, _, _ in rows)
        second = max(len(place) for _, place, _ in rows)
        for begins, place, what in rows:
            label = f"    {pad(begins, first)}  {pad(place, second)}"
            lines += hanging(label, harmless(what), first + second + 8, width)
        lines += [f"    {more}; -report=markdown:PATH shows each."] if more else []
    return "\n".join(lines)
