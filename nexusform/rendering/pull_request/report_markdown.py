"""Report as GitHub-flavoured Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nexusform.rendering.notation.colours import escape_control_characters
from nexusform.rendering.pull_request.markdown_parts import disable_commands, escape_prose
from nexusform.rendering.report.report_tree import Report, Row, Section, Table


def render_report_markdown(report: Report) -> str:
    """Render the whole report as GitHub-flavoured Markdown with a final newline."""
    blocks = [f"### {escape_prose(report.title)}", _render_markdown_verdict(report)]
    if report.facts:
        blocks.append("\n".join(f"- {escape_prose(fact)}" for fact in report.facts))
    blocks += ["\n\n".join(_render_markdown_section(section)) for section in report.sections]
    return disable_commands("\n\n".join(blocks) + "\n")


def _render_markdown_verdict(report: Report) -> str:
    """Render the verdict in an alert box with the impact, or after a mark."""
    if report.alert_level is not None:
        return f"> [!{report.alert_level.value.upper()}]\n> **{escape_prose(report.verdict)}**"
    mark = "\u274c" if report.is_finding else "\u2705"
    return f"{mark} **{escape_prose(report.verdict)}**"


def _render_markdown_section(section: Section) -> Iterable[str]:
    """Render the text blocks of one section."""
    title = f"\u274c {escape_prose(section.title)}" if section.is_finding else escape_prose(section.title)
    yield f"<details><summary>{title}</summary>" if section.is_folded else f"#### {title}"
    if section.lines:
        yield _render_markdown_lines([escape_prose(line.strip()) for line in section.lines])
    if section.commands:
        yield "\n".join(("```sh", *(escape_control_characters(command) for command in section.commands), "```"))
    if section.table is not None:
        yield _render_markdown_table(section.table)
    if section.is_folded:
        yield "</details>"


def _render_markdown_lines(lines: Sequence[str]) -> str:
    # A list separates lines; a single line is a paragraph.
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def _render_markdown_table(table: Table) -> str:
    rule = ["---:" if column in table.figures else "---" for column in range(len(table.headers))]
    rows = [
        [escape_prose(header) for header in table.headers],
        rule,
        *(_render_markdown_cells(row) for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _render_markdown_cells(row: Row) -> list[str]:
    """Render the cells of a row as Markdown, bold for a finding."""
    cells = [escape_prose(cell) for cell in row.cells]
    return [f"**{cell}**" if cell else cell for cell in cells] if row.is_finding else cells
