"""An answer to a question, neutral of any format: a verdict, facts, and sections with tables."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nexusform.scheduling.racks.model import Placement


class Row(Struct, frozen=True):
    """One row of a table; a `bad` one is part of the finding."""

    cells: tuple[str, ...]
    bad: bool = False


class Table(Struct, frozen=True):
    """Heads, rows, and which columns hold figures (aligned to the right)."""

    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    figures: frozenset[int] = frozenset()


class Section(Struct, frozen=True):
    """A part of an answer. A `folded` one is detail: closed at first where the format can.

    `commands` are to be copied as they stand.
    """

    title: str
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    table: Table | None = None
    folded: bool = False
    bad: bool = False


class Outline(Struct, frozen=True):
    """The whole answer. `bad` says that the verdict is a finding."""

    title: str
    verdict: str
    bad: bool
    facts: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()


def spans(numbers: Sequence[int]) -> str:
    """`1-3, 5` from ascending numbers."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def place_text(placement: Placement) -> str:
    """`rack7-bm06 / cell 1`; the rack goes before it where the machine's name does not say it."""
    word = "cell" if len(placement.cells) == 1 else "cells"
    cells = "+".join(str(cell) for cell in placement.cells)
    front = "" if placement.machine.startswith(placement.rack) else f"{placement.rack} / "
    return f"{front}{placement.machine} / {word} {cells}"
