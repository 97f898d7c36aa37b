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
    Markdown,
    ReportPart,
    disable_bot_commands,
    emphasize,
    escape_text,
    fill_markdown,
    fold_details,
    format_code,
    format_code_block,
    format_line_link,
    format_summary,
    join_markdown,
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


def render_report_markdown(report: Report) -> Markdown:
    """Render the whole report with a final newline."""
    if report.alert_level is not None:
        alert = report.alert_level.value.upper()
        verdict = fill_markdown("> [!{}]\n> {}", alert, emphasize(report.verdict))
        if report.decision:
            decision = render_decision_lines(report.decision)
            verdict = join_markdown((verdict, Markdown(">"), *decision), "\n")
    else:
        # A cross or a check mark.
        mark = "\u274c" if report.is_finding else "\u2705"
        verdict = fill_markdown("{} {}", mark, emphasize(report.verdict))
    blocks = [fill_markdown("### {}", report.title), verdict, _render_list(report.facts)]
    blocks += [join_markdown(_render_section(section), "\n\n") for section in report.sections]
    return disable_bot_commands(fill_markdown("{}\n", join_markdown(filter(None, blocks), "\n\n")))


def _render_list(texts: Iterable[Text]) -> Markdown:
    return join_markdown((fill_markdown("- {}", render_text(text)) for text in texts), "\n")


def _render_sentences(lines: Sequence[Text], origin: CodeOrigin) -> list[Markdown]:
    """Render sentences: a list separates them, because Markdown joins lines; one is a paragraph."""
    texts = [render_text(line, origin) for line in lines]
    return texts if len(texts) == 1 else [fill_markdown("- {}", text) for text in texts]


def _render_section(section: Section) -> Iterable[Markdown]:
    """Yield the Markdown blocks of one section of an answer.

    They are its title, lines, notes, commands, tables, findings, items and code. A folded section
    is inside of `<details>`, with its title as the visible summary.
    """
    # A cross.
    title = f"\u274c {section.title}" if section.is_finding else section.title
    yield format_summary(title) if section.is_folded else fill_markdown("#### {}", title)
    if section.lines:
        yield join_markdown(_render_sentences(section.lines, UNKNOWN_ORIGIN), "\n")
    if section.notes:
        yield join_markdown(_render_notes(section), "\n")
    if section.commands:
        yield _render_commands(section)
    for table in section.all_tables:
        if table.caption and len(section.all_tables) > 1:
            yield fill_markdown("{}:", table.caption)
        lines = _render_table(table, UNKNOWN_ORIGIN)
        yield _render_list(table.compact) if table.compact else join_markdown(lines, "\n")
    for finding in section.findings.findings:
        yield join_markdown(_render_diagnostic(finding.diagnostic, UNKNOWN_ORIGIN), "\n")
    for items in filter(None, _render_groups(section, UNKNOWN_ORIGIN, has_all=True)):
        yield join_markdown(items, "\n")
    if section.code.text:
        yield format_code_block(strip_colours(section.code.text), section.code.language)
    if section.is_folded:
        yield Markdown("</details>")


def _render_commands(section: Section) -> Markdown:
    return format_code_block("\n".join(map(escape_name, section.commands)), "sh")


def render_text(text: Text, origin: CodeOrigin = UNKNOWN_ORIGIN) -> Markdown:
    """Render a text with its styles."""
    spans = (
        _render_span(part, origin) if isinstance(part, StyledText) else escape_text(part)
        for part in list_spans(text)
    )
    return Markdown(join_markdown(spans).strip())


def _render_span(span: StyledText, origin: CodeOrigin) -> Markdown:
    """Render a part of a text with a style; a location is a link if its address is known."""
    match span.style:
        case Style.ARROW:
            return Markdown("→")
        case Style.CODE:
            return Markdown(format_code(span.text).replace("|", "\\|"))
        case Style.LOCATION:
            return format_line_link(span.text, origin)
        case _:
            return emphasize(span.text)


def _render_table(table: Table, origin: CodeOrigin) -> list[Markdown]:
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
            cells = list(map(emphasize, cells))
        rows.append(cells)
    return render_table(table.headers, rule, rows)


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
    heading = fill_markdown("{}\n\n", emphasize(title)) if has_title else Markdown()
    yield ReportPart(title, importance, tuple(lines), lambda text: join_markdown((heading, text)))
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

    def render_block(body: Markdown) -> Markdown:
        block = format_code_block(body, language)
        return fold_details(section.title, block) if section.is_folded else block

    return ReportPart(
        section.title,
        importance,
        # The lines of code are no text: the block escapes them.
        tuple(map(Markdown, text.split("\n"))),
        render_block,
        is_atomic=not section.is_folded,
    )


def _render_section_lines(
    section: Section, origin: CodeOrigin, *, has_all: bool
) -> Iterator[Markdown]:
    """Yield the lines of a section in blocks with blank lines between them.

    They are notes, tables, items, findings and sentences. Without `has_all`, yield only the first
    rows of tables and lists.
    """
    blocks = [_render_notes(section)]
    for table in section.all_tables:
        # A single table is explained by its headers and the title of the section.
        if len(section.all_tables) > 1 or table.compact:
            blocks.append([fill_markdown("{}:", table.caption)])
        if table.compact:
            lines = [fill_markdown("- {}", render_text(line, origin)) for line in table.compact]
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
    blocks.append(_render_sentences(section.lines, origin))
    if section.commands:
        blocks.append([_render_commands(section)])
    # Blank lines separate blocks.
    for number, block in enumerate(filter(None, blocks)):
        yield from [Markdown(), *block] if number else block


def _render_notes(section: Section) -> list[Markdown]:
    return [
        fill_markdown("- {}: {}", emphasize(heading), sentence)
        for heading, sentence in section.notes
    ]


