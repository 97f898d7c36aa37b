"""Report as HTML: the sections of a plan, and whole pages of answers.

It has the style and map of a plan page.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final
from urllib.parse import quote

from nexusform.diagnostics.levels import PlacementImpact
from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import format_count, join_texts
from nexusform.plans.plan import PlacementChange
from nexusform.rendering.notation.colours import strip_colours
from nexusform.rendering.notation.markup import (
    Markup,
    Part,
    build_breakable_name,
    build_element,
    join_markup,
)
from nexusform.rendering.page.page_data import build_simulation_data
from nexusform.rendering.page.page_elements import (
    build_findings,
    build_framed_table,
    build_row,
    build_script_placeholder,
    build_section,
    render_diff,
    render_inline_code,
    render_page,
)
from nexusform.rendering.report.decision_lines import DecisionLine
from nexusform.rendering.report.domain_sections import fold_equal_rows
from nexusform.rendering.report.playback import Playback
from nexusform.rendering.report.report_tree import (
    ActionText,
    CodeBlock,
    Item,
    ItemGroup,
    Report,
    Section,
    Style,
    StyledText,
    Table,
    Text,
    change_texts,
    list_spans,
)

# A matrix with more columns lists the cells that changed only on narrow screens.
_MAX_MATRIX_COLUMNS: Final = 12
_MAX_MATRIX_ROWS: Final = 2000
# `module.m.TYPE.` and `NAME["KEY"]`.
_ADDRESS: Final = re.compile(r"(.*\.)([^.\[\]\"]+(?:\[.*)?)", re.DOTALL)
# Of code that is not folded.
_MAX_LINES: Final = 20
_MAX_ITEMS: Final = 60
IMPACT_STYLES: Final[Mapping[PlacementImpact, tuple[str, str]]] = {
    PlacementImpact.NONE: ("safe", "Note"),
    PlacementImpact.MOVES: ("look", "Warning"),
    PlacementImpact.LOSES: ("caution", "Caution"),
}
_SIGN_CLASSES: Final = {
    "+": "added",
    "-": "removed",
    "~": "changed",
    "-/+": "removed",
    "+/-": "removed",
}


def render_report_page(
    report: Report,
    pictures: Part = None,
    appendix: Part = None,
    *,
    plays: Sequence[Playback] = (),
    rows: Sequence[PlacementChange] = (),
) -> str:
    """Render a report as a page, with a search field for `rows`.

    Simulations (`plays`) replace `pictures` by a map.
    """
    data = build_simulation_data(plays, rows)
    if plays:
        # Colour the map by cluster at first, or by free capacity if no simulation has
        # steps to watch.
        data["layer"] = "cluster" if any(play.steps for play in plays) else "free"
        pictures = build_section("racks", "Map", build_script_placeholder("map"))
    header = build_element("header", build_element("h1", report.title))
    footer = build_element(
        "footer", "Made by nexusform. Future placements are predictions.", class_="quiet"
    )
    return render_page(
        report.title, header, build_report_main(report, pictures, appendix), footer, data
    )


def build_report_main(report: Report, pictures: Part = None, appendix: Part = None) -> Markup:
    """Build the main part of the page of an answer.

    It has the verdict and facts, `pictures`, the numbered sections, and `appendix`. Folded sections
    are collapsible (`<details>`), and open if they are findings.
    """
    report = change_texts(report, escape_name)
    kind, label = ("denied", "Finding") if report.is_finding else ("safe", "Good")
    if report.impact is not None and not report.is_finding:
        kind, label = IMPACT_STYLES[report.impact]
    facts = [build_element("li", render_inline_code(fact)) for fact in report.facts]
    header = build_decision([DecisionLine(label, (report.verdict,)), *report.decision], kind, facts)
    blocks: list[Markup] = []
    numbered = enumerate(report.sections, start=1)
    for is_folded, group in groupby(numbered, key=lambda entry: entry[1].is_folded):
        # Of one box: neighbours share it.
        elements: list[Markup] = []
        for number, part in group:
            title = f"{part.title} (finding)" if part.is_finding else part.title
            body = _build_body(part)
            if is_folded:
                elements.append(
                    build_element(
                        "details", build_element("summary", title), body, open=part.is_finding
                    )
                )
            else:
                elements.append(build_section(f"part-{number}", title, body))
        blocks.append(build_element("div", elements, class_="folds" if is_folded else "parts"))
    return join_markup(header, pictures, blocks, appendix)


def build_decision(lines: Iterable[DecisionLine], kind: str, facts: Sequence[Markup]) -> Markup:
    """Build the decision block in the CSS class `kind`.

    It has labels with their texts, and below them a list of facts.
    """
    block = [
        (
            build_element("dt", escape_name(line.label)),
            [
                build_element("dd", render_inline_code(text))
                for text in map(escape_name, line.texts)
            ],
        )
        for line in lines
    ]
    fact_list = build_element("ul", facts, class_="figures") if facts else None
    return build_element(
        "div", build_element("dl", block, class_=f"decision {kind}"), fact_list, id="verdict"
    )


def build_plan_section(section: Section, short_title: str = "", appendix: Part = None) -> Part:
    """Build a section of a plan; None for one without content."""
    if not section.has_content:
        return None
    section = change_texts(section, escape_name)
    # The section has sentences without a heading.
    if not section.title:
        return [build_element("p", build_text(line)) for line in section.lines]
    body = [*_build_body(section), appendix]
    if section.is_folded:
        captions = [table.caption for table in section.all_tables]
        summary = build_element("summary", join_texts(captions, ", ") or section.title)
        body = [build_element("details", summary, body)]
    return build_section(section.name, section.title, body, data_short=short_title or None)


def _build_body(section: Section) -> list[Part]:
    """Build the contents of a section.

    They are tables, notes, lines, commands, items, findings and code, as far as it has them.
    """
    tables: list[Part] = []
    folded_tables: list[Part] = []
    for table in section.all_tables:
        content = _build_matrix(table) if table.is_matrix else _build_table(table, section.title)
        if table.fold_title:
            folded_tables.append(_fold(table.fold_title, content))
        else:
            tables.append(content)
    if len(tables) > 1:
        tables = [build_element("div", tables, class_="side-by-side")]
    tables += folded_tables
    lines = [
        build_element("p", build_element("strong", heading), f": {sentence}")
        for heading, sentence in section.notes
    ]
    lines += [build_element("p", build_text(line)) for line in section.lines]
    if section.commands:
        code = build_element("code", "\n".join(section.commands))
        lines.append(build_element("pre", code, tabindex="0", role="group", aria_label="Commands"))
    # Sentences come first in a section without a name.
    body: list[Part] = [*tables, *lines] if section.name else [*lines, *tables]
    body += map(_build_item_group, section.groups)
    if section.findings.findings:
        body.append(build_findings(section.findings.findings, section.findings.sources))
    if section.code.text:
        body.append(_build_code_block(section.code, section.title))
    return body


def build_text(text: Text) -> list[Part]:
    """Build a text with its styles."""
    parts: list[Part] = []
    for part in list_spans(text):
        parts += (
            [_build_inline_text(part)] if isinstance(part, StyledText) else render_inline_code(part)
        )
    return parts


def _build_inline_text(span: StyledText) -> Part:
    """Build a part of a text with a style; a site is a link to its map."""
    text = span.text
    match span.style:
        case Style.ACTION:
            return _build_action_text(span)
        case Style.ARROW:
            return "→"
        case Style.CODE | Style.LOCATION:
            return build_element("code", build_breakable_name(text))
        case Style.SITE:
            return build_element("a", text, href=f"#site={quote(span.text)}")
        case _:
            return build_element("strong", text)


def _build_table(table: Table, title: str) -> Markup:
    """Build a table in its box.

    The note of a row is below its last cell.
    """
    rows = []
    for row in table.rows:
        cells: list[Part] = list(map(build_text, row.cells))
        if row.note:
            cells[-1] = [cells[-1], build_element("div", row.note, class_="quiet small")]
        rows.append(
            build_row(table.headers, cells, table.number_columns, "bad" if row.is_finding else None)
        )
    caption = build_element("caption", table.caption, class_="quiet") if table.caption else None
    return build_framed_table(
        table.caption or title,
        table.headers,
        rows,
        table.number_columns,
        caption,
        is_unwrapped=table.is_unwrapped,
    )


def _build_action_text(span: StyledText) -> Part:
    """Build the text of an action in its colour, with its figures below it."""
    if not isinstance(span, ActionText) or not span.action:
        return span.text or "\N{EN DASH}"
    text = build_element("span", span.text, class_=f"mark-{span.action}")
    return [text, build_element("div", span.detail, class_="quiet small") if span.detail else None]


def _build_matrix(table: Table) -> list[Part]:
    """Build a matrix; equal rows are one row, and its instances of a block share one name."""
    rows = fold_equal_rows(table.rows)
    lines = []
    for names, cells in rows[:_MAX_MATRIX_ROWS]:
        name_parts = list(map(_build_address, names))
        parts = name_parts[:1] + [build_element("div", name) for name in name_parts[1:]]
        cell_parts = [
            _build_matrix_cell(header, cell)
            for header, cell in zip(table.headers[1:], cells, strict=True)
        ]
        lines.append(build_element("tr", build_element("th", parts, scope="row"), cell_parts))
    heads = [build_element("th", header, scope="col") for header in table.headers]
    is_wide = len(table.headers) - 1 > _MAX_MATRIX_COLUMNS
    matrix = build_element(
        "table",
        build_element("caption", table.caption, class_="quiet"),
        build_element("thead", build_element("tr", heads)),
        build_element("tbody", lines),
        class_="matrix wide" if is_wide else "matrix",
    )
    box = build_element(
        "div", matrix, class_="scroll", tabindex="0", role="region", aria_label=table.caption
    )
    limit = f"The first {_MAX_MATRIX_ROWS:,} of {len(rows):,} are listed."
    return [build_element("p", limit) if len(rows) > _MAX_MATRIX_ROWS else None, box]


def _build_address(address: str) -> Part:
    """Build an address with its name in bold below the small type."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return build_element("code", build_breakable_name(address), class_="name")
    front, name = map(build_breakable_name, match.groups())
    return [
        build_element("code", front, class_="quiet small front"),
        build_element("code", name, class_="name"),
    ]


