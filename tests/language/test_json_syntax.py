"""Tests of JSON syntax: values with positions, errors with positions, values as expressions."""

import inspect
import json
import sys
from decimal import Decimal

import pytest

from nexusform.diagnostics.diagnostic import Position, SourceFile, Span
from nexusform.language.json_syntax import build_expression, parse_json_file
from nexusform.language.parser import parse_template
from nexusform.language.syntax import syntax_nodes as syntax


def parse_valid_json(text: str) -> syntax.JsonBody:
    body, diagnostics = parse_json_file(SourceFile("a.nf.json", text))
    assert diagnostics == []
    return body


def format_span(span: Span) -> str:
    return f"{span.start.line}:{span.start.column}-{span.end.line}:{span.end.column}"


def convert_to_data(value: syntax.JsonValue) -> object:
    if isinstance(value, syntax.JsonObject):
        return {each.name: convert_to_data(each.value) for each in value.properties}
    if isinstance(value, syntax.JsonArray):
        return [convert_to_data(item) for item in value.items]
    return value.value


SAMPLE = {
    "resource": {
        "t": {
            "n": {
                "a": "x",
                "b": [1, True, None, -2],
                "c": {"d": 'é\n"q" \U0001f600'},
                "e": {},
                "f": [],
            }
        }
    },
    "locals": {"x": "${y}", "empty": "", "deep": [[["z"]], {"k": "v", "m": 1}]},
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_result_equals_result_of_json_module(indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(SAMPLE, indent=indent, ensure_ascii=ascii_only)
    assert convert_to_data(parse_valid_json(text).objects[0]) == SAMPLE


def test_every_value_and_name_has_its_position() -> None:
    body = parse_valid_json('{\n  "a": "x",\n  "é": [1, {"b": null}]\n}\n')
    first, second = body.objects[0].properties
    assert (format_span(first.name_span), format_span(first.value.span)) == ("2:3-2:6", "2:8-2:11")
    assert (format_span(second.name_span), format_span(second.value.span)) == (
        "3:3-3:6",
        "3:8-3:24",
    )
    assert second.value.items[1].properties[0].value.span == Span(
        "a.nf.json", Position(3, 18, 32), Position(3, 22, 36)
    )
    assert format_span(body.objects[0].span) == "1:1-4:2"


def test_repeated_names_are_kept() -> None:
    assert [each.name for each in parse_valid_json('{"a": 1, "a": 2}').objects[0].properties] == [
        "a",
        "a",
    ]


def test_numbers_are_exact() -> None:
    (items,) = (
        each.value
        for each in parse_valid_json('{"a": [0.1, 1e3, 123456789012345678901234567890, -0]}')
        .objects[0]
        .properties
    )
    assert [item.value for item in items.items] == [
        Decimal("0.1"),
        Decimal("1e3"),
        123456789012345678901234567890,
        0,
    ]


def test_array_of_objects_is_one_body() -> None:
    assert len(parse_valid_json('[{"a": 1}, {"b": 2}]').objects) == 2


MISTAKES = {
    "": ("1:1-1:1", "The text ends where a JSON value is expected."),
    "{": ("1:2-1:2", "The text ends inside an object: its closing brace is missing."),
    '{"a": 1,}': ("1:9-1:10", "JSON allows no comma after the last property."),
    '{"a": "b",}': ("1:11-1:12", "JSON allows no comma after the last property."),
    '{"a": [1,]}': ("1:10-1:11", "JSON allows no comma after the last item."),
    '{"a": 1\n "b": 2}': ("2:2-2:5", 'A comma or the closing "}" is expected after this property.'),
    '{"a": "x"\n "b": 2}': (
        "2:2-2:5",
        'A comma or the closing "}" is expected after this property.',
    ),
    '{"a" 1}': ("1:6-1:7", 'A colon (":") is expected after the property name "a".'),
    '{"a": tru}': (
        "1:7-1:10",
        (
            '"tru" is not a JSON value. The only words without quotation marks are true, '
            "false and null."
        ),
    ),
    '{"a": 01}': (
        "1:7-1:8",
        "A JSON value is expected here: an object, array, string, number, true, false or null.",
    ),
    '{"a": "b\n"}': ("1:7-1:8", "This string has no closing quotation mark on its line."),
    "{'a': 1}": ("1:2-1:3", "A property name in double quotes is expected here."),
    '{"a": "\\q"}': ("1:8-1:10", '"\\q" is not a JSON escape sequence.'),
    '{"a": 1} x': ("1:10-1:11", "Unexpected text after the JSON value."),
    '{"a": [1': ("1:7-1:8", "This array is never closed."),
    '{"a": 1': ("1:1-1:2", "This object is never closed."),
    '{"a": 1e99999}': ("1:7-1:14", "This number is too long or too large."),
    "[" * 5000: ("1:513-1:514", "Objects and arrays may be nested at most 512 levels deep."),
    '{"a":' * 5000: ("1:2561-1:2562", "Objects and arrays may be nested at most 512 levels deep."),
}


@pytest.mark.usefixtures("deep_calls")
@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:12])
def test_error_is_one_diagnostic_at_its_position(text: str) -> None:
    body, diagnostics = parse_json_file(SourceFile("a.nf.json", text))
    assert body.objects == ()
    assert [(format_span(each.subject), each.detail) for each in diagnostics] == [MISTAKES[text]]
    assert diagnostics[0].summary == "Invalid JSON syntax"


