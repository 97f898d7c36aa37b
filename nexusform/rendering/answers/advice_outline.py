"""Findings of `advise` as an outline, for Markdown and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted


def advice_outline(findings: Sequence[Diagnostic], origin: str) -> Outline:
    """A count by rule, then every finding with its place."""
    title = f"Advice ({origin})"
    if not findings:
        return Outline(title, "No advice: every rule is content.", bad=False)
    by_rule = Counter(finding.id for finding in findings)
    counts = ", ".join(f"{rule} ({count})" for rule, count in sorted(by_rule.items()))
    rows = tuple(Row((finding.id, _where(finding), finding.address)) for finding in findings)
    table = Section("Findings", table=Table(("rule", "at", "resource"), rows))
    details = [
        Section(finding.summary, tuple(finding.detail.split("\n")), folded=True) for finding in findings
    ]
    verdict = f"{counted(len(findings), 'finding')}: {counts}."
    hint = "A rule is silenced by `# nexusform:ignore ID` on the line before the block, or in the lint block."
    return Outline(title, verdict, bad=True, facts=(hint,), sections=(table, *details))


def _where(finding: Diagnostic) -> str:
    span = finding.subject
    return f"{span.filename}:{span.start.line}" if span is not None else ""
