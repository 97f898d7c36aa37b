from __future__ import annotations

from nexusform.rendering.page.page_elements import SCRIPTS
from nexusform.rendering.page.report_page import render_report_page
from nexusform.rendering.report.playback import Playback
from nexusform.rendering.report.rack_map import SiteMap
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_texts_are_below_the_map_and_escaped() -> None:
    table = Table((NASTY, ""), (Row((NASTY, "1"), is_finding=True),), frozenset({1}))
    sections = (Section(NASTY, table=table), Section("Detail", commands=(NASTY,), is_folded=True))
    report = Report(NASTY, "All of `x` is down", is_finding=True, facts=(NASTY,), sections=sections)
    page = render_report_page(report, plays=[Playback(SiteMap("s", NASTY, (), (), ()), ())])
    assert page.count("<script") == page.count("</script") == 1 + len(SCRIPTS)
    assert "<img" not in page
    assert "All of <code>x</code> is down" in page
    assert page.index('id="map"') < page.index("<summary>Detail</summary>")
