"""Findings of `advise`, as a report or as boxes with a count."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Final

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import format_count
from nexusform.rendering.notation.colours import Painter
from nexusform.rendering.report.finding_entries import format_location
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.rendering.text.diagnostic_text import DEFAULT_WIDTH, render_diagnostic

_IGNORE_HINT: Final = (
    "Silence a rule of advice with `# nexusform:ignore ID` on the line before the block, or in the "
    "lint block."
)


def build_advice_report(findings: Sequence[Diagnostic], origin: str) -> Report:
    """Build a report with a count by rule, then every finding with its location.

    `origin` is the source of the findings, such as `state serial 7`.
    """
    title = f"Advice ({origin})"
    if not findings:
        return Report(title, "No findings.", is_finding=False)
    by_rule = Counter(finding.id for finding in findings)
    counts = ", ".join(f"{rule} ({count:,})" for rule, count in sorted(by_rule.items()))
    rows = tuple(
        Row((finding.id, format_location(finding.subject), finding.address)) for finding in findings
    )
    table = Section("Findings", table=Table(("rule", "at", "resource"), rows))
    details = [
        Section(finding.summary, tuple(finding.detail.split("\n")), is_folded=True)
        for finding in findings
    ]
    verdict = f"{format_count(len(findings), 'finding')}: {counts}."
    facts = (_IGNORE_HINT,) if _has_ignorable_rule(findings) else ()
    return Report(title, verdict, is_finding=True, facts=facts, sections=(table, *details))


def render_advice(
    findings: Sequence[Diagnostic],
    files: Mapping[str, SourceFile],
    *,
    colour: bool = False,
    width: int = DEFAULT_WIDTH,
) -> str:
    """Render each finding as a framed diagnostic, then the number of findings by rule.

    Findings have their source lines.
    """
    if not findings:
        return "No findings.\n"
    boxes = "".join(
        render_diagnostic(finding, files, colour=colour, width=width) for finding in findings
    )
    by_rule = Counter(finding.id for finding in findings)
    counts = ", ".join(f"{escape_name(rule)}: {count:,}" for rule, count in sorted(by_rule.items()))
    total = format_count(len(findings), "finding")
    closing = fill(f"{total} ({counts}).", width, break_on_hyphens=False, break_long_words=False)
    closing = closing.replace(total, Painter(colour)(total, "bold"), 1)
    hint = f"{fill(_IGNORE_HINT, width)}\n" if _has_ignorable_rule(findings) else ""
    return f"{boxes}\n{closing}\n{hint}"


def _has_ignorable_rule(findings: Iterable[Diagnostic]) -> bool:
    """Return whether a finding is of a rule of advice, and not one of plans."""
    return any(finding.id in RULE_IDS for finding in findings)
