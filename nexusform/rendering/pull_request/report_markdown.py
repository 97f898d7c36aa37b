"""Report as GitHub-flavoured Markdown, as a whole or as parts of a comment with a limited size."""

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import dedent, indent
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose, format_first_items, format_list, join_texts
from nexusform.rendering.notation.colours import strip_colours
from nexusform.rendering.pull_request.markdown_parts import (
    ReportPart,
    disable_bot_commands,
    escape_line,
    escape_plain_text,
    escape_prose,
    fold_details,
    format_code,
    format_code_block,
    format_line_link,
    render_decision_lines,
    render_diff,
    render_table,
)
from nexusform.rendering.report.finding_entries import (
    FindingEntries,
    FindingEntry,
    format_location,
    limit_findings_per_id,
    list_finding_subjects,
    list_shortened_texts,
)
from nexusform.rendering.report.folding import format_instances
from nexusform.rendering.report.report_tree import (
    UNKNOWN_ORIGIN,
    CodeOrigin,
    Report,
    Section,
    Style,
    StyledText,
    Table,
    Text,
    list_spans,
)

# Of an open table of a comment.
_MAX_ROWS: Final = 15
# Of an open list of a comment.
_MAX_ITEMS: Final = 20
# Less importance of folded rows.
_FOLDED_LOSS: Final = 45


def render_report_markdown(report: Report) -> str:
    """Render the whole report with a final newline."""
    if report.alert_level is not None:
        verdict = f"> [!{report.alert_level.value.upper()}]\n> **{escape_prose(report.verdict)}**"
        if report.decision:
            verdict = "\n".join((verdict, ">", *render_decision_lines(report.decision)))
    else:
        # A cross or a check mark.
        mark = "\u274c" if report.is_finding else "\u2705"
        verdict = f"{mark} **{escape_prose(report.verdict)}**"
    blocks = [f"### {escape_prose(report.title)}", verdict]
    if report.facts:
        blocks.append("\n".join(f"- {escape_prose(fact)}" for fact in report.facts))
    blocks += ["\n\n".join(_render_section(section)) for section in report.sections]
    return disable_bot_commands("\n\n".join(blocks) + "\n")


def _render_section(section: Section) -> Iterable[str]:
    """Yield the Markdown blocks of one section of an answer.

    They are its title, lines, notes, commands and tables. A folded section is inside of
    `<details>`, with its title as the visible summary.
    """
    title = escape_prose(section.title)
    if section.is_finding:
        title = f"\u274c {title}"  # a cross
    yield f"<details><summary>{title}</summary>" if section.is_folded else f"#### {title}"
    if section.lines:
        # A list separates lines; a single line is a paragraph.
        lines = [render_text(line).strip() for line in section.lines]
        yield lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
    if section.notes:
        yield "\n".join(_render_notes(section))
    if section.commands:
        yield "\n".join(("```sh", *map(escape_name, section.commands), "```"))
    for table in section.all_tables:
        if table.caption and len(section.all_tables) > 1:
            yield f"{escape_plain_text(table.caption)}:"
        lines = [f"- {render_text(line)}" for line in table.compact]
        yield "\n".join(lines or _render_table(table, UNKNOWN_ORIGIN))
    if section.is_folded:
        yield "</details>"


def render_text(text: Text, origin: CodeOrigin = UNKNOWN_ORIGIN) -> str:
    """Render a text with its styles."""
    return "".join(
        _render_span(part, origin) if isinstance(part, StyledText) else escape_prose(part)
        for part in list_spans(text)
    )


def _render_span(span: StyledText, origin: CodeOrigin) -> str:
    """Render a part of a text with a style; a location is a link if its address is known."""
    match span.style:
        case Style.ARROW:
            return "→"
        case Style.CODE:
            return format_code(span.text).replace("|", "\\|")
        case Style.LOCATION:
            return format_line_link(span.text, origin)
        case _:
            return enclose("**", escape_plain_text(span.text), "**")


def _render_table(table: Table, origin: CodeOrigin) -> list[str]:
    """Render the lines of a table.

    The row of a finding is bold, and columns with figures are aligned to the right.
    """
    rule = [
        "---:" if column in table.number_columns else "---" for column in range(len(table.headers))
    ]
    rows = []
    for row in table.rows:
        cells = [render_text(cell, origin) for cell in row.cells]
        if row.is_finding:
            cells = [enclose("**", cell, "**") for cell in cells]
        rows.append(cells)
    return render_table((list(map(escape_prose, table.headers)), rule, *rows))


