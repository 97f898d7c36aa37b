"""Tests of page compression: repeated values are stored once, without loss."""

from __future__ import annotations

from typing import Any

from nexusform.rendering.page.page_data import compress_document


def unpack_document(document: dict[str, Any]) -> dict[str, Any]:
    """Unpack a document like `unpacked` in assets/document.js."""
    parts = document["packed"]
    values = parts["values"]
    lines = parts["lines"]

    def expand_text(runs: list[int]) -> str:
        pairs = zip(runs[::2], runs[1::2], strict=True)
        return "\n".join(line for first, count in pairs for line in lines[first : first + count])

    def expand_row(row: list[Any]) -> list[Any]:
        return [expand_text(part) if isinstance(part, list) else values[part] for part in row]

    rest = {name: value for name, value in document.items() if name != "packed"}
    changes, rows = ([expand_row(row) for row in parts[name]] for name in ("changes", "rows"))
    return {**rest, "changes": changes, "rows": rows}


def build_document(count: int) -> dict[str, Any]:
    drawn = '  + resource "p" {{\n      + id   = "p-{0}"\n      + name = "p-{0}"\n    }}'
    changes: list[list[Any]] = []
    rows: list[list[Any]] = []
    for at in range(count):
        text = drawn.format(at) if at % 3 else ""
        changes.append([f"t.p[{at}]", "", "t", "+", "will be created", text, "main.nf.hcl", 7])
        more = {"scores": {"affinity": 1}}
        rows.append(
            [
                "binding",
                "east",
                f"t.p[{at}]",
                "east",
                "place",
                "",
                "east (Bound)",
                "new",
                more,
                ["east"],
            ]
        )
    return {"fields": {"x": ["y"]}, "changes": changes, "rows": rows, "samples": 0}


def test_page_of_few_objects_is_not_compressed() -> None:
    assert compress_document(build_document(999)) == build_document(999)


def test_compressed_page_expands_without_loss() -> None:
    whole = build_document(1500)
    small = compress_document(whole)
    assert unpack_document(small) == whole
    # Lines common to all diffs are stored once.
    assert small["packed"]["lines"].count("    }") == 1
    assert len(str(small)) < len(str(whole))
