"""JSON of names and diagnostics, in OpenTofu's form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, Span, select_errors
from nexusform.diagnostics.levels import get_diagnostic_level
from nexusform.plans.plan import Action
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.rendering.report.finding_entries import Finding
from nexusform.rendering.text.diagnostic_text import extract_snippet
from nexusform.resources.address import Address, format_module

# Version checked by readers of plan documents.
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


def format_provider_name(key: str) -> str:
    """Return the full name of a provider.

    It is `nexusform.dev/builtin/simulated` for `simulated` and `simulated.lab`.
    """
    return key if "/" in key else f"nexusform.dev/builtin/{key.partition('.')[0] or 'simulated'}"


def build_address_keys(address: Address) -> dict[str, Any]:
    """Build mode, type, name and, if any, index."""
    keys: dict[str, Any] = {"mode": address.mode, "type": address.type, "name": address.name}
    if address.key is not None:
        keys["index"] = address.key
    return keys


def build_resource_keys(address: Address) -> dict[str, Any]:
    """Build the `resource` object of an event from the address of an instance."""
    module = format_module(address.module)
    text = str(address)
    return {
        "addr": text,
        "module": module,
        "resource": text.removeprefix(f"{module}."),
        "implied_provider": address.type.partition("_")[0],
        "resource_type": address.type,
        "resource_name": address.name,
        "resource_key": address.key,
    }


def build_diagnostic_document(
    diagnostic: Diagnostic, files: Mapping[str, SourceFile]
) -> dict[str, Any]:
    """Build one diagnostic: severity, summary, detail and, if known, address, range and snippet.

    The keys added to OpenTofu's are `id`, `level` and the contents of `extra` (`fit`: remedies for
    a placement that does not fit).
    """
    document: dict[str, Any] = {
        "severity": diagnostic.severity.value,
        "summary": diagnostic.summary,
        "detail": diagnostic.detail,
        "id": diagnostic.id,
        "level": get_diagnostic_level(diagnostic).value,
    }
    document |= omit_empty({"address": diagnostic.address})
    if diagnostic.subject is not None:
        document |= omit_empty(
            {
                "range": build_span_document(diagnostic.subject),
                "snippet": _build_snippet(diagnostic, files),
            }
        )
    for name, data in diagnostic.extra.items():
        # Never in place of a key above.
        document.setdefault(name, data)
    return document


def build_finding_document(finding: Finding, files: Mapping[str, SourceFile]) -> dict[str, Any]:
    """Build a diagnostic of a plan.

    `preexisting` is true if the plan did not cause it.
    """
    document = build_diagnostic_document(finding.diagnostic, files)
    return document | omit_empty({"preexisting": finding.is_preexisting})


def build_diagnostic_documents(
    diagnostics: Iterable[Diagnostic], files: Mapping[str, SourceFile]
) -> list[dict[str, Any]]:
    """Build all diagnostics in order."""
    return [build_diagnostic_document(diagnostic, files) for diagnostic in diagnostics]


def build_validation_document(
    diagnostics: Sequence[Diagnostic], files: Mapping[str, SourceFile]
) -> dict[str, Any]:
    """Build the output of `validate -json`."""
    errors = len(select_errors(diagnostics))
    return {
        "format_version": "1.0",
        "valid": errors == 0,
        "error_count": errors,
        "warning_count": len(diagnostics) - errors,
        "diagnostics": build_diagnostic_documents(diagnostics, files),
    }


def build_answer_document(
    diagnostics: Iterable[Diagnostic], files: Mapping[str, SourceFile], **parts: Any
) -> dict[str, Any]:
    """Build the answer of a command that reads something: its parts, then the diagnostics.

    The shape is that of Terraform's `workspace list -json`, with errors and without.
    """
    return {
        "format_version": "1.0",
        **parts,
        "diagnostics": build_diagnostic_documents(diagnostics, files),
    }


def build_span_document(span: Span) -> dict[str, Any]:
    """Build the JSON object of a span."""
    return {
        "filename": span.filename,
        "start": {"line": span.start.line, "column": span.start.column, "byte": span.start.byte},
        "end": {"line": span.end.line, "column": span.end.column, "byte": span.end.byte},
    }


def _build_snippet(
    diagnostic: Diagnostic, files: Mapping[str, SourceFile]
) -> dict[str, Any] | None:
    """Build the source lines of a diagnostic with its values and function.

    Return None if it has no readable source.
    """
    snippet = extract_snippet(diagnostic, files)
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
        # Without its parameters.
        document["function_call"] = {"name": diagnostic.function.partition("(")[0]}
    return document
