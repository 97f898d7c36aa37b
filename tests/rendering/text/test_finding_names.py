"""Tests of shortened findings: a text is never cut before the name of its object."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nexusform.diagnostics.levels import Level
from nexusform.rendering.notation.colours import PLAIN
from nexusform.rendering.pull_request.report_markdown import render_existing_findings
from nexusform.rendering.report.finding_entries import FindingEntry
from nexusform.rendering.text.plan_text import render_finding_entry

WORDS = st.text("abcdefg-", min_size=1, max_size=14)
CLAUSES = st.lists(WORDS, min_size=1, max_size=25).map(" ".join)
NAMES = st.text("nopqrst._[]0", min_size=1, max_size=150)
SENTENCES = st.lists(st.lists(CLAUSES, min_size=1, max_size=3).map(": ".join), max_size=4)
LOCATIONS = st.sampled_from([(), ("main.nf.hcl:7",), (f"{'modules/site/' * 6}main.nf.hcl:70",)])


@st.composite
def draw_entries(draw: st.DrawFn) -> tuple[FindingEntry, str]:
    """Return a finding and the name of its object: a subject, or a name in its text."""
    name = draw(NAMES)
    texts = [f"The {text}." for text in draw(SENTENCES)]
    subjects: tuple[str, ...] = ()
    if draw(st.booleans()):
        subjects = (name, *draw(st.lists(NAMES, max_size=5, unique=True)))
    else:
        texts.insert(
            draw(st.integers(0, len(texts))), f'The {draw(CLAUSES)} "{name}" {draw(CLAUSES)}.'
        )
    level = draw(st.sampled_from([Level.WARNING, Level.ADVICE, Level.NOTE]))
    text = " ".join(texts) or "The text."
    entry = FindingEntry(level, draw(WORDS), subjects, text, draw(LOCATIONS))
    return entry, name


@given(draw_entries(), st.integers(60, 140))
def test_name_of_the_object_is_in_the_terminal(
    finding: tuple[FindingEntry, str], width: int
) -> None:
    entry, name = finding
    lines = render_finding_entry(entry, width, PLAIN)
    # A name longer than a line is broken.
    assert name in "".join("".join(lines).split())


@given(draw_entries())
def test_name_of_the_object_is_in_a_comment(finding: tuple[FindingEntry, str]) -> None:
    entry, name = finding
    [line] = render_existing_findings([entry])
    assert name in line.replace("\\", "")