def test_nesting_beyond_recursion_limit_is_a_diagnostic() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        _, diagnostics = parse_json_file(SourceFile("a.nf.json", "[" * 500))
    finally:
        sys.setrecursionlimit(limit)
    assert [each.detail for each in diagnostics] == ["Objects and arrays are nested too deeply."]


@pytest.mark.parametrize("text", ["1", '"a"', "[1]", "null"])
def test_root_other_than_object_is_rejected(text: str) -> None:
    _, diagnostics = parse_json_file(SourceFile("a.nf.json", text))
    assert [each.summary for each in diagnostics] == ["Invalid JSON configuration"]


def test_any_modified_text_gives_a_diagnostic_or_a_body() -> None:
    text = json.dumps(SAMPLE, indent=1, ensure_ascii=False)
    for at in range(len(text)):
        for changed in (text[:at], text[:at] + text[at + 1 :], text[:at] + '"' + text[at:]):
            _, diagnostics = parse_json_file(SourceFile("a.nf.json", changed))
            for each in diagnostics:
                assert (
                    0 <= each.subject.start.byte <= each.subject.end.byte <= len(changed.encode())
                )


# --- values as expressions -----------------------------------------------------------------------


def build_valid_expression(text: str) -> syntax.Expression:
    value = parse_valid_json(f'{{"a": {text}}}').objects[0].properties[0].value
    found, diagnostics = build_expression(value)
    assert diagnostics == []
    return found


def test_strings_are_templates_with_positions_of_file() -> None:
    found = build_valid_expression('"x ${var.b}"')
    assert isinstance(found, syntax.Template)
    assert format_span(found.parts[1].span) == "1:12-1:17"
    assert isinstance(build_valid_expression('"${a}"'), syntax.TemplateWrap)
    assert build_valid_expression('"$${a}"').value == "${a}"
    assert build_valid_expression('"a\\\\b"').value == "a\\b"


def test_parts_of_escaped_string_have_position_of_string() -> None:
    found = build_valid_expression('"x\\n${var.b}"')
    assert {format_span(part.span) for part in found.parts} == {"1:7-1:20"}


def test_names_of_object_are_templates_too() -> None:
    found = build_valid_expression('{"${k}": 1, "b": true}')
    assert isinstance(found, syntax.ObjectCons)
    assert [type(key.expression) for key, _ in found.items] == [
        syntax.TemplateWrap,
        syntax.StringLiteral,
    ]
    assert [key.bare for key, _ in found.items] == [False, False]


def test_other_values_are_literals() -> None:
    found = build_valid_expression("[1, 2.5, false, null]")
    assert [item.value for item in found.items] == [1, Decimal("2.5"), False, None]


def test_error_in_template_is_reported_at_its_position() -> None:
    value = parse_valid_json('{"a": "x ${b +}"}').objects[0].properties[0].value
    found, diagnostics = build_expression(value)
    assert isinstance(found, syntax.StringLiteral)
    assert [(each.summary, format_span(each.subject)) for each in diagnostics] == [
        ("Invalid expression", "1:15-1:16")
    ]


def test_duplicate_properties_of_value_are_an_error() -> None:
    value = parse_valid_json('{"a": {"b": 1, "b": 2}}').objects[0].properties[0].value
    _, diagnostics = build_expression(value)
    assert [(each.summary, format_span(each.subject)) for each in diagnostics] == [
        ("Duplicate object attribute", "1:16-1:19")
    ]


@pytest.mark.parametrize("text", ["${a}", "${a.b-c.d_e}", "${true}", "${null.x}"])
def test_shortcut_for_plain_reference_equals_full_parser(text: str) -> None:
    whole, _ = parse_template(SourceFile("a.nf.json", text), Position(1, 8, 7))
    found = build_valid_expression(f'"{text}"')
    assert isinstance(found, syntax.TemplateWrap)
    assert isinstance(whole, syntax.TemplateWrap)
    assert found.wrapped == whole.wrapped
    assert format_span(found.span) == f"1:7-1:{9 + len(text)}"
