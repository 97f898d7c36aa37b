from __future__ import annotations

from types import SimpleNamespace

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.rendering.answers.advice_findings import render_advice


def test_report_without_findings() -> None:
    assert render_advice([], {}).startswith("No findings")


def test_report_lists_every_finding_and_a_count(plans: SimpleNamespace) -> None:
    spot = plans.span_of("agent_pool")
    findings = [build_warning("zones-pinned", "d", spot, headline="zones-pinned: x")] * 2
    text = render_advice(
        [*findings, build_warning("no-surge-capacity", "d", spot, headline="y")], plans.files
    )
    assert text.count("Advice: zones-pinned: x") == 2
    assert "3 findings (no-surge-capacity: 1, zones-pinned: 2).\n" in text