def build_parts(
    section: Section, importance: int, origin: CodeOrigin, *, has_title: bool = False
) -> Iterator[ReportPart]:
    """Yield the parts of a section.

    A section of code, or a folded one, is one part. Any other has a part with its first rows, below
    a heading with `has_title`. If it has more, a second part, folded and less important, has all.
    """
    title = section.title or section.name
    if section.code.text:
        yield _build_code_part(section, importance)
        return
    lines = list(_render_section_lines(section, origin, has_all=section.is_folded))
    if section.is_folded:
        yield ReportPart(title, importance, tuple(lines), lambda text: fold_details(title, text))
        return
    heading = f"**{escape_plain_text(title)}**\n\n" if has_title else ""
    yield ReportPart(title, importance, tuple(lines), lambda text: f"{heading}{text}")
    every_line = list(_render_section_lines(section, origin, has_all=True))
    if every_line != lines:
        all_title = f"{title}: all"
        yield ReportPart(
            all_title,
            importance - _FOLDED_LOSS,
            tuple(every_line),
            lambda text: fold_details(all_title, text),
        )


def _build_code_part(section: Section, importance: int) -> ReportPart:
    """Build a part of code; a diff has its signs in the first column.

    Only a folded part may lose its last lines.
    """
    language = section.code.language
    text = strip_colours(section.code.text)
    if language == "diff":
        text = render_diff(text)

    def render_block(body: str) -> str:
        block = format_code_block(body, language)
        return fold_details(section.title, block) if section.is_folded else block

    return ReportPart(
        section.title,
        importance,
        tuple(text.split("\n")),
        render_block,
        is_atomic=not section.is_folded,
    )


def _render_section_lines(section: Section, origin: CodeOrigin, *, has_all: bool) -> Iterator[str]:
    """Yield the lines of a section in blocks with blank lines between them.

    They are notes, tables, items, findings and sentences. Without `has_all`, yield only the first
    rows of tables and lists.
    """
    blocks = [_render_notes(section)]
    for table in section.all_tables:
        # A single table is explained by its headers and the title of the section.
        if len(section.all_tables) > 1 or table.compact:
            blocks.append([f"{escape_plain_text(table.caption)}:"])
        if table.compact:
            lines = [f"- {render_text(line, origin)}" for line in table.compact]
            blocks.append(_limit_list(lines, has_all=has_all))
            continue
        blocks.append(
            _limit_table_rows(_render_table(table, origin), len(table.headers), has_all=has_all)
        )
    blocks += _render_groups(section, origin, has_all=has_all)
    if section.entries is not None:
        blocks.append(_render_new_findings(section.entries, origin))
    for finding in section.findings.findings:
        blocks.append(_render_diagnostic(finding.diagnostic, origin))
    blocks.append([render_text(line, origin) for line in section.lines])
    if section.commands:
        blocks.append(["```sh", *map(escape_name, section.commands), "```"])
    # Blank lines separate blocks.
    for number, block in enumerate(filter(None, blocks)):
        yield from ["", *block] if number else block


def _render_notes(section: Section) -> list[str]:
    return [
        f"- **{escape_plain_text(heading)}**: {escape_plain_text(sentence)}"
        for heading, sentence in section.notes
    ]


def _limit_table_rows(lines: list[str], columns: int, *, has_all: bool) -> list[str]:
    """Return the heading and at most `_MAX_ROWS` rows of a table.

    The last row has the number of omitted rows.
    """
    # Two lines are headers and rule.
    excess = len(lines) - 2 - _MAX_ROWS
    if has_all or excess <= 0:
        return lines
    return [*lines[: 2 + _MAX_ROWS - 1], f"| and {excess + 1:,} more |{' |' * (columns - 1)}"]


def _render_groups(section: Section, origin: CodeOrigin, *, has_all: bool) -> Iterator[list[str]]:
    """Yield a list of all items: a table with names of VMs and triggers is too wide for a phone."""
    lines: list[str] = []
    for group in section.groups:
        name = enclose("", format_code(group.name), ": ")
        for item in group.items:
            symbol = enclose("", format_code(item.symbol), " ")
            text = f"{format_code(item.label)} {render_text(item.text, origin)}".strip()
            lines.append(f"- {symbol}{name}{text}")
    yield _limit_list(lines, has_all=has_all)


