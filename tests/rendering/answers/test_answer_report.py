"""Tests of the three report formats: text, Markdown and HTML page."""

from __future__ import annotations

import pytest

from nexusform.rendering.answers.explanation_text import format_spans
from nexusform.rendering.notation.colours import strip_colours
from nexusform.rendering.page.report_page import render_report_page
from nexusform.rendering.pull_request.report_markdown import render_report_markdown
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.rendering.text.report_text import MAX_FOLDED, render_report_text

ROWS = tuple(Row((f"vm{n}", "x" * 30, "y" * 40), is_finding=n == 20) for n in range(25))
HEADS = ("name", "a", "b")
SAMPLE = Report(
    "Title | <b>",
    "It is `so`.",
    is_finding=True,
    facts=("a fact",),
    sections=(
        Section(
            "Wide",
            ("line",),
            ("run --this",),
            Table((*HEADS, "c"), (Row(("n", "1" * 50, "2" * 50, "")),)),
        ),
        Section("Long", table=Table(HEADS, ROWS), is_folded=True),
    ),
)


def test_colours_change_no_text() -> None:
    assert strip_colours(render_report_text(SAMPLE, colour=True)) == render_report_text(SAMPLE)


def test_lines_fit_the_terminal_unless_a_cell_is_wider() -> None:
    for line in render_report_text(SAMPLE, width=80).splitlines():
        assert len(line) <= 80, line


def test_long_details_are_cut_in_text_but_not_in_markdown() -> None:
    text = render_report_text(SAMPLE)
    markdown = render_report_markdown(SAMPLE)
    # part of the finding.
    assert "vm20" in text
    assert "... and 24 more; -format=markdown lists all." in text
    assert markdown.count("| vm") + markdown.count("| **vm") == 25
    assert "```sh\nrun --this\n```" in markdown
    assert markdown.startswith("### Title \\| &lt;b>\n\n\u274c **It is `so`.**")


def test_sections_equal_to_hidden_ones_are_shown() -> None:
    sections = tuple(
        Section("Finding", ("the same detail",), is_folded=True) for _ in range(MAX_FOLDED + 2)
    )
    text = render_report_text(Report("Title", "", is_finding=False, sections=sections))
    assert text.count("the same detail") == MAX_FOLDED
    assert "2 more sections, from: Finding" in text


def test_control_characters_never_reach_the_terminal() -> None:
    nasty = Report(
        "\x1b[31mred", "\x07", is_finding=False, sections=(Section("\x9b", ("\x1b]0;t\x07",)),)
    )
    for form in (
        render_report_text(nasty),
        render_report_markdown(nasty),
        render_report_page(nasty),
    ):
        assert not any(ord(c) < 32 and c != "\n" for c in form)


def test_page_marks_errors_with_words() -> None:
    page = render_report_page(SAMPLE)
    assert "<dt>Finding</dt><dd>It is <code>so</code>.</dd>" in page
    assert "<title>Title | &lt;b&gt;</title>" in page
    assert page.count('<tr class="bad">') == 1


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([4], "4"), ([1, 2, 3], "1-3"), ([1, 3, 4, 8], "1, 3-4, 8")]
)
def test_spans_are_rendered(numbers: list[int], text: str) -> None:
    assert format_spans(numbers) == text


def test_wide_row_has_no_colon_before_a_cell_without_a_header() -> None:
    row = Row(("core", "default/Deployment/" + "w" * 60, "lost"))
    table = Table(("cluster", "workload", ""), (row,))
    text = render_report_text(
        Report("t", "v", is_finding=False, sections=(Section("s", table=table),)), width=60
    )
    assert "lost" in text
    assert ": lost" not in text
