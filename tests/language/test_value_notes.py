from __future__ import annotations

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.parser import parse_expression
from nexusform.language.value_descriptions import build_value_notes, format_traversal
from nexusform.values.typed_value import build_string


def list_noted_references(text: str) -> list[str]:
    expression, problems = parse_expression(SourceFile("x", text))
    assert problems == []
    assert expression is not None
    found = build_value_notes(expression, lambda t: (format_traversal(t), build_string("s")))
    return [note.traversal for note in found]


def test_references_are_recorded_once_in_order() -> None:
    assert list_noted_references("var.b + var.a[0] + var.b") == ["var.b", "var.a[0]"]


def test_names_of_for_expression_are_no_references() -> None:
    assert list_noted_references("[for m in module.site : m.nodes == var.n if m.on]") == [
        "module.site",
        "var.n",
    ]
    assert list_noted_references(
        '{ for k, v in var.m : k => [for x in v.list : "${x.name}${k}"]... }'
    ) == ["var.m"]


def test_same_name_outside_for_expression_is_a_reference() -> None:
    assert list_noted_references("[for m in m.all : m.x] == m.other") == ["m.all", "m.other"]
