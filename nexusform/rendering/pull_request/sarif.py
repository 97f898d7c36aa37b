"""Findings as SARIF 2.1.0, so that code hosts show them on the lines they speak of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from nexusform.advice.registry import RULES
from nexusform.diagnostic_kinds import summary_of
from nexusform.diagnostics import Diagnostic
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.colours import harmless
from nexusform.rendering.report.entries import HELD_BEFORE, Finding, plan_findings
from nexusform.source import Span
from nexusform.weights import Level, level_of

VERSION: Final = "2.1.0"
SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_PAGES: Final = "https://github.com/nexusform/nexusform/blob/main/docs/reference"
_HELP: Final = {rule.id: rule.help for rule in RULES}
# SARIF has no word for advice.
_LEVELS: Final = {
    Level.ERROR: "error",
    Level.WARNING: "warning",
    Level.ADVICE: "note",
    Level.NOTE: "note",
}
_SILENCE: Final = "Silenced by `# nexusform:ignore {}` on the line before the block, or in the lint block."


def sarif_document(plan: Plan) -> dict[str, Any]:
    """The findings of a plan. One without a line of its own points at the block of its resource."""
    blocks = {str(change.address): change.source for change in plan.changes if change.source is not None}
    return _document(plan_findings(plan), plan.nexusform_version, blocks)


def findings_document(findings: Sequence[Finding], version: str = "") -> dict[str, Any]:
    """Any findings, as heavy as they are."""
    return _document(findings, version, {})


def _document(findings: Sequence[Finding], version: str, blocks: Mapping[str, Span]) -> dict[str, Any]:
    """Findings as one run; `blocks` gives the lines of resources by address."""
    rules = _rules(finding.diagnostic for finding in findings)
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    driver: dict[str, Any] = {"name": "nexusform", "rules": rules}
    if version:
        driver["semanticVersion"] = version
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "Where nexusform was run."}}},
        "results": [_result(finding, numbers[finding.diagnostic.id], blocks) for finding in findings],
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _rules(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """A rule per id, in order."""
    first: dict[str, Diagnostic] = {}
    for diagnostic in diagnostics:
        first.setdefault(diagnostic.id, diagnostic)
    return [_rule(first[rule_id]) for rule_id in sorted(first)]


def _rule(diagnostic: Diagnostic) -> dict[str, Any]:
    """A rule as the driver of a run lists it."""
    # A lint rule's summary starts with its id. Figures are of a result, not of its rule.
    text = summary_of(diagnostic.id).removeprefix(f"{diagnostic.id}: ")
    return {
        "id": diagnostic.id,
        "shortDescription": {"text": harmless(text)},
        "help": _help(diagnostic.id, text),
        "helpUri": f"{_PAGES}/{_page(diagnostic.id)}",
        "defaultConfiguration": {"level": _LEVELS[level_of(diagnostic)]},
    }


def _page(rule: str) -> str:
    """Where a rule is explained: a lint rule has a section of its own, any other id a row."""
    return f"{'lint' if rule in _HELP else 'diagnostics'}.md#{rule}"


def _help(rule: str, summary: str) -> dict[str, str]:
    """What a code host shows beside a finding: why it matters and what to do."""
    if rule not in _HELP:
        text = f"{summary}. The finding says what to do; docs/reference/diagnostics.md explains common ids."
        return {"text": text, "markdown": text}
    silence = _SILENCE.format(rule)
    return {
        "text": f"{_HELP[rule]} {silence}",
        "markdown": f"{_HELP[rule]}\n\n{silence}\n\n`nexusform advise` measures what it costs.",
    }


def _result(finding: Finding, number: int, blocks: Mapping[str, Span]) -> dict[str, Any]:
    """One finding; `number` is that of its rule."""
    diagnostic = finding.diagnostic
    detail = f"\n\n{diagnostic.detail}" if diagnostic.detail else ""
    detail += f"\n\n{HELD_BEFORE}" if finding.held_before else ""
    result: dict[str, Any] = {
        "ruleId": diagnostic.id,
        "ruleIndex": number,
        "level": _LEVELS[finding.level],
        "baselineState": "unchanged" if finding.held_before else "new",
        "properties": {"weight": finding.level.value},
        "message": {"text": harmless(f"{diagnostic.summary}{detail}")},
    }
    location = _location(diagnostic, blocks)
    if location:
        result["locations"] = [location]
    return result


def _location(diagnostic: Diagnostic, blocks: Mapping[str, Span]) -> dict[str, Any]:
    """The lines and the resource that a finding speaks of."""
    location: dict[str, Any] = {}
    span = diagnostic.subject or blocks.get(diagnostic.address)
    if span is not None:
        location["physicalLocation"] = {"artifactLocation": _file(span.filename), "region": _region(span)}
    if diagnostic.address:
        location["logicalLocations"] = [{"fullyQualifiedName": diagnostic.address, "kind": "resource"}]
    return location


def _file(name: str) -> dict[str, str]:
    path = quote(name.replace("\\", "/"), safe="/:~")
    if path.startswith("/"):
        return {"uri": f"file://{path}"}
    return {"uri": path.removeprefix("./"), "uriBaseId": "SRCROOT"}


def _region(span: Span) -> dict[str, int]:
    # The end stands after the last character, in SARIF as here.
    return {
        "startLine": span.start.line,
        "startColumn": span.start.column,
        "endLine": max(span.end.line, span.start.line),
        "endColumn": span.end.column,
    }
