"""CSV table of placements, destroyed and replaced objects, and risks: `-report=csv:PATH`."""

import csv
import io
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from nexusform.diagnostics.names import escape_name
from nexusform.placement_kinds.registry import build_location_document
from nexusform.plans.impact.consequence_views import list_reported_consequences
from nexusform.plans.plan import Plan
from nexusform.rendering.report.placement_rows import ShownPlacements, select_placement_rows

# Location columns of VMs, bindings and pods; other kinds may add more.
_LOCATION_COLUMNS: Final = (
    "cluster",
    "state",
    "node",
    "rack",
    "machine",
    "availability_zone",
    "numa_cells",
)
_OBJECT_COLUMNS: Final = (
    "kind",
    "address",
    "cluster",
    "pool",
    "vm_sku_name",
    "object",
    "action",
    "trigger",
)
_REASON_COLUMNS: Final = (
    "certainty_rack",
    "certainty_machine",
    "certainty_rack_count",
    "provenance",
    "reason",
)
_FORMULA_PREFIXES: Final = ("=", "+", "-", "@", "\t", "\r")


def render_csv(plan: Plan, detail: ShownPlacements) -> str:
    """Render one line per listed placement (RFC 4180, with a header line) in plan order.

    Further lines have the kind `consequence`, one per destroyed or replaced object and risk: its
    subject is the object, its severity the action, its id the trigger, and its text the reason.

    The source and the target have a column per field of a location, such as `from_rack`. NUMA cells
    are separated by spaces. Text that looks like a spreadsheet formula begins with a quote. A
    failed plan gives the header only. A hypothetical plan has its assumptions in the first column.
    """
    rows = [] if plan.errored else list(select_placement_rows(plan, detail))
    # The common location columns, then those of other location classes in the rows, such as
    # nodes of pods.
    columns = dict.fromkeys(_LOCATION_COLUMNS)
    locations = chain.from_iterable((row.origin, row.target) for row in rows)
    # A class has the same columns.
    for location in {type(location): location for location in locations}.values():
        columns.update(dict.fromkeys(build_location_document(location) or {}))
    names = list(columns)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    location_columns = [f"{side}_{name}" for side in ("from", "to") for name in names]
    # A table has no line before its header.
    titles = ["hypothetical_plan"] if plan.assumptions else []
    title_cells = [", ".join(plan.assumptions)] if plan.assumptions else []
    lines: list[list[object]] = [[*titles, *_OBJECT_COLUMNS, *location_columns, *_REASON_COLUMNS]]
    for row in rows:
        # Of rack, machine and rack count; "" = not computed.
        certainty: tuple[object, ...] = ("", "", "")
        if row.certainty is not None:
            certainty = (row.certainty.rack, row.certainty.machine, row.certainty.rack_count)
        lines.append(
            [
                *title_cells,
                *(row.kind, row.address, row.cluster, row.pool, row.sku, row.object),
                *(row.action.value, row.trigger),
                *_build_location_cells(build_location_document(row.origin), names),
                *_build_location_cells(build_location_document(row.target), names),
                *(*certainty, row.provenance, row.reason),
            ]
        )
    placement_cells = [""] * (len(location_columns) + len(_REASON_COLUMNS) - 1)
    lines += [
        [
            *title_cells,
            *("consequence", consequence.address, "", "", "", consequence.subject),
            *(consequence.severity.value, consequence.risk),
            *(*placement_cells, consequence.text),
        ]
        for consequence in list_reported_consequences(plan.impact)
    ]
    table.writerows(map(_escape_cells, lines))
    return text.getvalue()


def _build_location_cells(location: dict[str, Any] | None, names: Iterable[str]) -> Iterable[str]:
    """Yield the cells of a location, one per column; list values are separated by spaces."""
    document = location or {}
    for name in names:
        # None: a column of another kind of location.
        value = document.get(name)
        if isinstance(value, list | tuple):
            yield " ".join(map(str, value))
        else:
            yield "" if value is None else str(value)


def _escape_cells(cells: Iterable[object]) -> list[str]:
    """Return cells on one line; a leading quote precedes what looks like a formula."""
    texts = (escape_name(str(cell)) for cell in cells)
    return [f"'{text}" if text.startswith(_FORMULA_PREFIXES) else text for text in texts]
