"""Findings of `advise`: as an outline for Markdown and pages, as boxes and a count for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from nexusform.diagnostics import Diagnostic
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.notation.colours import Painter, harmless
from nexusform.rendering.text.diagnostic_text import DEFAULT_WIDTH, render_diagnostic
from nexusform.source import SourceFile
from nexusform.words import counted, form


def advice_outline(findings: Sequence[Diagnostic], origin: str) -> Outline:
    """A count by rule, then every finding with its place."""
    title = f"Advice ({origin})"
    if not findings:
        return Outline(title, "No advice: every rule is content.", bad=False)
    by_rule = Counter(finding.id for finding in findings)
    counts = ", ".join(f"{rule} ({count:,})" for rule, count in sorted(by_rule.items()))
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


def render_advice(
    findings: Sequence[Diagnostic],
    files: Mapping[str, SourceFile],
    *,
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
) -> str:
    """Every finding in its box, none consolidated, and a closing line; with a newline at the end."""
    if not findings:
        return "No advice: every rule is content with this configuration.\n"
    boxes = "".join(render_diagnostic(finding, files, colour=colour, width=width) for finding in findings)
    by_rule = Counter(finding.id for finding in findings)
    counts = ", ".join(f"{harmless(rule)}: {count:,}" for rule, count in sorted(by_rule.items()))
    closing = Painter(colour)(f"{len(findings):,} {form(len(findings), 'finding')}", "bold")
    hint = "Silence a rule by `# nexusform:ignore ID` on the line before the block, or in\nthe lint block."
    return f"{boxes}\n{closing} ({counts}).\n{hint}\n"
