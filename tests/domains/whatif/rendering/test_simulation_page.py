from __future__ import annotations

from nexusform.domains.whatif.rendering.simulation_page import render_simulation_page
from nexusform.rendering.answers.answer_report import AnswerReport, Row, Section, Table
from nexusform.rendering.page.html_page import SCRIPTS

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_words_stand_below_the_map_and_nothing_becomes_markup() -> None:
    table = Table((NASTY, ""), (Row((NASTY, "1"), is_finding=True),), frozenset({1}))
    sections = (Section(NASTY, table=table), Section("Detail", commands=(NASTY,), is_folded=True))
    outline = AnswerReport(NASTY, "All of `x` is down", is_finding=True, facts=(NASTY,), sections=sections)
    page = render_simulation_page(outline, [])
    assert page.count("<script") == page.count("</script") == 1 + len(SCRIPTS)
    assert "<img" not in page
    assert "All of <code>x</code> is down" in page
    assert page.index('id="map"') < page.index("<summary>Detail</summary>")
