"""The placement part of a plan as terminal text: the `Placements:` line with its counts, tables, lines,
certainty.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.placement_kinds.kinds import VM, titled
from nexusform.plans.impact.effects import Effect
from nexusform.plans.plan import PlacementAction, PlacementTable
from nexusform.rendering.notation.colours import (
    PLAIN,
    Painter,
    column_widths,
    columns,
    harmless,
    indented,
    pad,
    wrap,
)
from nexusform.rendering.notation.places import draws_text
from nexusform.rendering.report.placement_rows import (
    PlacementGroup,
    PlacementLine,
    PlacementSummary,
    count_clauses,
    line_verb,
    parting,
    table_row,
)
from nexusform.rendering.report.report import Report
from nexusform.words import listed

_LINE_COLOURS = {"+": "green", "-": "red", "~": "yellow", "=": "grey", ".": "red"}
_WIDEST_LABEL = 44
_WIDEST_TARGET = 72
_NARROWEST_TARGET = 24  # where there is less room beside a label, the target stands below it


def placement_text(report: Report, paint: Painter = PLAIN, width: int = 80) -> str:
    """Everything after the `Plan:` line that only nexusform has; "" when there is no placement."""
    if not report.summaries[0].anything:
        return ""
    parts = ["\n".join(placement_count_lines(report.summaries, paint, width))]
    if report.tables:
        parts.append("\n".join(f"  {line}" for line in table_lines(report.tables, width - 2, paint)))
    lines = _group_lines(report.groups, width, paint)
    lines += _certainty_lines(report, width)
    if report.folded:
        lines.append("  -placements=all lists every one.")
    if lines:
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


# --- tables ------------------------------------------------------------------------------------

_HEADS = ("cluster", "pool", "SKU", "count", "racks expected/actual", "VMs per rack expected/actual")
_SHORT_HEADS = ("cluster", "pool", "SKU", "count", "racks e/a", "VMs per rack e/a")


def table_lines(tables: Sequence[PlacementTable], width: int, paint: Painter = PLAIN) -> list[str]:
    """The document's table, one line per pool; in records of two lines where it is too wide."""
    rows = [_cells(table) for table in tables]
    for heads in (_HEADS, _SHORT_HEADS):
        widths = column_widths([heads, *rows])
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            head = paint(_row(heads, widths), "bold")
            return [head, *(_row(row, widths) for row in rows)]
    lines: list[str] = []
    for row in rows:
        lines += _record(row, paint)
    return lines


def _cells(table: PlacementTable) -> tuple[str, ...]:
    row = [harmless(cell) for cell in table_row(table)]
    cluster, pool, sku, count, racks, actual_racks, vms, actual_vms = row
    return cluster, pool, sku, count, f"{racks} / {actual_racks}", f"{vms} / {actual_vms}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [pad(cell, widths[k], right=k == 3) for k, cell in enumerate(cells)]
    return "  ".join(padded).rstrip()


def _record(row: Sequence[str], paint: Painter) -> list[str]:
    cluster, pool, sku, count, racks, vms = row
    return [paint(f"{cluster}/{pool}", "bold"), f"  {count} x {sku}: racks {racks}, VMs per rack {vms}"]


# --- lines -------------------------------------------------------------------------------------


def _group_lines(groups: Sequence[PlacementGroup], width: int, paint: Painter) -> list[str]:
    """Every line of every group, in columns of one width."""
    every_line: list[PlacementLine] = []
    for group in groups:
        every_line += group.lines
    label_width = max((columns(harmless(line.label)) for line in every_line), default=0)
    where_width = max((columns(_where(line)) for line in every_line), default=0)
    trigger_width = max((columns(_trigger(line)) for line in every_line), default=0)
    label_width = min(label_width, _WIDEST_LABEL)
    room = width - len("  + ") - label_width - 2 - trigger_width
    widths = (label_width, min(where_width, _WIDEST_TARGET, max(room, _NARROWEST_TARGET)))
    texts: list[str] = []
    for group in groups:
        # A VM's name says whose it is; bindings and pods stand under the name of what they belong to.
        if group.kind != VM and group.lines:
            texts.append(f"  {paint(f'{harmless(group.name)}:', 'bold')}")
        for line in group.lines:
            texts += _line(line, widths, width, paint)
    return texts


