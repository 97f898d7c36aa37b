"""An answer to a question, neutral of any format: a verdict, facts, and sections with tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from nexusform.rendering.notation.places import cells_text, place_document
from nexusform.scheduling.racks.vms import Placement
from nexusform.whatif.availability import Replacement
from nexusform.words import spans


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


def spans_text(numbers: Iterable[int]) -> str:
    """`1-3, 5` from ascending numbers."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans(numbers))


def short_place_text(placement: Placement) -> str:
    """`rack7-bm06 / cell 1`; the rack goes before it where the machine's name does not say it."""
    front = "" if placement.machine.startswith(placement.rack) else f"{placement.rack} / "
    cells = cells_text(placement)
    return f"{front}{placement.machine} / {cells}" if cells else f"{front}{placement.machine}"


def replacement_document(replacement: Replacement) -> dict[str, Any]:
    """A node that is made anew, as data: where it stood and where it goes, null where there is no room."""
    vm = replacement.vm
    return {
        "node": vm.name,
        "from": place_document(vm.placement),
        "to": place_document(replacement.place),
    }
