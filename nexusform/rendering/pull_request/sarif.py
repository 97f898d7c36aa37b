"""Findings as SARIF 2.1.0, so that code hosts show them on the lines they speak of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.plan import Plan
from nexusform.rendering.notation.colours import harmless
from nexusform.source import Span

VERSION: Final = "2.1.0"
SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning"}


def sarif_document(plan: Plan) -> dict[str, Any]:
    """The findings of a plan. One without a line of its own points at the block of its resource."""
    blocks = {str(change.address): change.source for change in plan.changes if change.source is not None}
    return findings_document(plan.diagnostics, plan.nexusform_version, blocks)


def findings_document(
    diagnostics: Sequence[Diagnostic], version: str = "", blocks: Mapping[str, Span] | None = None
) -> dict[str, Any]:
    """Any diagnostics; `blocks` gives the lines of resources by address."""
    rules = _rules(diagnostics)
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    driver: dict[str, Any] = {"name": "nexusform", "rules": rules}
    if version:
        driver["semanticVersion"] = version
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "Where nexusform was run."}}},
        "results": [_result(d, numbers[d.id], blocks or {}) for d in diagnostics],
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _rules(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    rules: dict[str, dict[str, Any]] = {}
    for found in diagnostics:
        name = found.id
        # A lint rule's summary starts with its id.
        text = found.summary.removeprefix(f"{name}: ")
        rule = {
            "id": name,
            "shortDescription": {"text": harmless(text)},
            "defaultConfiguration": {"level": _LEVELS[found.severity]},
        }
        rules.setdefault(name, rule)
    return [rules[name] for name in sorted(rules)]


def _result(found: Diagnostic, number: int, blocks: Mapping[str, Span]) -> dict[str, Any]:
    detail = f"\n\n{found.detail}" if found.detail else ""
    result: dict[str, Any] = {
        "ruleId": found.id,
        "ruleIndex": number,
        "level": _LEVELS[found.severity],
        "message": {"text": harmless(f"{found.summary}{detail}")},
    }
    location: dict[str, Any] = {}
    span = found.subject or blocks.get(found.address)
    if span is not None:
        location["physicalLocation"] = {"artifactLocation": _file(span.filename), "region": _region(span)}
    if found.address:
        location["logicalLocations"] = [{"fullyQualifiedName": found.address, "kind": "resource"}]
    if location:
        result["locations"] = [location]
    return result


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
