"""An answer to a question, neutral of any format: a verdict, facts, and sections with tables; and its
formats: terminal text, Markdown for pull requests, one self-contained HTML file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.rendering.notation.colours import (
    Painter,
    column_widths,
    columns,
    harmless,
    indented,
    pad,
    wrap,
)
from nexusform.rendering.notation.places import cells_text, place_document
from nexusform.rendering.pull_request.markdown_parts import prose
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


# --- formats -----------------------------------------------------------------------------------


_INDENT = "  "
MOST_ROWS = 12  # of a part that is detail
MOST_FOLDED = 12  # parts that are detail and no finding; more would bury the rest


def outline_text(outline: Outline, *, colour: bool = False, width: int = 80) -> str:
    """The whole answer, with a newline at the end."""
    paint = Painter(colour)
    tone = "red" if outline.bad else "green"
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
        first = harmless(left_out[0].title)
        lines += ["", f"{len(left_out)} more parts, from: {first}. -format=markdown shows all."]
    return "\n".join(lines) + "\n"


def _section(section: Section, paint: Painter, width: int) -> Iterable[str]:
    """The lines of one section."""
    styles = ("bold", "red") if section.bad else ("bold",)
    yield from (paint(line, *styles) for line in _wrapped(section.title, width))
    inner_width = width - len(_INDENT)
    for line in section.lines:
        yield from (f"{_INDENT}{part}" for part in _wrapped(line, inner_width))
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
    padded = (pad(cell, widths[k], right=k in figures) for k, cell in enumerate(cells))
    return "  ".join(padded).rstrip()


def _records(
    table: Table, heads: Sequence[str], rows: Sequence[Sequence[str]], paint: Painter, width: int
) -> list[str]:
    """A table that is too wide, as a few lines per row."""
    lines: list[str] = []
    for row, cells in zip(table.rows, rows, strict=True):
        lines.append(paint(cells[0] or "-", "red" if row.bad else "bold"))
        parts = [f"{head}: {cell}" for head, cell in zip(heads[1:], cells[1:], strict=True) if cell]
        lines += [f"{_INDENT}{part}" for part in _packed(parts, width - len(_INDENT))]
    return lines


def _packed(parts: Iterable[str], width: int) -> Iterable[str]:
    """Parts joined by commas, as many to a line as fit; a part that is longer than a line is wrapped."""
    line = ""
    for part in parts:
        # A comma may follow.
        if line and columns(line) + columns(part) + 3 > width:
            yield from indented(f"{line},", 2, width)
            line = part
        else:
            line = f"{line}, {part}" if line else part
    if line:
        yield from indented(line, 2, width)


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(harmless(text), width)


def _hanging(text: str, width: int) -> Iterable[str]:
    first, *rest = _wrapped(text, width - 4)
    yield f"{_INDENT}- {first}"
    yield from (f"{_INDENT}  {line}" for line in rest)


def outline_markdown(outline: Outline) -> str:
    """The whole answer as GitHub-flavoured Markdown, with a newline at the end."""
    mark = "\u274c" if outline.bad else "\u2705"
    parts = [f"### {prose(outline.title)}", f"{mark} **{prose(outline.verdict)}**"]
    if outline.facts:
        parts.append("\n".join(f"- {prose(fact)}" for fact in outline.facts))
    parts += ["\n\n".join(_markdown_section(section)) for section in outline.sections]
    return "\n\n".join(parts) + "\n"


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
    cells = [prose(cell) for cell in row.cells]
    return [f"**{cell}**" if cell else cell for cell in cells] if row.bad else cells


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #f3f5f7;
  --good: #116329; --bad: #b3130b; --bad-soft: #ffeceb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #3d444d;
  --soft: #161b22; --good: #56d364; --bad: #ff8b82; --bad-soft: #3a1512; } }
body { margin: 0 auto; max-width: 75rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 1.5rem 0 .25rem; }
summary { font-size: 1.05rem; font-weight: 600; cursor: pointer; padding: .25rem 0; }
.verdict { font-size: 1.15rem; font-weight: 600; border-left: .4rem solid var(--good); padding-left: .75rem; }
.verdict.bad { border-color: var(--bad); color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .2rem .6rem; text-align: left; }
th { background: var(--soft); } td:last-child { min-width: 8rem; } .figure { text-align: right; }
tr.bad td { background: var(--bad-soft); color: var(--bad); font-weight: 600; }
pre { background: var(--soft); padding: .6rem; overflow-x: auto; }
"""

_NAMELESS = "note"


def outline_page(outline: Outline) -> str:
    """The page, with a newline at the end."""
    title = _text(outline.title)
    word, tone = ("Finding", "verdict bad") if outline.bad else ("Good", "verdict")
    facts = "".join(f"<li>{_prose(fact)}</li>" for fact in outline.facts)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{title}</h1>",
        f'<p class="{tone}">{word}: {_prose(outline.verdict)}</p>',
        f"<ul>{facts}</ul>" if facts else "",
        *(_page_section(section) for section in outline.sections),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _page_section(section: Section) -> str:
    """A section of the page; one that is detail can be folded."""
    body = "\n".join(_body(section))
    title = _text(section.title) + (" (finding)" if section.bad else "")
    if section.folded:
        opened = " open" if section.bad else ""
        return f"<details{opened}><summary>{title}</summary>\n{body}\n</details>"
    return f"<section><h2>{title}</h2>\n{body}\n</section>"


def _body(section: Section) -> Iterable[str]:
    """Lines, commands and table of a section."""
    yield from (f"<p>{_prose(line)}</p>" for line in section.lines)
    if section.commands:
        commands = "\n".join(_text(command) for command in section.commands)
        yield f'<pre tabindex="0"><code>{commands}</code></pre>'
    if section.table is not None:
        yield _page_table(section.table, section.title)


def _page_table(table: Table, title: str) -> str:
    """A table in a box that scrolls."""
    heads = "".join(
        f'<th scope="col"{_figure(table, k)}>{_text(head) or _NAMELESS}</th>'
        for k, head in enumerate(table.heads)
    )
    rows = []
    for row in table.rows:
        cells = "".join(f"<td{_figure(table, k)}>{_text(cell)}</td>" for k, cell in enumerate(row.cells))
        mark = ' class="bad"' if row.bad else ""
        rows.append(f"<tr{mark}>{cells}</tr>")
    label = f'role="region" tabindex="0" aria-label="{_text(title)}"'
    head = f"<thead><tr>{heads}</tr></thead>"
    body = "\n".join(rows)
    return f'<div class="scroll" {label}><table>{head}\n<tbody>{body}</tbody></table></div>'


def _figure(table: Table, column: int) -> str:
    return ' class="figure"' if column in table.figures else ""


def _text(text: str) -> str:
    return escape(harmless(text).strip(), quote=True)


def _prose(text: str) -> str:
    """A sentence, its `code` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))
