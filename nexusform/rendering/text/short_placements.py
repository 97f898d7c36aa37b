"""Where things go, in the short plan: a table per site, then what moves, comes and goes and why; and how
it rolls out, a line per step. Lines keep to a width: labels in a column, sentences beside them, no word
broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from nexusform.placement_kinds.kinds import VM
from nexusform.plans.impact.effects import Effect
from nexusform.plans.plan import PlacementAction
from nexusform.rendering.notation.colours import (
    Painter,
    column_widths,
    columns,
    harmless,
    indented,
    pad,
    wrap,
)
from nexusform.rendering.report.folding import PoolRow, SitePools, alike_groups
from nexusform.rendering.report.placement_rows import PlacementGroup, PlacementLine, line_verb, parting
from nexusform.rendering.report.short_report import ShortReport
from nexusform.words import counted

if TYPE_CHECKING:  # few plans roll out anything
    from nexusform.rendering.report.rollout_rows import RolloutTable

_HEADS: Final[tuple[str, ...]] = ("cluster", "pool", "SKU", "VMs", "racks", "per rack")
_TO_THE_RIGHT: Final = (3, 5)
_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow", "=": "grey", ".": "red"}
_WIDEST_LABEL: Final = 30
_MOST_LINES: Final = 60
_ROLLOUTS: Final = "How it rolls out (times at the earliest):"
_MOST_STEPS: Final = 12


def placement_parts(report: ShortReport, width: int, paint: Painter) -> list[str]:
    """The tables and lines, each part without a newline at its end."""
    parts = [_site(site, report, width, paint) for site in report.pools]
    if report.pools:
        note = _more_note(report)
        parts[-1] += f"\n{note}" if note else ""
    lines = _group_lines(report.groups, width, paint)
    if lines:
        parts.append("\n".join(lines))
    return parts


def _site(site: SitePools, report: ShortReport, width: int, paint: Painter) -> str:
    """The table of one site under its title."""
    how = " (decided here)" if site.decided else " (predicted)"
    how = how if report.placed else ""
    title = f"{paint(f'Where VMs land on {harmless(site.site)}', 'bold')}{how}:"
    lines = [title, *(f"  {line}" for line in _table(site.rows, width - 2, paint))]
    if site.left_out:
        lines.append(f"  and {counted(site.left_out, 'more pool')}; -details shows each.")
    return "\n".join(lines)


# --- the table ---------------------------------------------------------------------------------


def _table(rows: Sequence[PoolRow], width: int, paint: Painter) -> list[str]:
    """A line per pool, a cluster named once; in records of two lines where it is too wide."""
    heads: Sequence[str] = _HEADS
    cells: list[Sequence[str]] = []
    previous = ""
    for row in rows:
        cluster = "" if row.cluster == previous else row.cluster
        previous = row.cluster
        texts: Sequence[str] = (
            cluster,
            row.pool,
            row.sku,
            row.count,
            row.racks,
            row.per_rack,
        )
        cells.append(tuple(map(harmless, texts)))
    widths = column_widths([heads, *cells])
    if sum(widths) + 2 * (len(widths) - 1) > width:
        return _records(rows, width, paint)
    lines = [paint(_line_of(heads, widths), "bold")]
    for row, texts in zip(rows, cells, strict=True):
        lines.append(_line_of(texts, widths))
        if row.note:
            lines += _note(row.note, widths[0] + 4, width)
    return lines


def _line_of(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A row of the table, its cells filled to the widths of their columns."""
    padded = [pad(cell, widths[column], right=column in _TO_THE_RIGHT) for column, cell in enumerate(cells)]
    return "  ".join(padded).rstrip()


def _note(note: str, indent: int, width: int) -> list[str]:
    """A remark below a row."""
    return hanging("", harmless(note), indent, width)


def _records(rows: Sequence[PoolRow], width: int, paint: Painter) -> list[str]:
    """The rows one below the other, where the table is too wide."""
    lines: list[str] = []
    for row in rows:
        text = f"{row.count} x {row.sku} on {row.racks}, {row.per_rack} per rack"
        lines.append(paint(harmless(f"{row.cluster}/{row.pool}"), "bold"))
        lines += hanging("", harmless(text), 4, width)
        lines += _note(row.note, 4, width) if row.note else []
    return lines


def _more_note(report: ShortReport) -> str:
    """Where more is said of the VMs of the tables."""
    if not report.placed:
        return ""
    sure = " -details says how sure each is." if report.tie_breaks else ""
    return f"  -placements=all lists every VM.{sure}"


# --- lines -------------------------------------------------------------------------------------


