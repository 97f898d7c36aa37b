"""HTML page of a report: style, bar and map of a plan page, with text and tables below."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from nexusform.diagnostics.levels import Impact
from nexusform.plans.plan import PlacementChange
from nexusform.rendering.notation.markup import Markup, Part, build_element, join_parts
from nexusform.rendering.page.html_page import build_script_placeholder, render_page
from nexusform.rendering.page.page_data import Playback, build_simulation_data
from nexusform.rendering.page.page_parts import build_framed_table, build_row, build_section
from nexusform.rendering.report.report_tree import Report, Section, Table


def render_report_page(
    report: Report,
    pictures: Part = None,
    appendix: Part = None,
    *,
    plays: Sequence[Playback] = (),
    rows: Sequence[PlacementChange] = (),
) -> str:
    """Render the page: verdict, pictures or the map of `plays`, text and tables, `appendix`. `rows` are bindings
    and pods for the search.
    """
    data = build_simulation_data(plays, rows)
    if plays:
        has_steps = any(play.steps for play in plays)
        data["layer"] = "cluster" if has_steps else "free"
        pictures = build_section("racks", "Map", build_script_placeholder("map"))
    header = build_element("header", build_element("h1", report.title))
    footer = build_element("footer", "Made by nexusform. Future placements are predictions.", class_="quiet")
    return render_page(report.title, header, build_report_main(report, pictures, appendix), footer, data)


_IMPACT_STYLES = {
    Impact.NONE: ("safe", "Note"),
    Impact.MOVES: ("look", "Warning"),
    Impact.LOSES: ("caution", "Caution"),
}


def build_report_main(report: Report, pictures: Part = None, appendix: Part = None) -> Markup:
    """Build the main part of the page."""
    style, label = ("denied", "Finding") if report.is_finding else ("safe", "Good")
    if report.impact is not None and not report.is_finding:
        style, label = _IMPACT_STYLES[report.impact]
    verdict = build_element(
        "dl", build_element("dt", label), build_element("dd", _split_code(report.verdict)), class_=f"decision {style}"
    )
    facts = build_element("ul", [build_element("li", _split_code(fact)) for fact in report.facts], class_="figures")
    header = build_element("div", verdict, facts if report.facts else None, id="verdict")
    return join_parts(header, pictures, _build_sections(report.sections), appendix)


def _build_sections(sections: Iterable[Section]) -> list[Markup]:
    """Build the sections, folded ones as one list."""
    blocks: list[Markup] = []
    numbered = enumerate(sections, start=1)
    for is_folded, group in groupby(numbered, key=lambda pair: pair[1].is_folded):
        elements = [_build_answer_section(number, part) for number, part in group]
        blocks.append(build_element("div", elements, class_="folds" if is_folded else "parts"))
    return blocks


def _build_answer_section(number: int, part: Section) -> Markup:
    """Build a section; details are folded."""
    body: list[Part] = [build_element("p", _split_code(line)) for line in part.lines]
    if part.commands:
        code = build_element("code", "\n".join(part.commands))
        body.append(build_element("pre", code, tabindex="0", role="group", aria_label="Commands"))
    if part.table is not None:
        body.append(_build_answer_table(part.table, part.title))
    title = f"{part.title} (finding)" if part.is_finding else part.title
    if part.is_folded:
        return build_element("details", build_element("summary", title), body, open=part.is_finding)
    return build_section(f"part-{number}", title, body)


def _build_answer_table(table: Table, title: str) -> Markup:
    """Build a table of a report as HTML."""
    rows = [build_row(table.headers, row.cells, table.figures, "bad" if row.is_finding else None) for row in table.rows]
    return build_framed_table(title, table.headers, rows, table.figures)


def _split_code(text: str) -> list[Part]:
    """Split a sentence and mark `code` as code."""
    parts = re.split(r"`([^`]+)`", text)
    return [build_element("code", part) if number % 2 else part for number, part in enumerate(parts)]
