"""Tests of texts of others in each field of a report: they have no effect in any format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.levels import PlacementImpact
from nexusform.rendering.page.report_page import render_report_page
from nexusform.rendering.pull_request.report_markdown import render_report_markdown
from nexusform.rendering.report.decision_lines import DecisionLine
from nexusform.rendering.report.report_tree import (
    ActionText,
    Item,
    ItemGroup,
    Report,
    Row,
    Section,
    Style,
    StyledText,
    Table,
)
from nexusform.rendering.text.report_text import render_report_text
from tests.rendering.hostile_texts import BEGINNINGS, HOSTILE, WORD, find_effects, replace_each_text

TEXTS: tuple[str | StyledText, ...] = (
    "a sentence with `code`",
    *(StyledText("styled", style) for style in Style),
)
TABLE = Table(
    ("name", "text"),
    (Row((TEXTS[0], TEXTS), is_finding=True, note="note"), Row(("b", "c"))),
    caption="caption",
)
MATRIX = Table(
    ("rack", "machine"),
    (Row(("r1", ActionText("+ Bound", Style.ACTION, "add", "detail", "reason"))),),
    is_matrix=True,
    caption="matrix",
    summary="summary",
    fold_title="fold title",
)
SECTION = Section(
    "title",
    lines=("line", TEXTS, "another line"),
    commands=("nexusform plan",),
    table=TABLE,
    tables=(MATRIX, Table(("a",), (Row(("b",)),), compact=("compact", "more"))),
    groups=(ItemGroup("group", (Item("+", "label", "text"),)),),
    notes=(("heading", "sentence"),),
    name="name",
    cluster_names=(("cluster", "id"),),
)
REPORT = Report(
    "title",
    "verdict",
    is_finding=False,
    facts=("fact",),
    sections=(SECTION, Section("folded", lines=("line",), table=TABLE, is_folded=True)),
    impact=PlacementImpact.MOVES,
    decision=(DecisionLine("Label", ("one",)), DecisionLine("Several", ("one", "two"))),
)
RENDERERS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": render_report_text,
    "markdown": render_report_markdown,
    "html": render_report_page,
}


@pytest.mark.parametrize("impact", [None, PlacementImpact.MOVES])
@pytest.mark.parametrize("name", RENDERERS)
def test_text_of_a_report_has_no_effect(name: str, impact: PlacementImpact | None) -> None:
    render = RENDERERS[name]
    report = replace(REPORT, impact=impact)
    expected = {path: render(each) for path, each in replace_each_text(report, WORD)}
    effects: dict[str, list[str]] = {}
    has_beginnings = name == "markdown" and impact is not None
    for text in (HOSTILE, *(BEGINNINGS if has_beginnings else ())):
        for path, each in replace_each_text(report, text):
            found = find_effects(name, render(each), expected[path])
            if found:
                effects.setdefault(path, []).extend((ascii(text)[:20], *found))
    assert effects == {}
