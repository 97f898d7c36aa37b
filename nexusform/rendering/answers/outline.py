"""An answer to a question, neutral of any format: a verdict, facts, and sections with tables; and its
formats: terminal text and Markdown for pull requests (`answer_page.py` is the third).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.json_forms import Form
from nexusform.placement_kinds.kinds import place_document
from nexusform.placement_kinds.vm_kind import cells_text
from nexusform.rendering.notation.colours import (
    Painter,
    column_widths,
    columns,
    harmless,
    indented,
    pad,
    wrap,
)
from nexusform.rendering.pull_request.markdown_parts import obeyed_by_nobody, prose
from nexusform.scheduling.racks.vms import Placement
from nexusform.weights import Stake
from nexusform.words import spans
from nexusform.worlds.availability import Replacement


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
    """The whole answer. `bad` says that the verdict is a finding; `stake` what is at stake, where the answer
    is about a plan.
    """

    title: str
    verdict: str
    bad: bool
    facts: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    stake: Stake | None = None

    @property
    def box(self) -> Stake | None:
        """What is at stake; of a plan that is refused the worst. None of what is no plan."""
        return Stake.LOSES if self.bad and self.stake is not None else self.stake


def spans_text(numbers: Iterable[int]) -> str:
    """`1-3, 5` from ascending numbers."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans(numbers))


def short_place_text(placement: Placement) -> str:
    """`rack7-bm06 / cell 1`; the rack goes before it where the machine's name does not say it."""
    front = "" if placement.machine.startswith(placement.rack) else f"{placement.rack} / "
    cells = cells_text(placement)
    return f"{front}{placement.machine} / {cells}" if cells else f"{front}{placement.machine}"


# A node that is made anew, as data: where it stood and where it goes, null where there is no room.
REPLACEMENT: Final = Form(
    Replacement,
    "node=vm.name from=vm.placement to=place",
    {"from": place_document, "to": place_document},
)


# --- formats -----------------------------------------------------------------------------------


_INDENT = "  "
_TONES = {Stake.NOTHING: "green", Stake.MOVES: "yellow", Stake.LOSES: "red"}
MOST_ROWS = 12  # of a part that is detail
MOST_FOLDED = 12  # parts that are detail and no finding; more would bury the rest


def outline_text(outline: Outline, *, colour: bool = False, width: int = 80) -> str:
    """The whole answer, with a newline at the end."""
    paint = Painter(colour)
    tone = _TONES[outline.box] if outline.box is not None else "red" if outline.bad else "green"
    lines = [paint(line, "bold") for line in _wrapped(outline.title, width)]
    lines += [paint(line, "bold", tone) for line in _wrapped(outline.verdict, width)]
    for fact in outline.facts:
        lines += _hanging(fact, width)
    details = [section for section in outline.sections if section.folded and not section.bad]
    left_out = details[MOST_FOLDED:]
    for section in outline.sections:
        if section not in left_out:
            lines += ["", *_section(section, paint, width)]
    if left_out:
        first_title = harmless(left_out[0].title)
        lines += ["", f"{len(left_out)} more parts, from: {first_title}. -format=markdown shows all."]
    return "\n".join(lines) + "\n"


def _section(section: Section, paint: Painter, width: int) -> Iterable[str]:
    """The lines of one section."""
    styles = ("bold", "red") if section.bad else ("bold",)
    yield from (paint(line, *styles) for line in _wrapped(section.title, width))
    inner_width = width - len(_INDENT)
    for line in section.lines:
        yield from (f"{_INDENT}{wrapped}" for wrapped in _wrapped(line, inner_width))
    yield from (f"{_INDENT}{harmless(command)}" for command in section.commands)
    if section.table is None:
        return
    table = _shortened(section.table) if section.folded else section.table
    yield from (f"{_INDENT}{line}" for line in table_lines(table, paint, inner_width))
    left_out = len(section.table.rows) - len(table.rows)
    if left_out:
        yield f"{_INDENT}... and {left_out} more; -format=markdown shows all."


def _shortened(table: Table) -> Table:
    """A table with the rows that are part of the finding, or its first ones, where it has many."""
    if len(table.rows) <= MOST_ROWS:
        return table
    bad = tuple(row for row in table.rows if row.bad)
    return replace(table, rows=(bad or table.rows)[:MOST_ROWS])


