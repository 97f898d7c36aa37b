"""Answers as Markdown for pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.notation.colours import harmless
from nexusform.rendering.pull_request.markdown_parts import escaped


def outline_markdown(outline: Outline) -> str:
    """The whole answer as GitHub-flavoured Markdown, with a newline at the end."""
    mark = "\u274c" if outline.bad else "\u2705"
    parts = [f"### {_plain(outline.title)}", f"{mark} **{_plain(outline.verdict)}**"]
    if outline.facts:
        parts.append("\n".join(f"- {_plain(fact)}" for fact in outline.facts))
    parts += ["\n\n".join(_section(section)) for section in outline.sections]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> Iterable[str]:
    """The blocks of text of one section."""
    title = f"\u274c {_plain(section.title)}" if section.bad else _plain(section.title)
    yield f"<details><summary>{title}</summary>" if section.folded else f"#### {title}"
    if section.lines:
        yield _lines([_plain(line.strip()) for line in section.lines])
    if section.commands:
        yield "\n".join(("```sh", *(harmless(command) for command in section.commands), "```"))
    if section.table is not None:
        yield _table(section.table)
    if section.folded:
        yield "</details>"


def _lines(lines: Sequence[str]) -> str:
    # A list keeps lines apart; one line alone is a paragraph.
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def _table(table: Table) -> str:
    rule = ["---:" if column in table.figures else "---" for column in range(len(table.heads))]
    rows = [[_plain(head) for head in table.heads], rule, *(_cells(row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _cells(row: Row) -> list[str]:
    cells = [_plain(cell) for cell in row.cells]
    return [f"**{cell}**" if cell else cell for cell in cells] if row.bad else cells


_CODE = re.compile(r"(`[^`\n]+`)")


def _plain(text: str) -> str:
    """The text with what Markdown would take for its own escaped; `code` stays code."""
    parts = _CODE.split(harmless(text).replace("\n", " "))
    # Splitting by a group puts what it matched at the odd places.
    parts[0::2] = [escaped(part) for part in parts[0::2]]
    parts[1::2] = [code.replace("|", "\\|") for code in parts[1::2]]
    return "".join(parts)
