"""Findings as SARIF 2.1.0, shown by code hosts at their source lines."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from nexusform import PROJECT_URL
from nexusform.advice.registry import RULES
from nexusform.diagnostics.diagnostic import Diagnostic, Span
from nexusform.diagnostics.levels import Level, get_diagnostic_level
from nexusform.diagnostics.names import escape_control_characters
from nexusform.diagnostics.phrases import enclose
from nexusform.diagnostics.summaries import get_summary
from nexusform.plans.plan import Plan
from nexusform.rendering.report.finding_entries import (
    PREEXISTING_NOTE,
    Finding,
    collect_findings_and_risks,
)
from nexusform.rendering.report.plan_sentences import describe_assumptions

VERSION: Final = "2.1.0"
SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_RULE_HELP: Final = {rule.id: rule.help for rule in RULES}
# SARIF has no level for advice.
_SARIF_LEVELS: Final = {
    Level.ERROR: "error",
    Level.WARNING: "warning",
    Level.ADVICE: "note",
    Level.NOTE: "note",
}
_SILENCE_HINT: Final = (
    "Silenced by `# nexusform:ignore {}` on the line before the block, or in the lint block."
)


def build_sarif_document(plan: Plan) -> dict[str, Any]:
    """Build the SARIF document of a plan.

    It has the findings of the plan, and the risks that the plan causes. A finding without a line
    refers to the block of its resource.
    """
    blocks = {
        str(change.address): change.source for change in plan.changes if change.source is not None
    }
    document = build_findings_document(
        collect_findings_and_risks(plan), plan.start.nexusform_version, blocks
    )
    if plan.assumptions:
        description = {"text": describe_assumptions(plan)}
        details = {"automationDetails": {"description": description}}
        document["runs"] = [details | run for run in document["runs"]]
    return document


def build_findings_document(
    findings: Sequence[Finding], version: str = "", blocks: Mapping[str, Span] = {}
) -> dict[str, Any]:
    """Build the SARIF log with one run of findings.

    `blocks` maps addresses to the source spans of resources.
    """
    # By rule id.
    first_diagnostics: dict[str, Diagnostic] = {}
    for finding in findings:
        first_diagnostics.setdefault(finding.diagnostic.id, finding.diagnostic)
    rules = [
        _build_rule_descriptor(first_diagnostics[rule_id]) for rule_id in sorted(first_diagnostics)
    ]
    rule_indexes = {rule["id"]: number for number, rule in enumerate(rules)}
    driver: dict[str, Any] = {"name": "nexusform", "rules": rules}
    if version:
        driver["semanticVersion"] = version
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "SRCROOT": {"description": {"text": "Directory of the nexusform run."}}
        },
        "results": [
            _build_finding_result(finding, rule_indexes[finding.id], blocks) for finding in findings
        ],
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _build_rule_descriptor(diagnostic: Diagnostic) -> dict[str, Any]:
    """Build a rule for the driver of a run."""
    # The general summary has no figures of a single result. For a lint rule it starts with its id.
    text = get_summary(diagnostic.id).removeprefix(f"{diagnostic.id}: ")
    # Has a section for the rule.
    page = "lint.md" if diagnostic.id in _RULE_HELP else "diagnostics.md"
    help_uri = (
        {"helpUri": f"{PROJECT_URL}/blob/main/docs/reference/{page}#{diagnostic.id}"}
        if PROJECT_URL
        else {}
    )
    rule_help = _RULE_HELP.get(diagnostic.id)
    # No lint rule.
    if rule_help is None:
        help_text = (
            f"{text}. See the finding for a fix, and docs/reference/diagnostics.md for common ids."
        )
        help_markdown = help_text
    else:
        silence = _SILENCE_HINT.format(diagnostic.id)
        help_text = f"{rule_help} {silence}"
        help_markdown = f"{rule_help}\n\n{silence}\n\n`nexusform advise` measures the cost."
    return {
        "id": diagnostic.id,
        "shortDescription": {"text": escape_control_characters(text)},
        "help": {"text": help_text, "markdown": help_markdown},
        **help_uri,
        "defaultConfiguration": {"level": _SARIF_LEVELS[get_diagnostic_level(diagnostic)]},
    }


def _build_finding_result(
    finding: Finding, rule_index: int, blocks: Mapping[str, Span]
) -> dict[str, Any]:
    """Build one finding with its location: its own line, or else the block of its resource."""
    diagnostic = finding.diagnostic
    detail = enclose("\n\n", diagnostic.detail)
    detail += f"\n\n{PREEXISTING_NOTE}" if finding.is_preexisting else ""
    result: dict[str, Any] = {
        "ruleId": diagnostic.id,
        "ruleIndex": rule_index,
        "level": _SARIF_LEVELS[finding.level],
        "baselineState": "unchanged" if finding.is_preexisting else "new",
        "properties": {"weight": finding.level.value},
        "message": {"text": escape_control_characters(f"{diagnostic.summary}{detail}")},
    }
    location: dict[str, Any] = {}
    span = diagnostic.subject or blocks.get(diagnostic.address)
    if span is not None:
        file_path = quote(span.filename.replace("\\", "/"), safe="/:~")
        artifact_location = {"uri": file_path.removeprefix("./"), "uriBaseId": "SRCROOT"}
        if file_path.startswith("/"):
            artifact_location = {"uri": f"file://{file_path}"}
        # SARIF rejects an end before the start. As in a span, the end is after the last character.
        location["physicalLocation"] = {
            "artifactLocation": artifact_location,
            "region": {
                "startLine": span.start.line,
                "startColumn": span.start.column,
                "endLine": max(span.end.line, span.start.line),
                "endColumn": span.end.column,
            },
        }
    if diagnostic.address:
        location["logicalLocations"] = [
            {"fullyQualifiedName": diagnostic.address, "kind": "resource"}
        ]
    if location:
        result["locations"] = [location]
    return result