def table_lines(table: Table, paint: Painter, width: int) -> list[str]:
    """The table's lines; where it is wider than `width`, every row as lines of `head: value`."""
    heads = _harmless(table.heads)
    rows = [_harmless(row.cells) for row in table.rows]
    widths = column_widths([heads, *rows])
    if sum(widths) + 2 * (len(widths) - 1) > width:
        return _records(table, heads, rows, paint, width)
    lines = [paint(_line(heads, widths, table.figures), "bold")]
    for row, cells in zip(table.rows, rows, strict=True):
        line = _line(cells, widths, table.figures)
        lines.append(paint(line, "red") if row.bad else line)
    return lines


def _harmless(cells: Iterable[str]) -> list[str]:
    return [harmless(cell) for cell in cells]


def _line(cells: Sequence[str], widths: Sequence[int], figures: frozenset[int]) -> str:
    """A row of a table, its cells filled to the widths of their columns."""
    padded = (pad(cell, widths[column], right=column in figures) for column, cell in enumerate(cells))
    return "  ".join(padded).rstrip()


def _records(
    table: Table, heads: Sequence[str], rows: Sequence[Sequence[str]], paint: Painter, width: int
) -> list[str]:
    """A table that is too wide, as a few lines per row."""
    lines: list[str] = []
    for row, cells in zip(table.rows, rows, strict=True):
        lines.append(paint(cells[0] or "-", "red" if row.bad else "bold"))
        clauses = [f"{head}: {cell}" for head, cell in zip(heads[1:], cells[1:], strict=True) if cell]
        lines += [f"{_INDENT}{clause}" for clause in _packed(clauses, width - len(_INDENT))]
    return lines


def _packed(clauses: Iterable[str], width: int) -> Iterable[str]:
    """Clauses joined by commas, as many to a line as fit; one that is longer than a line is wrapped."""
    line = ""
    for clause in clauses:
        # A comma may follow.
        if line and columns(line) + columns(clause) + 3 > width:
            yield from indented(f"{line},", 2, width)
            line = clause
        else:
            line = f"{line}, {clause}" if line else clause
    if line:
        yield from indented(line, 2, width)


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(harmless(text), width)


def _hanging(text: str, width: int) -> Iterable[str]:
    """A fact as an item of a list, its further lines set in."""
    first_line, *further_lines = _wrapped(text, width - 4)
    yield f"{_INDENT}- {first_line}"
    yield from (f"{_INDENT}  {line}" for line in further_lines)


def outline_markdown(outline: Outline) -> str:
    """The whole answer as GitHub-flavoured Markdown, with a newline at the end."""
    blocks = [f"### {prose(outline.title)}", _markdown_verdict(outline)]
    if outline.facts:
        blocks.append("\n".join(f"- {prose(fact)}" for fact in outline.facts))
    blocks += ["\n\n".join(_markdown_section(section)) for section in outline.sections]
    return obeyed_by_nobody("\n\n".join(blocks) + "\n")


def _markdown_verdict(outline: Outline) -> str:
    """The verdict: in the box of what is at stake, else behind a mark."""
    if outline.box is not None:
        return f"> [!{outline.box.value.upper()}]\n> **{prose(outline.verdict)}**"
    mark = "\u274c" if outline.bad else "\u2705"
    return f"{mark} **{prose(outline.verdict)}**"


def _markdown_section(section: Section) -> Iterable[str]:
    """The blocks of text of one section."""
    title = f"\u274c {prose(section.title)}" if section.bad else prose(section.title)
    yield f"<details><summary>{title}</summary>" if section.folded else f"#### {title}"
    if section.lines:
        yield _lines([prose(line.strip()) for line in section.lines])
    if section.commands:
        yield "\n".join(("```sh", *(harmless(command) for command in section.commands), "```"))
    if section.table is not None:
        yield _markdown_table(section.table)
    if section.folded:
        yield "</details>"


def _lines(lines: Sequence[str]) -> str:
    # A list keeps lines apart; one line alone is a paragraph.
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def _markdown_table(table: Table) -> str:
    rule = ["---:" if column in table.figures else "---" for column in range(len(table.heads))]
    rows = [[prose(head) for head in table.heads], rule, *(_cells(row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _cells(row: Row) -> list[str]:
    """The cells of a row as Markdown, those of a finding in bold."""
    cells = [prose(cell) for cell in row.cells]
    return [f"**{cell}**" if cell else cell for cell in cells] if row.bad else cells