def _limit_table_rows(lines: list[Markdown], columns: int, *, has_all: bool) -> list[Markdown]:
    """Return the heading and at most `_MAX_ROWS` rows of a table.

    The last row has the number of omitted rows.
    """
    # Two lines are headers and rule.
    excess = len(lines) - 2 - _MAX_ROWS
    if has_all or excess <= 0:
        return lines
    more = Markdown(f"| and {excess + 1:,} more |{' |' * (columns - 1)}")
    return [*lines[: 2 + _MAX_ROWS - 1], more]


def _render_groups(
    section: Section, origin: CodeOrigin, *, has_all: bool
) -> Iterator[list[Markdown]]:
    """Yield a list of all items: a table with names of VMs and triggers is too wide for a phone."""
    lines: list[Markdown] = []
    for group in section.groups:
        name = Markdown(enclose("", format_code(group.name), ":"))
        for item in group.items:
            parts = (format_code(item.symbol), name, format_code(item.label))
            text = render_text(item.text, origin)
            lines.append(fill_markdown("- {}", join_markdown(filter(None, (*parts, text)), " ")))
    yield _limit_list(lines, has_all=has_all)


def _limit_list(lines: list[Markdown], *, has_all: bool) -> list[Markdown]:
    """Return at most `_MAX_ITEMS` lines of a list, then the number of others."""
    hidden_count = len(lines) - _MAX_ITEMS
    # A line about one hidden item would take as much space as the item.
    if has_all or hidden_count <= 1:
        return lines
    return [*lines[:_MAX_ITEMS], Markdown(f"- and {hidden_count:,} more")]


_MAX_LOCATIONS: Final = 3
_MAX_SUBJECTS: Final = 4
# Subjects of further findings of a kind.
_MAX_NAMES: Final = 12
# The remaining text is in the box below.
_MAX_TEXT_LENGTH: Final = 280
# ` 1. count = 9 fits`: a remedy of an error.
_ITEM: Final = re.compile(r" (\d+\.) (.*)")


def _render_new_findings(entries: FindingEntries, origin: CodeOrigin) -> list[Markdown]:
    """Render new warnings and advice, one line each.

    After the first few of a kind, only the subjects of the others are shown.
    """
    listed_entries, remaining_entries = limit_findings_per_id(entries.caused)
    lines: list[Markdown] = []
    for entry in listed_entries:
        level = entry.level.value.capitalize()
        mark = emphasize(level) if entry.level is Level.WARNING else level
        locations = [format_line_link(location, origin) for location in entry.locations]
        location_note = enclose(" (", format_first_items(locations, _MAX_LOCATIONS), ")")
        lines.append(
            fill_markdown(
                "- {} {}: {}{}", mark, entry.id, _describe_entry(entry), Markdown(location_note)
            )
        )
        if entry.proposed_code:
            block = indent(format_code_block(entry.proposed_code, "hcl"), "  ")
            lines += map(Markdown, block.splitlines())
    for diagnostic_id, entries_of_id in remaining_entries.items():
        subjects = format_instances(list_finding_subjects(entries_of_id), _MAX_NAMES)
        counted = f"{len(entries_of_id):,} more {diagnostic_id}{enclose(': ', subjects)}"
        lines.append(fill_markdown("- {}", counted))
    return lines


def _describe_entry(entry: FindingEntry) -> str:
    """Return the subjects of a finding and its text, shortened to fit in a line if possible."""
    subject_prefix = enclose("", format_list(entry.subjects, _MAX_SUBJECTS), ": ")
    # From long to short.
    texts = list_shortened_texts(entry)
    short_texts = [text for text in texts if len(text) <= _MAX_TEXT_LENGTH]
    text = short_texts[0] if short_texts else texts[-1]
    return f"{subject_prefix}{text.rstrip()}"


def render_existing_findings(entries: Sequence[FindingEntry]) -> tuple[Markdown, ...]:
    """Render pre-existing findings in one line; () without any."""
    if not entries:
        return ()
    listed_entries, remaining_entries = limit_findings_per_id(entries)
    texts = [_describe_entry(entry).rstrip(".") for entry in listed_entries]
    texts += [f"{len(similar):,} more {kind}" for kind, similar in remaining_entries.items()]
    return (fill_markdown("Not caused by this plan: {}.", join_markdown(texts, "; ")),)


def _render_diagnostic(diagnostic: Diagnostic, origin: CodeOrigin) -> list[Markdown]:
    """Render summary, address and location of a finding, then its detail.

    Remedies are a list, followed by proposed code.
    """
    line_link = (
        format_line_link(format_location(diagnostic.subject), origin)
        if diagnostic.subject is not None
        else ""
    )
    location_note = enclose(" (", join_texts((format_code(diagnostic.address), line_link)), ")")
    lines = [fill_markdown("{}{}", emphasize(diagnostic.summary), Markdown(location_note))]
    detail = diagnostic.detail
    block = ""
    # The detail ends with a `moved` block.
    if "moved" in diagnostic.extra:
        detail, _, block = detail.partition("\n\n")
    if detail:
        lines += _render_detail(detail)
    return [*lines, format_code_block(dedent(block), "hcl")] if block else lines


def _render_detail(detail: str) -> Iterator[Markdown]:
    """Yield the lines of a detail: its remedies as a list, each other line as a paragraph."""
    was_item = False
    for line in filter(str.strip, detail.split("\n")):
        # A remedy has a number and a text.
        item = _ITEM.fullmatch(line)
        if item is None or not was_item:
            yield Markdown()
        if item is not None:
            yield fill_markdown("{} {}", Markdown(item[1]), item[2])
        else:
            yield escape_text(line.strip())
        was_item = item is not None
