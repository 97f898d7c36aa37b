"""Elements of pages (sections, tables, differences, findings), and the shell of every page.

A page is a single file without external requests, for any screen width. Text and tables need no
scripts. Scripts draw the rack map, the change tree and the lists, and only the visible part of
them. Their data is JSON in the page (`page_data.py`); styles and scripts are files in `assets/`.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib import resources
from itertools import groupby
from textwrap import dedent
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import group_by, join_texts
from nexusform.rendering.notation.markup import (
    Markup,
    Part,
    build_breakable_name,
    build_code_element,
    build_data_script,
    build_element,
    join_markup,
)
from nexusform.rendering.report.finding_entries import (
    Finding,
    format_location,
    limit_findings_per_id,
)
from nexusform.rendering.report.folding import format_instances
from nexusform.rendering.text.change_stanza_text import mark_text_lines
from nexusform.rendering.text.diagnostic_text import extract_snippet


def build_section(identifier: str, title: str, *parts: Part, **attributes: Any) -> Markup:
    """Build a titled section."""
    heading = build_element("h2", title, id=f"{identifier}-title")
    return build_element(
        "section",
        heading,
        *parts,
        id=identifier,
        aria_labelledby=f"{identifier}-title",
        **attributes,
    )


_MAX_ROWS: Final = 20  # rows
_HIDDEN_HEADER: Final = build_element("span", "note", class_="unseen")
# Number of letters of all headers that fit on a phone.
_MAX_HEADER_LENGTH: Final = 40
# Number of columns that fit on a phone, at most two of them with text.
_MAX_COLUMNS: Final = 5


def build_framed_table(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Markup],
    number_columns: AbstractSet[int],
    caption: Part = None,
    *,
    is_unwrapped: bool = False,
) -> Markup:
    """Build a table in a scrollable box, at most one screen high.

    `number_columns` are positions, counted from 0. With `is_unwrapped` no cell is wrapped. Rows of
    wide tables become blocks of lines on a phone.
    """
    text_columns = len(headers) - len(number_columns)
    is_wide = (
        len(headers) > _MAX_COLUMNS
        or text_columns > 2
        or len("  ".join(headers)) > _MAX_HEADER_LENGTH
    )
    css_classes = {
        "scroll": True,
        "nowrap": is_unwrapped,
        "stack": is_wide,
        "grid": len(number_columns) > _MAX_COLUMNS,
        "tall": len(rows) > _MAX_ROWS,
    }
    header_cells = [
        build_element(
            "th",
            head or _HIDDEN_HEADER,
            scope="col",
            class_=_get_cell_class(column, number_columns),
        )
        for column, head in enumerate(headers)
    ]
    table_element = build_element(
        "table",
        caption,
        build_element("thead", build_element("tr", header_cells)),
        build_element("tbody", rows),
    )
    return build_element(
        "div",
        table_element,
        class_=" ".join(css_class for css_class, is_active in css_classes.items() if is_active),
        tabindex="0",
        role="region",
        aria_label=f"Table: {title}",
    )


def build_row(
    headers: Sequence[str],
    cells: Sequence[Part],
    number_columns: AbstractSet[int],
    kind: str | None = None,
) -> Markup:
    """Build a table row in the CSS class `kind`.

    On a phone, `data-head` labels a cell with its header.
    """
    row_head, *other_cells = cells
    data_cells = [
        build_element(
            "td",
            cell,
            class_=_get_cell_class(column, number_columns),
            data_head=headers[column] or None,
        )
        for column, cell in enumerate(other_cells, start=1)
    ]
    return build_element("tr", build_element("th", row_head, scope="row"), data_cells, class_=kind)


def _get_cell_class(column: int, number_columns: AbstractSet[int]) -> str | None:
    """Return the CSS class of a cell: "n" in a column with numbers, else None."""
    return "n" if column in number_columns else None


def render_diff(text: str, label: str) -> Markup:
    """Render the lines of a diff, coloured by their sign (`+`, `-` or `~`).

    Lines of a multi-line text have no sign.
    """
    spans = []
    for line, is_text in mark_text_lines(text):
        sign = "" if is_text else line.lstrip()[:1]
        kind = {"+": "added", "-": "removed", "~": "changed"}.get(sign)
        spans.append(
            build_element("span", f"{line}\n", class_=kind) if kind else join_markup(f"{line}\n")
        )
    return build_element("pre", spans, class_="diff", tabindex="0", role="group", aria_label=label)


def build_findings(findings: Sequence[Finding], sources: Mapping[str, SourceFile]) -> list[Markup]:
    """Build all errors, then the other findings.

    If very many have one id, the further ones are only listed.
    """
    by_error = group_by(findings, lambda finding: finding.level is Level.ERROR)
    listed_findings, remaining_findings = limit_findings_per_id(by_error.get(False, []))
    articles = [
        _build_finding(finding, sources) for finding in (*by_error.get(True, []), *listed_findings)
    ]
    return [*articles, *map(_build_remaining_findings, remaining_findings.values())]


def _build_remaining_findings(findings: Sequence[Finding]) -> Markup:
    """Build a folded list of the subjects of further findings of one kind."""
    diagnostic = findings[0].diagnostic
    summary = f"{_LEVEL_TAGS[findings[0].level]} {diagnostic.summary}: {len(findings):,} more"
    names = format_instances(
        (finding.diagnostic.address for finding in findings), maximum=len(findings)
    )
    hint = ["Details: ", build_element("code", "nexusform plan -details"), "."]
    name_list = (
        build_element("p", build_element("code", build_breakable_name(names))) if names else None
    )
    return build_element(
        "details",
        build_element("summary", summary),
        name_list,
        build_element("p", hint),
        class_="reasons",
    )


_LEVEL_TAGS: Final = {
    Level.ERROR: "Error",
    Level.WARNING: "Warning",
    Level.ADVICE: "Advice",
    Level.NOTE: "Note",
}


def _build_finding(finding: Finding, sources: Mapping[str, SourceFile]) -> Markup:
    """Build one finding: title, location, source lines and detail."""
    diagnostic = finding.diagnostic
    location = join_texts(
        (diagnostic.address, format_location(diagnostic.subject)), " \N{MIDDLE DOT} "
    )
    existing_note = ", not caused by this plan" if finding.is_preexisting else ""
    tag = build_element("span", f"{_LEVEL_TAGS[finding.level]}{existing_note}", class_="tag")
    parts: list[Markup] = []
    detail_lines = [line for line in diagnostic.detail.split("\n") if line.strip()]
    for is_code, lines in groupby(detail_lines, key=lambda line: line.startswith("  ")):
        if is_code:  # indented lines
            parts.append(build_element("pre", build_element("code", dedent("\n".join(lines)))))
        else:
            parts += [build_element("p", render_inline_code(line)) for line in lines]
    return build_element(
        "article",
        build_element("h3", tag, " ", diagnostic.summary),
        build_element("p", build_element("code", build_breakable_name(location)), class_="quiet")
        if location
        else None,
        _build_source_lines(diagnostic, sources),
        parts,
        class_=f"finding {finding.level.value}",
    )


_CODE: Final = re.compile(r"`([^`]+)`")


def render_inline_code(text: str) -> list[Part]:
    """Split a sentence and mark text in backticks as code."""
    # Splitting by a group gives the matches at odd positions.
    parts = _CODE.split(text)
    return [
        build_element("code", part) if number % 2 else part for number, part in enumerate(parts)
    ]


def _build_source_lines(diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> Part:
    """Build numbered source lines with the subject highlighted; None without a known source."""
    snippet = extract_snippet(diagnostic, sources)
    if snippet is None:
        return None
    lines: list[Markup] = []
    for number, (before, highlight, after) in enumerate(
        snippet.split_lines(), start=snippet.start_line
    ):
        margin = build_element("span", f"{number:>4} ", class_="line-number")
        mark = build_element("mark", highlight) if highlight else None
        lines.append(join_markup(margin, before, mark, after, "\n"))
    return build_element(
        "pre", lines, class_="source", tabindex="0", role="group", aria_label="Source lines"
    )


STYLES: Final = ("page.css", "map.css")
SCRIPTS: Final = (
    "document.js",
    "sites.js",
    "route.js",
    "detail.js",
    "rack_map.js",
    "layers.js",
    "arrows.js",
    "zoom.js",
    "overview.js",
    "map.js",
    "vm_list.js",
    "changes.js",
    "search.js",
    "page.js",
)
# Block all requests, whatever the values in the plan contain.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"
)


def render_page(
    title: str,
    header: Markup,
    main: Markup,
    footer: Markup,
    data: dict[str, Any],
    *,
    extra_scripts: Sequence[Markup] = (),
    policy: str = _POLICY,
) -> str:
    """Render a page with a map drawn from `data`, as one file.

    `policy` is the Content-Security-Policy.
    """
    # Build the fixed bar: sections (filled by a script), search and theme.
    sections = build_element("nav", build_element("ul", id="sections"), aria_label="Sections")
    placeholder = "Find a VM, rack, site or placement"
    attributes = {"autocomplete": "off", "spellcheck": "false"}
    field = build_element(
        "input",
        type="search",
        id="find",
        placeholder=placeholder,
        aria_label=placeholder,
        **attributes,
    )
    count = build_element("span", id="hit-count", class_="unseen", role="status")
    hits = build_element("ul", id="hits", hidden=True)
    choices = [build_element("option", text, value=value) for value, text in _THEMES]
    theme = build_element("select", choices, id="theme", aria_label="Theme")
    search = build_element("div", field, count, hits, class_="find", role="search")
    body = build_element(
        "body",
        build_element("a", "Skip to the content", href="#content", class_="skip"),
        # The theme needs a landmark, too.
        build_element(
            "div", sections, search, theme, class_="bar", role="region", aria_label="Toolbar"
        ),
        header,
        build_element("main", main, id="content", tabindex="-1"),
        footer,
        build_data_script("plan-data", data),
        [build_code_element("script", _read_asset(name)) for name in SCRIPTS],
        extra_scripts,
    )
    page = build_element("html", _build_html_head(title, policy), body, lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _read_asset(name: str) -> str:
    return (
        resources.files("nexusform.rendering.page")
        .joinpath("assets", name)
        .read_text(encoding="utf-8")
    )


def _build_html_head(title: str, policy: str) -> Markup:
    """Build title, policy and style sheets."""
    return build_element(
        "head",
        build_element("meta", charset="utf-8"),
        build_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        build_element("meta", http_equiv="Content-Security-Policy", content=policy),
        build_element("meta", name="color-scheme", content="light dark"),
        build_element("title", title),
        [build_code_element("style", _read_asset(name)) for name in STYLES],
    )


_THEMES: Final = (("auto", "theme"), ("light", "light"), ("dark", "dark"))


def build_script_placeholder(identifier: str) -> Markup:
    """Build an element that a script fills."""
    note = "This section needs JavaScript, which is disabled."
    return build_element("div", build_element("noscript", note), id=identifier)
