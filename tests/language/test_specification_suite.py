"""Tests of HCL's specification cases: values, and the exact ranges of errors.

The cases are restated: the same structures, evaluated through the same API as configurations.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.json_data.plain_data import convert_to_plain
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import parse_file
from nexusform.language.syntax.syntax_nodes import Body, JsonBody, Traversal
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_string, convert_decimal

LETTERS = BodySchema({"a": False, "b": False})
BLOCKS = BodySchema({}, {"a": ()})
INNER = BodySchema({"b": False, "c": False})


class HeredocScope:
    """Scope of the names in the heredoc cases, without functions."""

    functions: Mapping[str, Any] = {}
    known: Mapping[str, Value] = {"bar": build_string("Bar"), "space_bar": build_string("  Bar")}

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return self.known.get(traversal.root.name, DYNAMIC_UNKNOWN), 0, []


def evaluate_arguments(body: Body | JsonBody, schema: BodySchema) -> dict[str, Any]:
    found, problems = decode_body(body, schema)
    assert problems == []
    plain = {}
    for name, attribute in found.attributes.items():
        value, wrong = evaluate_expression(attribute.expression, HeredocScope())
        assert wrong == []
        plain[name] = convert_to_plain(value)[0]
    return plain


def parse_valid_body(text: str) -> Body:
    body, problems = parse_file(SourceFile("case.hcl", text))
    assert problems == []
    return body


def evaluate_text(expression: str) -> Any:
    return evaluate_arguments(parse_valid_body(f"a = {expression}\n"), LETTERS)["a"]


# --- structure -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# alone",
        "# one\n# two\n",
        "// one\n// two\n",
        "/* one */\n",
        "/*\nseveral\n# lines\n*/\n",
        "/**/ # after another\n",
    ],
)
def test_comments_or_empty_file_make_an_empty_body(text: str) -> None:
    assert evaluate_arguments(parse_valid_body(text), LETTERS) == {}


def test_empty_json_object_is_an_empty_body() -> None:
    body, problems = parse_json_file(SourceFile("case.hcl.json", "{}"))
    assert problems == []
    assert evaluate_arguments(body, LETTERS) == {}


@pytest.mark.parametrize(
    "text",
    [
        'a = "a value"\nb = "b value"\n',
        '# c\na = "a value" # c\n/* c */ b /* c */ = /* c */ "b value" // c',
    ],
)
def test_expected_arguments_have_their_values(text: str) -> None:
    assert evaluate_arguments(parse_valid_body(text), LETTERS) == {"a": "a value", "b": "b value"}


@pytest.mark.parametrize(
    ("text", "count", "inner"),
    [
        ("a {}\n", 1, {}),
        ("a {\n}\n", 1, {}),
        ('a { b = "foo" }\n', 1, {"b": "foo"}),
        ('a {\n  b = "foo"\n}\n', 1, {"b": "foo"}),
        ("a {}\na {}\n", 2, {}),
    ],
)
def test_blocks_on_one_line_and_on_several(text: str, count: int, inner: dict[str, Any]) -> None:
    found, problems = decode_body(parse_valid_body(text), BLOCKS)
    assert problems == []
    assert [evaluate_arguments(b.body, INNER) for b in found.blocks] == [inner] * count


# Each range is line, column and byte of its start and of its end.
RANGES: list[tuple[str, BodySchema, list[str]]] = [
    ("a = 1\nb = 2\nc = 3\nd = 4\n", LETTERS, ["3:1/12-3:2/13", "4:1/18-4:2/19"]),
    ('a = "a value", b = "b value"\n', BodySchema({"a": False, "b": False}), ["1:14/13-1:15/14"]),
    ("a {\n", BLOCKS, ["1:3/2-1:4/3"]),
    ('a { b = "foo", c = "bar" }\n', BLOCKS, ["1:14/13-1:15/14"]),
    ('a { b = "foo"\n}\n', BLOCKS, ["1:14/13-2:1/14"]),
    ('a { b = "foo"\n  c = "bar" }\n', BLOCKS, ["1:14/13-2:1/14"]),
    ('a { b = "foo"\n  c = "bar"\n}\n', BLOCKS, ["1:14/13-2:1/14"]),
    ("a { d {} }\n", BLOCKS, ["1:5/4-1:8/7"]),
    (
        (
            'a { b = "foo", c = "bar" }\na { b = "foo"\n}\na { b = "foo"\n  c = "bar" }\n'
            'a { b = "foo"\n  c = "bar"\n}\na { d {} }\n'
        ),
        BLOCKS,
        [
            "1:14/13-1:15/14",
            "2:14/40-3:1/41",
            "4:14/56-5:1/57",
            "6:14/84-7:1/85",
            "9:5/103-9:8/106",
        ],
    ),
    ("é = 1\n", LETTERS, ["1:1/0-1:2/2"]),
    ('a = "👩‍👩‍👧" b\n', LETTERS, ["1:9/25-1:10/26"]),
    ("b {}\n", LETTERS, ["1:1/0-1:2/1"]),
    ('a "label" {}\n', BLOCKS, ["1:3/2-1:10/9"]),
]


@pytest.mark.parametrize(("text", "schema", "expected"), RANGES)
def test_error_is_reported_with_its_exact_range(
    text: str, schema: BodySchema, expected: list[str]
) -> None:
    body, problems = parse_file(SourceFile("case.hcl", text))
    problems = [*problems, *decode_body(body, schema)[1]]
    ends = [(p.subject.start, p.subject.end) for p in problems if p.subject]
    told = [f"{s.line}:{s.column}/{s.byte}-{e.line}:{e.column}/{e.byte}" for s, e in ends]
    assert told == expected
    assert {p.severity.value for p in problems} == {"error"}


# --- expressions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("3.2", "3.2"),
        (f"3.{'14159265358979' * 4}", f"3.{'14159265358979' * 4}"),
        ('"ЖЖ"', "ЖЖ"),
        ('"👩👩👧👦"', "👩👩👧👦"),
        ('"an\u0303os"', "años"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("2 + 3.5", "5.5"),
        (f"2.{'718281828459' * 5} + 1", f"3.{'718281828459' * 5}"),
        ("3.5 - 2", "1.5"),
        ("2 - 3.5", "-1.5"),
        ("2 * 4.5", 9),
        ("1 / 10", "0.1"),
        ("11 % 5", 1),
    ],
)
def test_literals_and_arithmetic(text: str, expected: Any) -> None:
    found, problems = parse_file(SourceFile("case.hcl", f"a = {text}\n"))
    assert problems == []
    result, wrong = evaluate_expression(found.attributes[0].expression, HeredocScope())
    assert wrong == []
    numeric = isinstance(expected, str) and not text.startswith('"')
    assert result.raw == (convert_decimal(expected) if numeric else expected)


def test_fractional_remainder_has_binary_digits_of_512_bits() -> None:
    found = parse_valid_body("a = 11 % 5.1\n").attributes[0].expression
    remainder, _ = evaluate_expression(found, HeredocScope())
    assert remainder.raw != convert_decimal("0.8")
    assert abs(remainder.raw - Fraction(4, 5)) < Fraction(1, 10**150)


TRUTHS = {
    '"a" == "a"': True,
    '"a" == "b"': False,
    '"1" == 1': False,
    '"true" == true': False,
    '"a" != "a"': False,
    '"a" != "b"': True,
    '"1" != 1': True,
    '"true" != true': True,
    **{
        f"{a} {op} {b}": r
        for op, row in {"<": (1, 0, 0), "<=": (1, 0, 1), ">": (0, 1, 0), ">=": (0, 1, 1)}.items()
        for (a, b), r in zip(((1, 2), (2, 1), (1, 1)), map(bool, row), strict=True)
    },
    **{
        f"{str(a).lower()} && {str(b).lower()}": a and b
        for a in (True, False)
        for b in (True, False)
    },
    **{
        f"{str(a).lower()} || {str(b).lower()}": a or b
        for a in (True, False)
        for b in (True, False)
    },
    "!true": False,
    "!false": True,
    'true ? "a" : "b"': "a",
    'false ? "a" : "b"': "b",
}


@pytest.mark.parametrize("text", list(TRUTHS))
def test_comparisons_logic_and_conditionals(text: str) -> None:
    assert evaluate_text(text) == TRUTHS[text]


HEREDOCS = {
    "<<EOT\nFoo\nBar\nBaz\nEOT": "Foo\nBar\nBaz\n",
    "<<EOT\n    Foo\n    Bar\n    Baz\n  EOT": "    Foo\n    Bar\n    Baz\n",
    "<<EOT\n    Foo\n      Bar\n    Baz\n  EOT": "    Foo\n      Bar\n    Baz\n",
    "<<EOT\n    Foo\n    ${bar}\n    Baz\n  EOT": "    Foo\n    Bar\n    Baz\n",
    "<<EOT\nFoo\n\nBar\n\nBaz\nEOT": "Foo\n\nBar\n\nBaz\n",
    "<<EOT\n    Foo\n\n    Bar\n\n    Baz\n  EOT": "    Foo\n\n    Bar\n\n    Baz\n",
    "<<EOT\n    NOT EOT\n  EOT": "    NOT EOT\n",
    "<<-EOT\nFoo\nBar\nBaz\nEOT": "Foo\nBar\nBaz\n",
    "<<-EOT\n    Foo\n    Bar\n    Baz\n  EOT": "Foo\nBar\nBaz\n",
    "<<-EOT\n    Foo\n      Bar\n    Baz\n  EOT": "Foo\n  Bar\nBaz\n",
    "<<-EOT\n    Foo\n  Bar\n    Baz\n  EOT": "  Foo\nBar\n  Baz\n",
    "<<-EOT\n    Foo\n    ${bar}\n    Baz\n  EOT": "Foo\nBar\nBaz\n",
    "<<-EOT\n    Foo\n      ${bar}\n    Baz\n  EOT": "Foo\n  Bar\nBaz\n",
    "<<-EOT\n    Foo\n  ${space_bar}\n    Baz\n  EOT": "  Foo\n  Bar\n  Baz\n",
    "<<-EOT\n\tFoo\n  Bar\n  Baz\n  EOT": "Foo\n Bar\n Baz\n",
    "<<-EOT\n\u2003\u2003 Foo\n  Bar\n  Baz\n  EOT": "\u2003Foo\nBar\nBaz\n".replace(
        "\u2003Foo", " Foo"
    ),
    "<<-EOT\nFoo\n\nBar\n\nBaz\nEOT": "Foo\n\nBar\n\nBaz\n",
    "<<-EOT\n    Foo\n\n    Bar\n\n    Baz\n  EOT": "Foo\n\nBar\n\nBaz\n",
}


@pytest.mark.parametrize("text", list(HEREDOCS))
def test_literal_and_flush_heredocs(text: str) -> None:
    assert evaluate_text(text) == HEREDOCS[text]
    assert evaluate_text(f"{{ x = {text}\n}}") == {"x": HEREDOCS[text]}
