"""The placement part of a plan as terminal text: counts, tables, lines, certainty."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from nexusform.planning.plan import PlacementAction, PlacementTable
from nexusform.rendering.notation.colours import PLAIN, Painter, columns, harmless, pad, wrap
from nexusform.rendering.report.placement_rows import (
    PlacementGroup,
    PlacementLine,
    PlacementSummary,
    table_row,
)
from nexusform.rendering.report.report import Report

_KIND_WORDS = {"vm": "VMs", "binding": "Fleet bindings", "pod": "Pods"}
_LINE_COLOURS = {"+": "green", "-": "red", "~": "yellow", "=": "grey"}
_WIDEST_LABEL = 44
_WIDEST_TARGET = 72


def placement_text(report: Report, paint: Painter = PLAIN, width: int = 80) -> str:
    """Everything after the `Plan:` line that only nexusform has; "" when there is no placement."""
    if not report.summaries[0].anything:
        return ""
    parts = ["\n".join(_summary_lines(report.summaries, paint))]
    if report.tables:
        parts.append("\n".join(f"  {line}" for line in table_lines(report.tables, width - 2, paint)))
    lines = _group_lines(report.groups, paint)
    lines += _certainty_lines(report, width)
    if report.folded:
        lines.append("  -placements=all lists every one.")
    if lines:
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _summary_lines(summaries: Sequence[PlacementSummary], paint: Painter) -> list[str]:
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


# --- tables ------------------------------------------------------------------------------------

_HEADS = ("cluster", "pool", "SKU", "count", "racks expected/actual", "VMs per rack expected/actual")
_SHORT_HEADS = ("cluster", "pool", "SKU", "count", "racks e/a", "VMs per rack e/a")


def table_lines(tables: Sequence[PlacementTable], width: int, paint: Painter = PLAIN) -> list[str]:
    """The document's table, one line per pool; in records of two lines where it is too wide."""
    rows = [_cells(table) for table in tables]
    for heads in (_HEADS, _SHORT_HEADS):
        widths = [max(columns(row[k]) for row in (heads, *rows)) for k in range(len(heads))]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            head = paint(_row(heads, widths), "bold")
            return [head, *(_row(row, widths) for row in rows)]
    return [line for row in rows for line in _record(row, paint)]


def _cells(table: PlacementTable) -> tuple[str, ...]:
    cluster, pool, sku, count, racks, found, vms, each = (harmless(c) for c in table_row(table))
    return cluster, pool, sku, count, f"{racks} / {found}", f"{vms} / {each}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [pad(cell, widths[k], right=k == 3) for k, cell in enumerate(cells)]
    return "  ".join(padded).rstrip()


def _record(row: Sequence[str], paint: Painter) -> list[str]:
    cluster, pool, sku, count, racks, vms = row
    return [paint(f"{cluster}/{pool}", "bold"), f"  {count} x {sku}: racks {racks}, VMs per rack {vms}"]


# --- lines -------------------------------------------------------------------------------------


def _group_lines(groups: Sequence[PlacementGroup], paint: Painter) -> list[str]:
    shown = [(line, harmless(line.label), _where(line)) for group in groups for line in group.lines]
    label_width = min(_WIDEST_LABEL, max((columns(label) for _, label, _ in shown), default=0))
    where_width = min(_WIDEST_TARGET, max((columns(where) for _, _, where in shown), default=0))
    lines: list[str] = []
    rest = iter(shown)
    for group in groups:
        # A VM's name says whose it is; bindings and pods stand under the name of what they belong to.
        if group.kind != "vm" and group.lines:
            lines.append(f"  {paint(f'{harmless(group.name)}:', 'bold')}")
        for line, label, where in islice(rest, len(group.lines)):
            lines.append(_line(line, pad(label, label_width), pad(where, where_width), paint))
    return lines


def _line(line: PlacementLine, label: str, where: str, paint: Painter) -> str:
    moved = line.action is PlacementAction.MOVE
    shown = paint(label, "bold") if moved else label
    trigger = f"   ({harmless(line.trigger)})" if line.trigger else ""
    return f"  {paint(line.symbol, _LINE_COLOURS[line.symbol])} {shown}  {where}{trigger}".rstrip()


def _where(line: PlacementLine) -> str:
    origin, target = harmless(line.origin), harmless(line.target)
    match line.action:
        case PlacementAction.PLACE:
            return f"-> {target}"
        case PlacementAction.REMOVE:
            return f"from {origin}"
        case PlacementAction.KEEP:
            return f"stays: {target}"
        case _:
            return f"{origin} -> {target}" if origin else f"stays: {target}"


def _certainty_lines(report: Report, width: int) -> list[str]:
    lines: list[str] = []
    if report.placed and not report.tie_breaks:
        lines.append("  Predicted. Certainty was not computed: no tie-breaks were repeated.")
    elif report.placed:
        of = report.placed
        racks = f"racks certain for {report.racks_certain} of {of}"
        text = f"Predicted. Certainty over {report.tie_breaks} tie-breaks: {racks}, "
        text += f"machines for {report.machines_certain} of {of}."
        lines += [f"  {line}" for line in wrap(text, width - 2)]
    pools = [g for g in report.groups if g.certainty]
    if len(pools) > 1:
        longest = max(columns(harmless(g.name)) for g in pools)
        lines += [f"    {pad(harmless(g.name), longest)}  {g.certainty}" for g in pools]
    lines += [f"  {text}" for g in report.groups for text in _worst(g)]
    return lines


def _worst(group: PlacementGroup) -> list[str]:
    table = group.table
    if table is None or table.fewest_left_on_a_rack is None:
        return []
    left = table.fewest_left_on_a_rack
    return [
        f"{harmless(group.name)}: the platform chooses which VMs go; in the worst case {left} stay on a rack."
    ]
