"""Diagnostics as data, in OpenTofu's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nexusform.diagnostics import Diagnostic, Severity
from nexusform.rendering.notation.snippet import snippet_of
from nexusform.source import Position, SourceFile, Span


def diagnostic_document(diagnostic: Diagnostic, files: Mapping[str, SourceFile]) -> dict[str, Any]:
    """One diagnostic: severity, summary, detail and, where they are known, address, range, snippet.

    Beyond OpenTofu's keys: `id`, and what the diagnostic carries as `extra`
    (`fit`: the ways out of a placement that does not fit).
    """
    document: dict[str, Any] = {
        "severity": diagnostic.severity.value,
        "summary": diagnostic.summary,
        "detail": diagnostic.detail,
        "id": diagnostic.id,
    }
    if diagnostic.address:
        document["address"] = diagnostic.address
    if diagnostic.subject is not None:
        document["range"] = range_document(diagnostic.subject)
        snippet = _snippet(diagnostic, files)
        if snippet is not None:
            document["snippet"] = snippet
    for name, data in diagnostic.extra.items():
        document.setdefault(name, data)
    return document


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


def range_document(span: Span) -> dict[str, Any]:
    """A span: line and column from 1, byte from 0, end exclusive."""
    return {"filename": span.filename, "start": _position(span.start), "end": _position(span.end)}


def _position(position: Position) -> dict[str, int]:
    return {"line": position.line, "column": position.column, "byte": position.byte}


def _snippet(diagnostic: Diagnostic, files: Mapping[str, SourceFile]) -> dict[str, Any] | None:
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
