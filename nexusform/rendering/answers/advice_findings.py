"""Findings of `advise` as a report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.diagnostics.levels import get_diagnostic_level
from nexusform.diagnostics.phrases import format_count
from nexusform.rendering.report.finding_entries import Finding
from nexusform.rendering.report.report_tree import Findings, Report, Section

_IGNORE_HINT: Final = (
    "Silence a rule of advice with `# nexusform:ignore ID` on the line before the block, or in the "
    "lint block."
)


def build_advice_report(
    findings: Sequence[Diagnostic], files: Mapping[str, SourceFile], origin: str
) -> Report:
    """Build a report with a count by rule, then every finding with its source lines.

    `origin` is the source of the findings, such as `state serial 7`.
    """
    title = f"Advice ({origin})"
    if not findings:
        return Report(title, "No findings.", is_finding=False)
    by_rule = Counter(finding.id for finding in findings)
    counts = ", ".join(f"{rule} ({count:,})" for rule, count in sorted(by_rule.items()))
    verdict = f"{format_count(len(findings), 'finding')}: {counts}."
    levels = tuple(Finding(finding, get_diagnostic_level(finding)) for finding in findings)
    section = Section("Findings", findings=Findings(levels, files), name="findings")
    # Rules of plans cannot be silenced.
    facts = (_IGNORE_HINT,) if by_rule.keys() & set(RULE_IDS) else ()
    return Report(title, verdict, is_finding=True, facts=facts, sections=(section,))
