"""Placement part of a plan as terminal text: counts, tables, lines and certainty."""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.diagnostics.phrases import format_list
from nexusform.placement_kinds.kinds import VM, get_title
from nexusform.plans.impact.effects import Effect
from nexusform.plans.plan import PlacementAction, PlacementTable
from nexusform.rendering.notation.colours import (
    PLAIN,
    Painter,
    compute_column_widths,
    count_columns,
    escape_control_characters,
    fill_to_width,
    wrap_line,
    wrap_lines,
)
from nexusform.rendering.notation.sample_text import describe_samples
from nexusform.rendering.report.placement_rows import (
    PlacementGroup,
    PlacementLine,
    PlacementSummary,
    build_count_clauses,
    build_table_row,
    get_departure_verb,
    get_line_verb,
)
from nexusform.rendering.report.plan_report import Report

_LINE_COLOURS = {"+": "green", "-": "red", "~": "yellow", "=": "grey", ".": "red"}
_MAX_LABEL_WIDTH = 44
_MAX_TARGET_WIDTH = 72
_MIN_TARGET_WIDTH = 24  # with less space next to a label, the target is put below it


def render_placements(report: Report, paint: Painter = PLAIN, width: int = 80) -> str:
    """Render the placements of a plan, shown after the `Plan:` line; "" without placements."""
    if not report.summaries[0].has_objects:
        return ""
    parts = ["\n".join(render_placement_counts(report.summaries, paint, width))]
    if report.tables:
        parts.append("\n".join(f"  {line}" for line in render_table(report.tables, width - 2, paint)))
    lines = _render_groups(report.groups, width, paint)
    lines += _render_certainty(report, width)
    if report.has_folded_lines:
        lines.append("  List every object: -placements=all.")
    if lines:
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


# --- tables ------------------------------------------------------------------------------------

_HEADERS = ("cluster", "pool", "SKU", "count", "racks expected/actual", "VMs per rack expected/actual")
_SHORT_HEADERS = ("cluster", "pool", "SKU", "count", "racks e/a", "VMs per rack e/a")


def render_table(tables: Sequence[PlacementTable], width: int, paint: Painter = PLAIN) -> list[str]:
    """Render the Nexus placement table with one line per pool, or as two-line records if too wide."""
    rows = [_build_cells(table) for table in tables]
    for headers in (_HEADERS, _SHORT_HEADERS):
        widths = compute_column_widths([headers, *rows])
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            header_line = paint(_render_row(headers, widths), "bold")
            return [header_line, *(_render_row(row, widths) for row in rows)]
    lines: list[str] = []
    for row in rows:
        lines += _render_record(row, paint)
    return lines


def _build_cells(table: PlacementTable) -> tuple[str, ...]:
    row = [escape_control_characters(cell) for cell in build_table_row(table)]
    cluster, pool, sku, count, racks, actual_racks, vms, actual_vms = row
    return cluster, pool, sku, count, f"{racks} / {actual_racks}", f"{vms} / {actual_vms}"


def _render_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [fill_to_width(cell, widths[k], right=k == 3) for k, cell in enumerate(cells)]
    return "  ".join(padded).rstrip()


def _render_record(row: Sequence[str], paint: Painter) -> list[str]:
    cluster, pool, sku, count, racks, vms = row
    return [paint(f"{cluster}/{pool}", "bold"), f"  {count} x {sku}: racks {racks}, VMs per rack {vms}"]


# --- lines -------------------------------------------------------------------------------------


def _render_groups(groups: Sequence[PlacementGroup], width: int, paint: Painter) -> list[str]:
    """Render all lines of all groups in columns of one width."""
    lines: list[PlacementLine] = []
    for group in groups:
        lines += group.lines
    label_width = max((count_columns(escape_control_characters(line.label)) for line in lines), default=0)
    location_width = max((count_columns(_format_locations(line)) for line in lines), default=0)
    trigger_width = max((count_columns(_format_trigger(line)) for line in lines), default=0)
    label_width = min(label_width, _MAX_LABEL_WIDTH)
    available_width = width - len("  + ") - label_width - 2 - trigger_width
    widths = (label_width, min(location_width, _MAX_TARGET_WIDTH, max(available_width, _MIN_TARGET_WIDTH)))
    texts: list[str] = []
    for group in groups:
        # A VM name contains its cluster; bindings and pods are listed under the name of their owner.
        if group.kind != VM and group.lines:
            texts.append(f"  {paint(f'{escape_control_characters(group.name)}:', 'bold')}")
        for line in group.lines:
            texts += _render_line(line, widths, width, paint)
    return texts


