"""Answers as one self-contained HTML file: nothing is fetched, light and dark, readable by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from nexusform.rendering.answers.outline import Outline, Section, Table
from nexusform.rendering.notation.colours import harmless

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
th { background: var(--soft); } .figure { text-align: right; }
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
        *(_section(section) for section in outline.sections),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> str:
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
        yield _table(section.table, section.title)


def _table(table: Table, title: str) -> str:
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
