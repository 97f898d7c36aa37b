"""An answer as a page: style, bar and map of a plan's page, the answer's words and tables below."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from nexusform.rendering.answers.outline import Outline, Section, Table
from nexusform.rendering.notation.markup import Markup, Part, element, joined
from nexusform.rendering.page.html_page import whole_page
from nexusform.rendering.page.page_data import simulation_data
from nexusform.rendering.page.page_parts import framed_table, section, table_row_of
from nexusform.weights import Stake


def answer_page(
    outline: Outline, picture: Part = None, data: dict[str, Any] | None = None, below: Part = None
) -> str:
    """The page of an answer: the verdict, a picture, words and tables, and what stands `below` them."""
    header = element("header", element("h1", outline.title))
    footer = element(
        "footer", "Made by nexusform. What it says of the future is a prediction.", class_="quiet"
    )
    main = answer_main(outline, picture, below)
    return whole_page(outline.title, header, main, footer, data or simulation_data(()))


_STAKES = {
    Stake.NOTHING: ("allowed", "Note"),
    Stake.MOVES: ("look", "Warning"),
    Stake.LOSES: ("caution", "Caution"),
}


def answer_main(outline: Outline, picture: Part = None, below: Part = None) -> Markup:
    """What stands between head and foot of the page."""
    tone, word = ("denied", "Finding") if outline.bad else ("allowed", "Good")
    if outline.stake is not None and not outline.bad:
        tone, word = _STAKES[outline.stake]
    verdict = element("p", element("strong", word), ": ", _prose(outline.verdict), class_=f"verdict {tone}")
    facts = element("ul", [element("li", _prose(fact)) for fact in outline.facts], class_="figures")
    head = element("div", verdict, facts if outline.facts else None, id="verdict")
    return joined(head, picture, _sections(outline.sections), below)


def _sections(sections: Iterable[Section]) -> list[Markup]:
    """The sections, beside one another where there is room; those that are folded as one list."""
    blocks: list[Markup] = []
    numbered = enumerate(sections, start=1)
    for folded, group in groupby(numbered, key=lambda pair: pair[1].folded):
        drawn = [_section(number, part) for number, part in group]
        blocks.append(element("div", drawn, class_="folds" if folded else "parts"))
    return blocks


def _section(number: int, part: Section) -> Markup:
    """A section of the answer; one that is detail is folded."""
    body: list[Part] = [element("p", _prose(line)) for line in part.lines]
    if part.commands:
        code = element("code", "\n".join(part.commands))
        body.append(element("pre", code, tabindex="0", role="group", aria_label="Commands"))
    if part.table is not None:
        body.append(_table(part.table, part.title))
    title = f"{part.title} (finding)" if part.bad else part.title
    if part.folded:
        return element("details", element("summary", title), body, open=part.bad)
    return section(f"part-{number}", title, body)


def _table(table: Table, title: str) -> Markup:
    """A table of an outline as HTML."""
    rows = [
        table_row_of(table.heads, row.cells, table.figures, "bad" if row.bad else None) for row in table.rows
    ]
    return framed_table(title, table.heads, rows, table.figures)


def _prose(text: str) -> list[Part]:
    """A sentence, its `code` as code."""
    parts = re.split(r"`([^`]+)`", text)
    return [element("code", part) if number % 2 else part for number, part in enumerate(parts)]
