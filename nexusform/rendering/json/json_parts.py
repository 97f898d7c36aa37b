"""Names and diagnostics as machine-readable documents show them; diagnostics in OpenTofu's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.address import Address, module_text
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.json_forms import Form
from nexusform.plans.plan import Action
from nexusform.rendering.report.entries import Finding
from nexusform.rendering.text.diagnostic_text import snippet_of
from nexusform.source import SourceFile, Span
from nexusform.weights import level_of

# What readers of plan documents check before they go on.
TERRAFORM_VERSION: Final = "1.11.0"

ACTIONS: Final = {
    Action.NO_OP: ["no-op"],
    Action.CREATE: ["create"],
    Action.READ: ["read"],
    Action.UPDATE: ["update"],
    Action.DELETE: ["delete"],
    Action.REPLACE: ["delete", "create"],
    Action.REPLACE_CREATE_FIRST: ["create", "delete"],
    Action.FORGET: ["forget"],
}


def provider_name(key: str) -> str:
    """The full name of a provider: of `simulated` or `simulated.lab` `nexusform.dev/builtin/simulated`."""
    return key if "/" in key else f"nexusform.dev/builtin/{key.partition('.')[0] or 'simulated'}"


def address_keys(address: Address) -> dict[str, Any]:
    """mode, type, name and, where there is one, index."""
    keys: dict[str, Any] = {"mode": address.mode, "type": address.type, "name": address.name}
    if address.key is not None:
        keys["index"] = address.key
    return keys


def resource_keys(address: Address) -> dict[str, Any]:
    """An address as the event stream names it."""
    module = module_text(address.module)
    text = str(address)
    return {
        "addr": text,
        "module": module,
        "resource": text[len(module) + 1 :] if module else text,
        "implied_provider": address.type.partition("_")[0],
        "resource_type": address.type,
        "resource_name": address.name,
        "resource_key": address.key,
    }


def diagnostic_document(diagnostic: Diagnostic, files: Mapping[str, SourceFile]) -> dict[str, Any]:
    """One diagnostic: severity, summary, detail and, where they are known, address, range, snippet.

    Beyond OpenTofu's keys: `id`, how much it weighs (`level`), and what the diagnostic carries as `extra`
    (`fit`: the ways out of a placement that does not fit).
    """
    document: dict[str, Any] = {
        "severity": diagnostic.severity.value,
        "summary": diagnostic.summary,
        "detail": diagnostic.detail,
        "id": diagnostic.id,
        "level": level_of(diagnostic).value,
    }
    if diagnostic.address:
        document["address"] = diagnostic.address
    if diagnostic.subject is not None:
        document["range"] = SPAN(diagnostic.subject)
        snippet = _snippet(diagnostic, files)
        if snippet is not None:
            document["snippet"] = snippet
    for name, data in diagnostic.extra.items():
        document.setdefault(name, data)
    return document


def finding_document(finding: Finding, files: Mapping[str, SourceFile]) -> dict[str, Any]:
    """A diagnostic of a plan, with whether it held before."""
    document = diagnostic_document(finding.diagnostic, files)
    return document | {"held_before": True} if finding.held_before else document


def diagnostic_documents(
    diagnostics: Iterable[Diagnostic], files: Mapping[str, SourceFile]
) -> list[dict[str, Any]]:
    """All of them, in their order."""
    return [diagnostic_document(diagnostic, files) for diagnostic in diagnostics]


def validate_document(diagnostics: Sequence[Diagnostic], files: Mapping[str, SourceFile]) -> dict[str, Any]:
    """What `validate -json` prints."""
    errors = sum(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
    return {
        "format_version": "1.0",
        "valid": errors == 0,
        "error_count": errors,
        "warning_count": len(diagnostics) - errors,
        "diagnostics": diagnostic_documents(diagnostics, files),
    }


SPAN: Final = Form(Span, "filename start end")


def _snippet(diagnostic: Diagnostic, files: Mapping[str, SourceFile]) -> dict[str, Any] | None:
    """The lines of the source that a diagnostic is about; None without any."""
    snippet = snippet_of(diagnostic, files)
    if snippet is None:
        return None
    notes = sorted(diagnostic.values, key=lambda note: note.traversal)
    document: dict[str, Any] = {
        "context": diagnostic.block or None,
        "code": snippet.code,
        "start_line": snippet.start_line,
        "highlight_start_offset": snippet.highlight_start,
        "highlight_end_offset": snippet.highlight_end,
        "values": [{"traversal": note.traversal, "statement": note.statement} for note in notes],
    }
    if diagnostic.function:
        document["function_call"] = {"name": diagnostic.function.partition("(")[0]}
    return document
