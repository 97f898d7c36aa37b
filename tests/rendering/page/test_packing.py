"""Pages of thousands of objects: what is the same is said once, and nothing is lost."""

from __future__ import annotations

from typing import Any

from nexusform.rendering.page.data_compression import compress_document


def unpacked(document: dict[str, Any]) -> dict[str, Any]:
    """What `unpacked` in assets/document.js does."""
    parts = document["packed"]
    values, lines = parts["values"], parts["lines"]

    def text(runs: list[int]) -> str:
        pairs = zip(runs[::2], runs[1::2], strict=True)
        return "\n".join(line for first, count in pairs for line in lines[first : first + count])

    def whole(row: list[Any]) -> list[Any]:
        return [text(part) if isinstance(part, list) else values[part] for part in row]

    rest = {name: value for name, value in document.items() if name != "packed"}
    changes, rows = ([whole(row) for row in parts[name]] for name in ("changes", "rows"))
    return {**rest, "changes": changes, "rows": rows}


def document(count: int) -> dict[str, Any]:
    drawn = '  + resource "p" {{\n      + id   = "p-{0}"\n      + name = "p-{0}"\n    }}'
    changes: list[list[Any]] = []
    rows: list[list[Any]] = []
    for at in range(count):
        text = drawn.format(at) if at % 3 else ""
        changes.append([f"t.p[{at}]", "", "t", "+", "will be created", text, "main.nf.hcl", 7])
        more = {"scores": {"affinity": 1}}
        rows.append(["binding", "east", f"t.p[{at}]", "east", "place", "", "east (Bound)", "new", more, ["east"]])
    return {"fields": {"x": ["y"]}, "changes": changes, "rows": rows, "samples": 0}


def test_a_page_of_few_objects_is_read_as_it_is() -> None:
    assert compress_document(document(999)) == document(999)


def test_nothing_of_a_packed_page_is_lost() -> None:
    whole = document(1500)
    small = compress_document(whole)
    assert unpacked(small) == whole
    # The lines that all differences have stand there once.
    assert small["packed"]["lines"].count("    }") == 1
    assert len(str(small)) < len(str(whole))
