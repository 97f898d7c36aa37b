from __future__ import annotations

from types import SimpleNamespace

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.rendering.answers.advice_findings import build_advice_report
from nexusform.rendering.text.report_text import render_report_text


def test_report_without_findings() -> None:
    assert "No findings.\n" in render_report_text(build_advice_report([], {}, "state"))


def test_report_lists_every_finding_and_a_count(plans: SimpleNamespace) -> None:
    spot = plans.span_of("agent_pool")
    findings = [build_warning("zones-pinned", "d", spot, headline="zones-pinned: x")] * 2
    findings.append(build_warning("no-surge-capacity", "d", spot, headline="y"))
    text = render_report_text(build_advice_report(findings, plans.files, "state"))
    assert text.count("Advice: zones-pinned: x") == 2
    assert "3 findings: no-surge-capacity (1), zones-pinned (2).\n" in text
    assert "agent_pool" in text