def _limit_list(lines: list[str], *, has_all: bool) -> list[str]:
    """Return at most `_MAX_ITEMS` lines of a list, then the number of others."""
    hidden_count = len(lines) - _MAX_ITEMS
    # A line about one hidden item would take as much space as the item.
    if has_all or hidden_count <= 1:
        return lines
    return [*lines[:_MAX_ITEMS], f"- and {hidden_count:,} more"]


_MAX_LOCATIONS: Final = 3
_MAX_SUBJECTS: Final = 4
# Subjects of further findings of a kind.
_MAX_NAMES: Final = 12
# The remaining text is in the box below.
_MAX_TEXT_LENGTH: Final = 280
# ` 1. count = 9 fits`: a remedy of an error.
_ITEM: Final = re.compile(r" *(\d+\.) (.*)")


def _render_new_findings(entries: FindingEntries, origin: CodeOrigin) -> list[str]:
    """Render new warnings and advice, one line each.

    After the first few of a kind, only the subjects of the others are shown.
    """
    listed_entries, remaining_entries = limit_findings_per_id(entries.caused)
    lines: list[str] = []
    for entry in listed_entries:
        mark = "**Warning**" if entry.level is Level.WARNING else entry.level.value.capitalize()
        locations = [format_line_link(location, origin) for location in entry.locations]
        location_note = enclose(" (", format_first_items(locations, _MAX_LOCATIONS), ")")
        lines.append(
            f"- {mark} {escape_plain_text(entry.id)}: {_render_entry_text(entry)}{location_note}"
        )
        lines += (
            indent(format_code_block(entry.proposed_code, "hcl"), "  ").splitlines()
            if entry.proposed_code
            else []
        )
    for diagnostic_id, entries_of_id in remaining_entries.items():
        subjects = list_finding_subjects(entries_of_id)
        subject_note = enclose(": ", escape_plain_text(format_instances(subjects, _MAX_NAMES)))
        lines.append(
            f"- {len(entries_of_id):,} more {escape_plain_text(diagnostic_id)}{subject_note}"
        )
    return lines


def _render_entry_text(entry: FindingEntry) -> str:
    """Render the subjects of a finding and its text, shortened to fit in a line if possible."""
    subject_prefix = enclose(
        "", escape_plain_text(format_list(entry.subjects, _MAX_SUBJECTS)), ": "
    )
    # From long to short.
    texts = list_shortened_texts(entry)
    short_texts = [text for text in texts if len(text) <= _MAX_TEXT_LENGTH]
    text = short_texts[0] if short_texts else texts[-1]
    return f"{subject_prefix}{escape_prose(text.rstrip())}"


def render_existing_findings(entries: Sequence[FindingEntry]) -> tuple[str, ...]:
    """Render pre-existing findings in one line; () without any."""
    if not entries:
        return ()
    listed_entries, remaining_entries = limit_findings_per_id(entries)
    texts = [_render_entry_text(entry).rstrip(".") for entry in listed_entries]
    texts += [
        f"{len(similar):,} more {escape_plain_text(kind)}"
        for kind, similar in remaining_entries.items()
    ]
    return (f"Not caused by this plan: {'; '.join(texts)}.",)


def _render_diagnostic(diagnostic: Diagnostic, origin: CodeOrigin) -> list[str]:
    """Render summary, address and location of a finding, then its detail.

    Remedies are a list, followed by proposed code.
    """
    line_link = (
        format_line_link(format_location(diagnostic.subject), origin)
        if diagnostic.subject is not None
        else ""
    )
    location_note = enclose(" (", join_texts((format_code(diagnostic.address), line_link)), ")")
    lines = [f"**{escape_prose(diagnostic.summary)}**{location_note}"]
    detail = diagnostic.detail
    block = ""
    # The detail ends with a `moved` block.
    if "moved" in diagnostic.extra:
        detail, _, block = detail.partition("\n\n")
    if detail:
        lines += ["", *_render_detail(detail)]
    return [*lines, format_code_block(dedent(block), "hcl")] if block else lines


def _render_detail(detail: str) -> Iterator[str]:
    """Yield the lines of a detail, with blank lines around its list of remedies."""
    in_list = False
    for line in detail.split("\n"):
        # A remedy has a number and a text.
        item = _ITEM.fullmatch(line)
        # The list begins or ends.
        if in_list != (item is not None):
            yield ""
        yield f"{item[1]} {escape_line(item[2])}" if item else escape_line(line.strip())
        in_list = item is not None
