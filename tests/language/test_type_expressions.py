"""Tests of type expressions in variable blocks."""

from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.json_data.plain_data import convert_to_plain, convert_to_value
from nexusform.language.parser import parse_expression
from nexusform.language.type_conversion import convert_value
from nexusform.language.type_expressions import parse_type
from nexusform.schemas.value_types import DYNAMIC, Type, build_type_json


def parse_type_text(text: str) -> tuple[Type | None, list[str]]:
    expression, problems = parse_expression(SourceFile("t", text))
    assert expression is not None, problems
    found, problems = parse_type(expression)
    return found, [p.detail for p in problems]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("string", "string"),
        ("any", "dynamic"),
        ("list(string)", ["list", "string"]),
        ("map(set(number))", ["map", ["set", "number"]]),
        ("tuple([string, bool])", ["tuple", ["string", "bool"]]),
        ("object({})", ["object", {}]),
        (
            "object({ a = string, b = list(any) })",
            ["object", {"a": "string", "b": ["list", "dynamic"]}],
        ),
        ("object({ a = optional(string) })", ["object", {"a": "string"}, ["a"]]),
    ],
)
def test_type_is_parsed(text: str, data: object) -> None:
    found, problems = parse_type_text(text)
    assert problems == []
    assert found is not None
    assert build_type_json(found) == data


def test_defaults_are_applied_at_every_depth() -> None:
    inner = "list(object({ d = optional(bool, true) }))"
    optional = f'b = optional(number, "3"), c = optional({inner}, [{{}}])'
    found, problems = parse_type_text(f"object({{ a = string, {optional} }})")
    assert problems == []
    assert found is not None
    made = convert_value(convert_to_value({"a": "x"}, DYNAMIC), found)
    assert convert_to_plain(made)[0] == {"a": "x", "b": 3, "c": [{"d": True}]}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("strnig", 'Did you mean "string"?'),
        ("list", "list(string)"),
        ("lits(string)", 'Did you mean "list"?'),
        ('"string"', "without quotes"),
        ("string(1)", "does not take arguments"),
        ("list(string, number)", "exactly one argument"),
        ("object(string)", "requires a map"),
        ("tuple(string)", "requires a list"),
        ("optional(string)", "only for attributes of an object"),
        ('object({ a = optional(string, upper("b")) })', "Functions may not be called here"),
        ("{ a = string }", "object({...})"),
        ("object({ a = string, a = number })", "already declared"),
        ("object({ a = optional(number, []) })", "number required"),
        ("object({ a = optional(number, var.x) })", "cannot refer to anything"),
        ("var.x", "primitive type keyword"),
        ("null", "cannot be null"),
        ("object({ (a) = string })", "attribute names"),
        ('object({ "a" = string })', "attribute names"),
    ],
)
def test_invalid_type_is_reported_with_hint(text: str, hint: str) -> None:
    found, problems = parse_type_text(text)
    assert found is None
    assert any(hint in p for p in problems), problems
