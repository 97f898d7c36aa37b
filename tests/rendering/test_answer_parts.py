"""Each format of an answer draws each part of a section."""

from __future__ import annotations

import json

import pytest

from nexusform.cli.report_output import FORMATS, Answer
from nexusform.diagnostics.diagnostic import build_warning
from nexusform.diagnostics.levels import Level
from nexusform.rendering.report.finding_entries import Finding
from nexusform.rendering.report.report_tree import (
    CodeBlock,
    Findings,
    Item,
    ItemGroup,
    Report,
    Row,
    Section,
    Table,
)

FINDING = Finding(build_warning("shared-machine", "partfinding"), Level.WARNING)
SECTION = Section(
    "parttitle",
    lines=("partline",),
    notes=(("partheading", "partnote"),),
    commands=("partcommand",),
    tables=(
        Table(("partheader",), (Row(("partcell",)),), caption="partcaption"),
        Table(("second",), (Row(("cell",)),), caption="other"),
    ),
    groups=(ItemGroup("partgroup", (Item("+", "partlabel", "partitem"),)),),
    findings=Findings((FINDING,), {}),
    code=CodeBlock("partcode", "hcl"),
)
PARTS = (
    "title",
    "line",
    "heading",
    "note",
    "command",
    "header",
    "cell",
    "caption",
    "label",
    "item",
    "finding",
    "code",
)


@pytest.mark.parametrize("name", FORMATS)
def test_each_part_of_a_section_is_drawn(name: str) -> None:
    report = Report("Title", "Verdict.", False, sections=(SECTION,))
    text = FORMATS[name](Answer("toy", "the state", report)).decode()
    assert [part for part in PARTS if f"part{part}" not in text] == []
    if name == "json":
        [section] = json.loads(text)["sections"]
        assert section["code"] == "partcode"
