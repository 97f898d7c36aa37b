"""Placements of the short plan: a table per site, changes with their triggers, and rollout steps. Labels and
sentences form columns and wrap at words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from nexusform.diagnostics.phrases import format_count
from nexusform.placement_kinds.kinds import VM
from nexusform.plans.impact.effects import Effect
from nexusform.plans.plan import PlacementAction
from nexusform.rendering.notation.colours import (
    Painter,
    compute_column_widths,
    count_columns,
    escape_control_characters,
    fill_to_width,
    wrap_line,
    wrap_lines,
)
from nexusform.rendering.report.folding import PoolRow, SitePools, format_names, merge_equal_groups
from nexusform.rendering.report.placement_rows import PlacementGroup, PlacementLine, get_departure_verb, get_line_verb
from nexusform.rendering.report.short_report import ShortReport

if TYPE_CHECKING:  # few plans have rollouts
    from nexusform.rendering.report.rollout_rows import RolloutTable

_HEADERS: Final[tuple[str, ...]] = ("cluster", "pool", "SKU", "VMs", "racks", "per rack")
_RIGHT_ALIGNED: Final = (3, 5)
_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow", "=": "grey", ".": "red"}
_MAX_LABEL_WIDTH: Final = 30
_MAX_LINES: Final = 60
_ROLLOUT_TITLE: Final = "Rollout (earliest start; update time not included):"
_MAX_STEPS: Final = 12


def render_placement_parts(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """Render the tables and lines, each part without a final newline."""
    parts = [_render_site(site, report, width, paint) for site in report.pools]
    if report.pools:
        note = _build_detail_note(report)
        parts[-1] += f"\n{note}" if note else ""
    lines = _render_groups(report.groups, width, paint)
    if lines:
        parts.append("\n".join(lines))
    return parts


def _render_site(site: SitePools, report: ShortReport, width: int, paint: Painter) -> str:
    """Render the table of one site under its title."""
    source_note = " (decided by nexusform)" if site.is_decided else " (predicted)"
    source_note = source_note if report.placed_vms else ""
    title = f"{paint(f'VM placement on {escape_control_characters(site.site)}', 'bold')}{source_note}:"
    lines = [title, *(f"  {line}" for line in _render_table(site.rows, width - 2, paint))]
    if site.hidden_pools:
        lines.append(f"  and {format_count(site.hidden_pools, 'more pool')}; -details shows each.")
    return "\n".join(lines)


# --- the table ---------------------------------------------------------------------------------


def _render_table(rows: Sequence[PoolRow], width: int, paint: Painter) -> list[str]:
    """Render a line per pool with each cluster named once, or two-line records if too wide."""
    headers: Sequence[str] = _HEADERS
    cells: list[Sequence[str]] = []
    previous = ""
    for row in rows:
        cluster = "" if row.cluster == previous else row.cluster
        previous = row.cluster
        texts: Sequence[str] = (cluster, row.pool, row.sku, row.count, row.racks, row.per_rack)
        cells.append(tuple(map(escape_control_characters, texts)))
    widths = compute_column_widths([headers, *cells])
    if sum(widths) + 2 * (len(widths) - 1) > width:
        return _render_records(rows, width, paint)
    lines = [paint(_render_row(headers, widths), "bold")]
    for row, texts in zip(rows, cells, strict=True):
        lines.append(_render_row(texts, widths))
        if row.note:
            lines += _render_note(row.note, widths[0] + 4, width)
    return lines


def _render_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Render a table row with cells filled to the column widths."""
    cell_texts = [
        fill_to_width(cell, widths[column], right=column in _RIGHT_ALIGNED) for column, cell in enumerate(cells)
    ]
    return "  ".join(cell_texts).rstrip()


def _render_note(note: str, indent: int, width: int) -> list[str]:
    return render_labelled_text("", escape_control_characters(note), indent, width)


def _render_records(rows: Sequence[PoolRow], width: int, paint: Painter) -> list[str]:
    """Render the rows as records, for a table that is too wide."""
    lines: list[str] = []
    for row in rows:
        text = f"{row.count} x {row.sku} on {row.racks}, {row.per_rack} per rack"
        lines.append(paint(escape_control_characters(f"{row.cluster}/{row.pool}"), "bold"))
        lines += render_labelled_text("", escape_control_characters(text), 4, width)
        lines += _render_note(row.note, 4, width) if row.note else []
    return lines


def _build_detail_note(report: ShortReport) -> str:
    """Return a hint about flags with more detail about the VMs."""
    if not report.placed_vms:
        return ""
    certainty_hint = " Certainty per pool: -details." if report.samples else ""
    return f"  List every VM: -placements=all.{certainty_hint}"


# --- lines -------------------------------------------------------------------------------------


