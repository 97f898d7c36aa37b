"""Answers as Markdown for pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nexusform.rendering.answers.outline import Outline, Section, Table
from nexusform.rendering.notation.colours import harmless


def outline_markdown(outline: Outline) -> str:
    """The whole answer as GitHub-flavoured Markdown, with a newline at the end."""
    mark = "\u274c" if outline.bad else "\u2705"
    parts = [f"### {_plain(outline.title)}", f"{mark} **{_plain(outline.verdict)}**"]
    if outline.facts:
        parts.append("\n".join(f"- {_plain(fact)}" for fact in outline.facts))
    parts += ["\n\n".join(_section(section)) for section in outline.sections]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> Iterable[str]:
    title = f"\u274c {_plain(section.title)}" if section.bad else _plain(section.title)
    yield f"<details><summary>{title}</summary>" if section.folded else f"#### {title}"
    # A list keeps lines apart; one line alone is a paragraph.
    lines = [_plain(line.strip()) for line in section.lines]
    if lines:
        yield lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
    if section.commands:
        yield "\n".join(("```sh", *(harmless(command) for command in section.commands), "```"))
    if section.table is not None:
        yield _table(section.table)
    if section.folded:
        yield "</details>"


def _table(table: Table) -> str:
    rule = ["---:" if k in table.figures else "---" for k in range(len(table.heads))]
    rows = [[_plain(cell) for cell in table.heads], rule]
    for row in table.rows:
        cells = [_plain(cell) for cell in row.cells]
        rows.append([f"**{cell}**" if row.bad and cell else cell for cell in cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


_CODE = re.compile(r"(`[^`\n]+`)")


def _plain(text: str) -> str:
    """The text with what Markdown would take for its own escaped; `code` stays code."""
    parts = _CODE.split(harmless(text).replace("\n", " "))
    return "".join(part.replace("|", "\\|") if k % 2 else _escaped(part) for k, part in enumerate(parts))


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text).replace("<", "&lt;")
