from __future__ import annotations

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.parser import parse_expression
from nexusform.language.value_descriptions import build_value_notes, format_traversal
from nexusform.values.typed_value import build_string


def noted(text: str) -> list[str]:
    expression, problems = parse_expression(SourceFile("x", text))
    assert problems == []
    assert expression is not None
    found = build_value_notes(expression, lambda t: (format_traversal(t), build_string("s")))
    return [note.traversal for note in found]


def test_references_are_noted_once_in_order() -> None:
    assert noted("var.b + var.a[0] + var.b") == ["var.b", "var.a[0]"]


def test_names_of_a_for_expression_are_no_references() -> None:
    assert noted("[for m in module.site : m.nodes == var.n if m.on]") == ["module.site", "var.n"]
    assert noted('{ for k, v in var.m : k => [for x in v.list : "${x.name}${k}"]... }') == ["var.m"]


def test_outside_of_it_the_same_name_is_one() -> None:
    assert noted("[for m in m.all : m.x] == m.other") == ["m.all", "m.other"]