def _line(line: PlacementLine, widths: tuple[int, int], width: int, paint: Painter) -> list[str]:
    """A line in its columns, with more below it where the places do not fit into theirs."""
    label_width, where_width = widths
    label = pad(harmless(line.label), label_width)
    if line.action is PlacementAction.MOVE:
        label = paint(label, "bold")
    front = f"  {paint(line.symbol, _LINE_COLOURS[line.symbol])} {label}"
    trigger = _trigger(line)
    where = _where(line)
    if columns(front) + 2 + where_width + columns(trigger) <= width:
        first_line, *further_lines = indented(where, len("-> "), where_width)
        below = " " * (columns(front) + 2)
        head = f"{front}  {pad(first_line, where_width)}{trigger}".rstrip()
        return [head, *(f"{below}{further}" for further in further_lines)]
    return [front.rstrip(), *indented(f"      {where}{trigger}", len("      -> "), width)]


def _trigger(line: PlacementLine) -> str:
    return f"   ({harmless(line.trigger)})" if line.trigger else ""


def _where(line: PlacementLine) -> str:
    """Where the objects of a line come from and go to."""
    origin, target = harmless(line.origin), harmless(line.target)
    match line.effect:
        case Effect.PLACED:
            return f"-> {target}"
        case Effect.REMOVED:
            return f"from {origin}"
        case _ if parting(line):
            return f"{parting(line)} {origin}".rstrip()
        case _ if origin:
            return f"{origin} -> {target}"
        case _:
            return f"{line_verb(line)} {target}".lstrip()


def _certainty_lines(report: Report, width: int) -> list[str]:
    """Certainty in all and by pool, and what may be left in the worst case."""
    lines = _total_certainty(report, width)
    certain = [group for group in report.groups if group.certainty]
    if len(certain) > 1:
        longest = max(columns(harmless(group.name)) for group in certain)
        widest = max(columns(group.certainty) for group in certain)
        front = " " * (4 if longest + widest + 6 <= width else 2)
        for group in certain:
            line = f"{front}{pad(harmless(group.name), longest)}  {group.certainty}"
            lines += indented(line, len(front) + longest + 2, width)
    for group in report.groups:
        if group.table is not None and group.table.fewest_left_on_a_rack is not None:
            worst = _worst_case(group.name, group.table.fewest_left_on_a_rack)
            lines += indented(f"  {worst}", 4, width)
    return lines


def _total_certainty(report: Report, width: int) -> list[str]:
    """A sentence on the certainty of all VMs, wrapped."""
    if not report.placed:
        return []
    if report.decided:
        return ["  Decided here: their sites are told where VMs go."]
    if not report.tie_breaks:
        return ["  Predicted. Certainty was not computed: no tie-breaks were repeated."]
    placed = report.placed
    racks = f"VMs per rack certain for {report.racks_certain:,} of {placed:,}"
    machines = f"machines for {report.machines_certain:,} of {placed:,}"
    text = f"Predicted. Certainty over {report.tie_breaks} tie-breaks: {racks}, {machines}."
    if report.draws is not None:
        text += f" NUMA cells: {draws_text(report.draws)}"
    return [f"  {line}" for line in wrap(text, width - 2)]


def _worst_case(pool: str, fewest: int) -> str:
    return f"{harmless(pool)}: the platform chooses which VMs go; in the worst case {fewest} stay on a rack."


def placement_count_lines(summaries: Sequence[PlacementSummary], paint: Painter, width: int) -> list[str]:
    """`Placements: 215 to place, ...`, then a line per kind; moves stand out. What these counts do not say
    stands below them.
    """
    total = summaries[0]
    lines = _in_lines(paint("Placements:", "bold"), count_clauses(total, paint), width)
    for kind in summaries[1:]:
        lines += _in_lines(f"  {titled(kind.kind)}:", count_clauses(kind, paint), width)
        lines += _remarks(kind, "    ", width)
    return lines if len(summaries) > 1 else [*lines, *_remarks(total, "  ", width)]


def _in_lines(front: str, clauses: Sequence[str], width: int) -> list[str]:
    """Clauses beside what stands in front of them, on further lines where the width does not do for all."""
    lines = [f"{front} {clauses[0]}"]
    for clause in clauses[1:]:
        if columns(lines[-1]) + columns(clause) + 3 <= width:
            lines[-1] += f", {clause}"
        else:
            lines[-1] += ","
            lines.append(f"{' ' * columns(front)} {clause}")
    lines[-1] += "."
    return lines


def _remarks(summary: PlacementSummary, margin: str, width: int) -> list[str]:
    text = f"Of these, {listed(summary.remarks)}."
    return [f"{margin}{line}" for line in wrap(text, width - len(margin))] if summary.remarks else []
