"""Findings of `advise` as an outline, for Markdown and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted


def advice_outline(findings: Sequence[Diagnostic], origin: str) -> Outline:
    """A count by rule, then every finding with its place."""
    counts = Counter(finding.id for finding in findings)
    if findings:
        verdict = f"{counted(len(findings), 'finding')}: " + ", ".join(
            f"{rule} ({count})" for rule, count in sorted(counts.items())
        )
    else:
        verdict = "No advice: every rule is content"
    sections = []
    if findings:
        rows = tuple(Row((finding.id, _where(finding), finding.address)) for finding in findings)
        sections.append(Section("Findings", table=Table(("rule", "at", "resource"), rows)))
    sections += [
        Section(finding.summary, tuple(finding.detail.split("\n")), folded=True) for finding in findings
    ]
    hint = "A rule is silenced by `# nexusform:ignore ID` on the line before the block, or in the lint block."
    facts = (hint,) if findings else ()
    return Outline(f"Advice ({origin})", f"{verdict}.", bool(findings), facts, tuple(sections))


def _where(finding: Diagnostic) -> str:
    span = finding.subject
    return f"{span.filename}:{span.start.line}" if span is not None else ""