def _render_line(line: PlacementLine, widths: tuple[int, int], width: int, paint: Painter) -> list[str]:
    """Render a line in its columns, with wrapped locations below it."""
    label_width, location_width = widths
    label = fill_to_width(escape_control_characters(line.label), label_width)
    if line.action is PlacementAction.MOVE:
        label = paint(label, "bold")
    front = f"  {paint(line.symbol, _LINE_COLOURS[line.symbol])} {label}"
    trigger = _format_trigger(line)
    locations = _format_locations(line)
    if count_columns(front) + 2 + location_width + count_columns(trigger) <= width:
        first_line, *further_lines = wrap_line(locations, len("-> "), location_width)
        margin = " " * (count_columns(front) + 2)
        head = f"{front}  {fill_to_width(first_line, location_width)}{trigger}".rstrip()
        return [head, *(f"{margin}{text}" for text in further_lines)]
    return [front.rstrip(), *wrap_line(f"      {locations}{trigger}", len("      -> "), width)]


def _format_trigger(line: PlacementLine) -> str:
    return f"   {escape_control_characters(line.remark)}" if line.remark else ""


def _format_locations(line: PlacementLine) -> str:
    """Return the origin and target of the objects of a line."""
    origin, target = escape_control_characters(line.origin), escape_control_characters(line.target)
    match line.effect:
        case Effect.PLACED:
            return f"-> {target}"
        case Effect.REMOVED:
            return f"from {origin}"
        case _ if get_departure_verb(line):
            return f"{get_departure_verb(line)} {origin}".rstrip()
        case _ if origin:
            return f"{origin} -> {target}"
        case _:
            return f"{get_line_verb(line)} {target}".lstrip()


def _render_certainty(report: Report, width: int) -> list[str]:
    """Render the certainty in total and by pool, and the worst case."""
    lines = _describe_total_certainty(report, width)
    certain_groups = [group for group in report.groups if group.certainty]
    if len(certain_groups) > 1:
        name_width = max(count_columns(escape_control_characters(group.name)) for group in certain_groups)
        max_width = max(count_columns(group.certainty) for group in certain_groups)
        front = " " * (4 if name_width + max_width + 6 <= width else 2)
        for group in certain_groups:
            line = f"{front}{fill_to_width(escape_control_characters(group.name), name_width)}  {group.certainty}"
            lines += wrap_line(line, len(front) + name_width + 2, width)
    for group in report.groups:
        if group.table is not None and group.table.minimum_remaining_on_rack is not None:
            worst = _describe_worst_case(group.name, group.table.minimum_remaining_on_rack)
            lines += wrap_line(f"  {worst}", 4, width)
    return lines


def _describe_total_certainty(report: Report, width: int) -> list[str]:
    """Return a wrapped sentence about the certainty of all VMs."""
    if not report.placed_vms:
        return []
    if report.is_decided:
        return ["  Decided by nexusform and sent to the sites."]
    if not report.samples:
        return ["  Predicted. Confidence not computed: no samples."]
    placed = report.placed_vms
    racks = f"rack counts exact for {report.racks_certain:,} of {placed:,}"
    machines = f"machines for {report.machines_certain:,} of {placed:,}"
    text = f"Predicted. Confidence over {report.samples} samples: {racks}, {machines}."
    if report.numa_sampling is not None:
        text += f" NUMA cells: {describe_samples(report.numa_sampling)}"
    return [f"  {line}" for line in wrap_lines(text, width - 2)]


def _describe_worst_case(pool: str, minimum: int) -> str:
    return f"{escape_control_characters(pool)}: Azure picks the VMs to remove; at worst a rack keeps {minimum}."


def render_placement_counts(summaries: Sequence[PlacementSummary], paint: Painter, width: int) -> list[str]:
    """Render `Placements: 215 to place, ...` and a line per kind, with notes below. Moves are highlighted."""
    total = summaries[0]
    lines = _wrap_clauses(paint("Placements:", "bold"), build_count_clauses(total, paint), width)
    for kind in summaries[1:]:
        lines += _wrap_clauses(f"  {get_title(kind.kind)}:", build_count_clauses(kind, paint), width)
        lines += _render_notes(kind, "    ", width)
    return lines if len(summaries) > 1 else [*lines, *_render_notes(total, "  ", width)]


def _wrap_clauses(label: str, clauses: Sequence[str], width: int) -> list[str]:
    """Join clauses after a label and wrap them to the width."""
    lines = [f"{label} {clauses[0]}"]
    for clause in clauses[1:]:
        if count_columns(lines[-1]) + count_columns(clause) + 3 <= width:
            lines[-1] += f", {clause}"
        else:
            lines[-1] += ","
            lines.append(f"{' ' * count_columns(label)} {clause}")
    lines[-1] += "."
    return lines


def _render_notes(summary: PlacementSummary, margin: str, width: int) -> list[str]:
    text = f"Of these, {format_list(summary.notes)}."
    return [f"{margin}{line}" for line in wrap_lines(text, width - len(margin))] if summary.notes else []
