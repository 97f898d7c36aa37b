"""Placements as a table for spreadsheets and data tools: `-report=csv:PATH`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from nexusform.placement_kinds.kinds import place_document
from nexusform.plans.plan import PlacementChange, Plan
from nexusform.rendering.json.json_placements import shown_rows
from nexusform.rendering.report.placement_rows import Detail
from nexusform.scheduling.decision import Place

# What places of VMs, bindings and pods say; those of other kinds may say more.
_PLACE: Final = ("cluster", "state", "node", "rack", "machine", "availability_zone", "numa_cells")
_WHAT: Final = ("kind", "address", "cluster", "pool", "vm_sku_name", "object", "action", "trigger")
_WHY: Final = ("certainty_rack", "certainty_machine", "certainty_rack_count", "provenance", "reason")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render_csv(plan: Plan, detail: Detail) -> str:
    """One line per placement that JSON lists (RFC 4180, a header line first), in the plan's order.

    A column for all that a place says, of kinds that domains add too. NUMA cells are parted by blanks. Text
    that a spreadsheet would take for a formula begins with a quote. Of a plan in error there is the header
    alone: the table has no other way to say that nothing of it is done.
    """
    rows = [] if plan.errored else list(shown_rows(plan, detail))
    names = _told_of_places(rows)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow([*_WHAT, *[f"from_{name}" for name in names], *[f"to_{name}" for name in names], *_WHY])
    for row in rows:
        certainty = row.certainty
        table.writerow(
            [
                row.kind,
                *harmless_cells([str(row.address), row.cluster, row.pool, row.sku, row.object]),
                row.action.value,
                row.trigger,
                *_place(place_document(row.source), names),
                *_place(place_document(row.target), names),
                certainty.rack if certainty is not None else "",
                certainty.machine if certainty is not None else "",
                certainty.rack_count if certainty is not None else "",
                row.provenance,
                *harmless_cells([row.reason]),
            ]
        )
    return text.getvalue()


def _told_of_places(rows: Iterable[PlacementChange]) -> list[str]:
    """What columns there are for a place: those that all tables have, then what others of the rows say."""
    names = dict.fromkeys(_PLACE)
    kinds: set[type[Place]] = set()
    for place in chain.from_iterable((row.source, row.target) for row in rows):
        if place is not None and type(place) not in kinds:
            kinds.add(type(place))
            names.update(dict.fromkeys(place_document(place) or {}))
    return list(names)


def _place(place: dict[str, Any] | None, names: Iterable[str]) -> Iterable[str]:
    """The cells of a place, one for each of the names; what is said in several words is parted by blanks."""
    document = place or {}
    return harmless_cells(_cell(document.get(name)) for name in names)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def harmless_cells(texts: Iterable[str]) -> list[str]:
    """Cells of which a spreadsheet takes none for a formula: such text begins with a quote."""
    return [f"'{text}" if text.startswith(_FORMULA) else text for text in texts]