def _build_matrix_cell(header: str, cell: Text) -> Markup:
    """Build a cell with its reason as a tooltip, and its header in a narrow layout."""
    action, reason = (cell.action, cell.reason) if isinstance(cell, ActionText) else ("", "")
    return build_element(
        "td",
        build_text(cell),
        class_=f"picked {action}" if action else "not",
        data_tip=reason or None,
        data_head=header,
    )


def _fold(title: str, content: Part) -> Markup:
    """Build a part that is closed at first."""
    return build_element("details", build_element("summary", title), content, class_="reasons")


def _build_item_group(group: ItemGroup) -> Markup:
    """Build a list of items; a named one is folded."""
    items = list(map(_build_list_item, group.items[:_MAX_ITEMS]))
    hidden_count = sum(item.count for item in group.items[_MAX_ITEMS:])
    if hidden_count:
        note = f"and {format_count(hidden_count, 'more object')}, listed below"
        items.append(build_element("li", note, class_="quiet"))
    item_list = build_element("ul", items, class_="objects")
    if not group.name:
        return item_list
    return _fold(group.name, item_list)


def _build_list_item(item: Item) -> Markup:
    """Build an item such as `+ nexus_rack.rack["1".."8"]  rack1..8: 16 machines each`."""
    kind = f"sign {_SIGN_CLASSES.get(item.symbol, '')}".rstrip()
    sign = build_element("span", item.symbol, class_=kind) if item.symbol else None
    label = [build_element("code", build_breakable_name(item.label)), " "] if item.label else None
    return build_element("li", sign, build_element("div", label, build_text(item.text)))


def _build_code_block(code: CodeBlock, title: str) -> Markup:
    """Build lines of fixed width, folded if there are many."""
    text = strip_colours(code.text)
    content = render_diff(text, title)
    count = text.count("\n") + 1
    if count <= _MAX_LINES:
        return content
    return build_element(
        "details", build_element("summary", f"{count:,} lines"), content, class_="long"
    )
