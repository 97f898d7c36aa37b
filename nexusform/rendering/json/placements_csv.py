"""Placements as a table for spreadsheets and data tools: `-report=csv:PATH`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any, Final

from nexusform.placement_kinds.registry import place_document
from nexusform.plans.plan import Plan
from nexusform.rendering.json.json_placements import shown_rows
from nexusform.rendering.report.placement_rows import Detail

_PLACE: Final = ("cluster", "state", "node", "rack", "machine", "availability_zone", "numa_cells")
COLUMNS: Final = (
    "kind",
    "address",
    "cluster",
    "pool",
    "vm_sku_name",
    "object",
    "action",
    "trigger",
    *[f"from_{name}" for name in _PLACE],
    *[f"to_{name}" for name in _PLACE],
    "certainty_rack",
    "certainty_machine",
    "certainty_rack_count",
    "provenance",
    "reason",
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render_csv(plan: Plan, detail: Detail) -> str:
    """One line per placement that JSON lists (RFC 4180, a header line first), in the plan's order.

    NUMA cells are parted by blanks. Text that a spreadsheet would take for a formula begins with a quote. Of
    a plan in error there is the header alone: the table has no other way to say that nothing of it is done.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for row in () if plan.errored else shown_rows(plan, detail):
        certainty = row.certainty
        table.writerow(
            [
                row.kind,
                *harmless_cells([str(row.address), row.cluster, row.pool, row.sku, row.object]),
                row.action.value,
                row.trigger,
                *_place(place_document(row.source)),
                *_place(place_document(row.target)),
                certainty.rack if certainty is not None else "",
                certainty.machine if certainty is not None else "",
                certainty.rack_count if certainty is not None else "",
                row.provenance,
                *harmless_cells([row.reason]),
            ]
        )
    return text.getvalue()


def _place(place: dict[str, Any] | None) -> Iterable[str]:
    """The cells of a place, in the order of _PLACE."""
    document = place or {}
    cells = document.get("numa_cells")
    shown = {**document, "numa_cells": " ".join(map(str, cells)) if cells else None}
    return harmless_cells("" if shown.get(name) is None else str(shown[name]) for name in _PLACE)


def harmless_cells(texts: Iterable[str]) -> list[str]:
    """Cells of which a spreadsheet takes none for a formula: such text begins with a quote."""
    return [f"'{text}" if text.startswith(_FORMULA) else text for text in texts]
