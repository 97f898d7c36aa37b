from __future__ import annotations

from types import SimpleNamespace

from nexusform.diagnostics.diagnostic import (
    Position,
    SourceFile,
    Span,
    ValueNote,
    build_error,
    build_warning,
)
from nexusform.rendering.json.json_diagnostics import (
    build_diagnostic_document,
    build_validation_document,
)


def test_every_key_is_written(plans: SimpleNamespace) -> None:
    found = build_error(
        "insufficient-capacity",
        "Because.",
        plans.span_of("count"),
        block='resource "nexus_kubernetes_cluster" "d"',
        address="nexus_kubernetes_cluster.d",
        headline="Do not fit",
        values=(ValueNote("var.b", "is 2"), ValueNote("var.a", "is 1")),
        function="max(numbers...)",
        extra={"fit": {"placed": 20}},
    )
    assert build_diagnostic_document(found, plans.files) == {
        "severity": "error",
        "summary": "Do not fit",
        "detail": "Because.",
        "id": "insufficient-capacity",
        "level": "error",
        "address": "nexus_kubernetes_cluster.d",
        "range": {
            "filename": "main.nf.hcl",
            "start": {"line": 5, "column": 5, "byte": 100},
            "end": {"line": 5, "column": 10, "byte": 105},
        },
        "snippet": {
            "context": 'resource "nexus_kubernetes_cluster" "d"',
            "code": "    count              = 24",
            "start_line": 5,
            "highlight_start_offset": 4,
            "highlight_end_offset": 9,
            "values": [
                {"traversal": "var.a", "statement": "is 1"},
                {"traversal": "var.b", "statement": "is 2"},
            ],
            "function_call": {"name": "max"},
        },
        "fit": {"placed": 20},
    }


def test_context_widens_the_snippet() -> None:
    file = SourceFile("c.nf.hcl", "a {\n  b = 1\n  c = 2\n}\n")
    subject = Span(file.name, Position(2, 3, 6), Position(2, 4, 7))
    context = Span(file.name, Position(1, 1, 0), Position(4, 2, 21))
    snippet = build_diagnostic_document(
        build_error("unknown-site", "", subject, context=context), {file.name: file}
    )["snippet"]
    assert snippet["code"] == "a {\n  b = 1\n  c = 2\n}"
    assert snippet["start_line"] == 1
    assert (
        snippet["code"][snippet["highlight_start_offset"] : snippet["highlight_end_offset"]] == "b"
    )


def test_validate_counts() -> None:
    document = build_validation_document(
        [
            build_error("unknown-site"),
            build_warning("old-inventory"),
            build_warning("invalid-time"),
        ],
        {},
    )
    assert (document["valid"], document["error_count"], document["warning_count"]) == (False, 1, 2)
    assert [d["summary"] for d in document["diagnostics"]] == [
        "Unknown site",
        "Old inventory",
        "Invalid time",
    ]
    assert build_validation_document([build_warning("old-inventory")], {})["valid"] is True