def _group_lines(groups: Sequence[PlacementGroup], width: int, paint: Painter) -> list[str]:
    """What moves first, then the rest; VMs say whose they are, bindings and pods stand under a name."""
    # No VM follows a name that is not its own.
    ordered = sorted(alike_groups(groups), key=lambda group: (group.kind != VM, not _moves(group)))
    all_lines = chain.from_iterable(group.lines for group in ordered)
    widest = max((columns(harmless(line.label)) for line in all_lines), default=0)
    indent = min(widest, _WIDEST_LABEL) + 6
    lines: list[str] = []
    hidden = 0
    for group in ordered:
        if len(lines) > _MOST_LINES:
            hidden += sum(line.count for line in group.lines)
            continue
        if group.kind != VM and group.lines:
            name, *others = indented(f"  {harmless(group.name)}:", 4, width)
            lines += [
                f"  {paint(name[2:], 'bold')}",
                *(f"    {paint(each.strip(), 'bold')}" for each in others),
            ]
        for line in group.lines:
            lines += _line(line, indent, width, paint)
    if hidden:
        lines.append(f"    and {counted(hidden, 'more placement')}; -details -placements=all lists each.")
    title = paint("What goes where, and why:", "bold")
    return [title, *lines] if lines else []


def _moves(group: PlacementGroup) -> bool:
    """Whether anything of a group moves."""
    return any(line.action is PlacementAction.MOVE for line in group.lines)


def _line(line: PlacementLine, indent: int, width: int, paint: Painter) -> list[str]:
    """`  ~ cluster-a-pool1-5  rack3-bm12 -> rack3-bm13 (machine_evacuated)`."""
    label = harmless(line.label)
    if line.action is PlacementAction.MOVE:
        label = paint(label, "bold")
    trigger = f" ({line.trigger})" if line.trigger else ""
    text = harmless(f"{_where(line)}{trigger}")
    return hanging(f"  {paint(line.symbol, _COLOURS[line.symbol])} {label}", text, indent, width)


def _where(line: PlacementLine) -> str:
    """From where to where, or where it stays."""
    match line.effect:
        case Effect.PLACED:
            return f"-> {line.target}"
        case _ if parting(line):
            return f"{parting(line)} {line.origin}".rstrip()
        case _ if line.origin:
            return f"{line.origin} -> {line.target}"
        case _:
            return f"{line_verb(line)} {line.target}".lstrip()


_NARROWEST = 20  # columns for a sentence beside its label; with fewer it stands below
_BELOW: Final = 6  # where a text begins that stands below its label


def hanging(label: str, text: str, indent: int, width: int, gap: int = 2) -> list[str]:
    """`label`, and the text in a column that starts at `indent`.

    Beside a longer label it stands where it fits on that line, else below.
    The label may hold colours; at least `gap` spaces are beside it. Lines have no space at their end.
    """
    if columns(label) > width and " " in label.strip():
        # Names may be as long as a line: the last word of a label goes below.
        front, _, last = label.rpartition(" ")
        return [front.rstrip(), *hanging(f"      {last}", text, indent, width, gap)]
    room = width - indent
    longest_word = max(map(columns, text.split()), default=0)
    if room < _NARROWEST or room < longest_word <= width - _BELOW:
        indent, room = _BELOW, width - _BELOW
    if label and columns(label) + gap > indent and columns(label) + gap + columns(text) <= width:
        return [f"{label}{' ' * gap}{text}".rstrip()]
    wrapped = wrap(text, max(room, _NARROWEST)) if text else []
    if not wrapped:
        return [label.rstrip()]
    margin = " " * indent
    if columns(label) + gap > indent and label:
        return [label.rstrip(), *(f"{margin}{line}" for line in wrapped)]
    first_line, *further_lines = wrapped
    return [f"{pad(label, indent)}{first_line}", *(f"{margin}{line}" for line in further_lines)]


def cut(lines: list[str], most: int, width: int) -> list[str]:
    """The lines, at most so many; "..." says where more was."""
    if len(lines) <= most:
        return lines
    last_line = lines[most - 1]
    while columns(last_line) + 4 > width and " " in last_line.strip():
        last_line = last_line.rpartition(" ")[0]
    return [*lines[: most - 1], f"{last_line} ..."]


def rollout_text(tables: Sequence[RolloutTable], width: int, paint: Painter) -> str:
    """The rollouts with their first steps; "" without any."""
    lines: list[str] = [paint(_ROLLOUTS, "bold")] if tables else []
    for table in tables:
        rows, left_out = table.first(_MOST_STEPS)
        lines += hanging("", harmless(table.title), 2, width)
        width_of_times = max(len(begins) for begins, _, _ in rows)
        width_of_places = max(len(place) for _, place, _ in rows)
        for begins, place, action in rows:
            label = f"    {pad(begins, width_of_times)}  {pad(place, width_of_places)}"
            lines += hanging(label, harmless(action), width_of_times + width_of_places + 8, width)
        lines += [f"    {left_out}; -report=markdown:PATH shows each."] if left_out else []
    return "\n".join(lines)