def _render_groups(groups: Sequence[PlacementGroup], width: int, paint: Painter) -> list[str]:
    """Render moves first, then other changes. VM lines precede bindings and pods with their group names."""
    # VMs come first, since they have no group name.
    ordered = sorted(merge_equal_groups(groups), key=_build_group_order)
    all_lines = chain.from_iterable(group.lines for group in ordered)
    label_width = max((count_columns(escape_control_characters(line.label)) for line in all_lines), default=0)
    indent = min(label_width, _MAX_LABEL_WIDTH) + 6
    lines: list[str] = []
    hidden_count = 0
    for group in ordered:
        if len(lines) > _MAX_LINES:
            hidden_count += sum(line.count for line in group.lines)
            continue
        if group.kind != VM and group.lines:
            name, *further_lines = wrap_line(f"  {escape_control_characters(group.name)}:", 4, width)
            lines += [f"  {paint(name[2:], 'bold')}", *(f"    {paint(text.strip(), 'bold')}" for text in further_lines)]
        if group.sites:
            lines.append(f"  {paint(escape_control_characters(f'{format_names(group.sites)}, each:'), 'bold')}")
        for line in group.lines:
            lines += _render_line(line, indent, width, paint)
    if hidden_count:
        lines.append(f"    and {format_count(hidden_count, 'more placement')}; -details -placements=all lists each.")
    title = paint("Placement changes:", "bold")
    return [title, *lines] if lines else []


def _build_group_order(group: PlacementGroup) -> tuple[bool, ...]:
    """Return the sort key of a group: VMs and moves first, and groups under a list of sites last."""
    return group.kind != VM, bool(group.sites), not _has_moves(group)


def _has_moves(group: PlacementGroup) -> bool:
    """Return whether any object of a group moves."""
    return any(line.action is PlacementAction.MOVE for line in group.lines)


def _render_line(line: PlacementLine, indent: int, width: int, paint: Painter) -> list[str]:
    """Render a line such as `  ~ cluster-a-pool1-5` with origin, target and `(machine_evacuated)`."""
    label = escape_control_characters(line.label)
    if line.action is PlacementAction.MOVE:
        label = paint(label, "bold")
    text = escape_control_characters(f"{_format_locations(line)} {line.remark}".rstrip())
    return render_labelled_text(f"  {paint(line.symbol, _COLOURS[line.symbol])} {label}", text, indent, width)


def _format_locations(line: PlacementLine) -> str:
    """Return origin and target, or the current location."""
    match line.effect:
        case Effect.PLACED:
            return f"-> {line.target}"
        case _ if get_departure_verb(line):
            return f"{get_departure_verb(line)} {line.origin}".rstrip()
        case _ if line.origin:
            return f"{line.origin} -> {line.target}"
        case _:
            return f"{get_line_verb(line)} {line.target}".lstrip()


_MIN_WIDTH = 20  # columns for a sentence next to its label; with fewer it is put below
_BELOW_INDENT: Final = 6  # indent of a text below its label


def render_labelled_text(label: str, text: str, indent: int, width: int, gap: int = 2) -> list[str]:
    """Return lines with `label` and the text in a column at `indent`. After a longer label the text follows
    on the same line if it fits, else below. The label may contain colours and is followed by at least `gap`
    spaces. Lines have no trailing spaces.
    """
    if count_columns(label) > width and " " in label.strip():
        # Names may be as long as a line, so the last word of a label moves below.
        front, _, last_word = label.rpartition(" ")
        return [front.rstrip(), *render_labelled_text(f"      {last_word}", text, indent, width, gap)]
    text_width = width - indent
    longest_word = max(map(count_columns, text.split()), default=0)
    if text_width < _MIN_WIDTH or text_width < longest_word <= width - _BELOW_INDENT:
        indent, text_width = _BELOW_INDENT, width - _BELOW_INDENT
    if label and count_columns(label) + gap > indent and count_columns(label) + gap + count_columns(text) <= width:
        return [f"{label}{' ' * gap}{text}".rstrip()]
    wrapped = wrap_lines(text, max(text_width, _MIN_WIDTH)) if text else []
    if not wrapped:
        return [label.rstrip()]
    margin = " " * indent
    if count_columns(label) + gap > indent and label:
        return [label.rstrip(), *(f"{margin}{line}" for line in wrapped)]
    first_line, *further_lines = wrapped
    return [f"{fill_to_width(label, indent)}{first_line}", *(f"{margin}{line}" for line in further_lines)]


def truncate_lines(lines: list[str], maximum: int, width: int) -> list[str]:
    """Return at most `maximum` lines; "..." marks omitted text."""
    if len(lines) <= maximum:
        return lines
    last_line = lines[maximum - 1]
    while count_columns(last_line) + 4 > width and " " in last_line.strip():
        last_line = last_line.rpartition(" ")[0]
    return [*lines[: maximum - 1], f"{last_line} ..."]


def render_rollouts(tables: Sequence[RolloutTable], width: int, paint: Painter) -> str:
    """Render the rollouts with their first steps; "" without any."""
    lines: list[str] = [paint(_ROLLOUT_TITLE, "bold")] if tables else []
    for table in tables:
        rows, hidden_note = table.limit_rows(_MAX_STEPS)
        lines += render_labelled_text("", escape_control_characters(table.title), 2, width)
        time_width = max(len(start) for start, _, _ in rows)
        stage_width = max(len(stage) for _, stage, _ in rows)
        for start, stage, action in rows:
            label = f"    {fill_to_width(start, time_width)}  {fill_to_width(stage, stage_width)}"
            lines += render_labelled_text(label, escape_control_characters(action), time_width + stage_width + 8, width)
        lines += [f"    {hidden_note}; -report=markdown:PATH shows each."] if hidden_note else []
    return "\n".join(lines)
