"""Tests of parsing: tables of cases in `cases/`, and invariants for any text.

A table holds entries: a line `--- title`, the source, a line `>>>`, and the expected result: the
tree, one node per line with its span, and the diagnostics. `NEXUSFORM_WRITE_CASES=1` rewrites the
expected results for review like any other change.
"""

import os
import random
from ast import literal_eval
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, Position, SourceFile, Span
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import (
    MAX_SOURCE_LENGTH,
    parse_expression,
    parse_file,
    parse_template,
)
from nexusform.language.parser import decode_tree as decode
from nexusform.language.parser import encode_tree as encode
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.syntax.scanner import scan_text
from nexusform.language.syntax.syntax_nodes import Body

CASES = Path(__file__).parent / "cases"
READERS = {"expressions": parse_expression, "templates": parse_template}


def parse_source(table: str, text: str) -> tuple[Any, list[Diagnostic]]:
    return READERS.get(table.split("-", maxsplit=1)[0], parse_file)(SourceFile("case.hcl", text))


# --- rendering of a tree -------------------------------------------------------------------------


def format_span(span: Span) -> str:
    return f"{span.start.line}:{span.start.column}-{span.end.line}:{span.end.column}"


def render_tree(node: Any, depth: int = 0, role: str = "") -> Iterator[str]:
    own = []
    below = []
    for field in node.__struct_fields__:
        value = getattr(node, field)
        if isinstance(value, Span):
            if field != "span":
                own.append(f"{field}={format_span(value)}")
        elif isinstance(value, Struct):
            below.append((field, [value]))
        elif isinstance(value, tuple):
            items = [
                item for pair in value for item in (pair if isinstance(pair, tuple) else (pair,))
            ]
            below.append((field, items))
        else:
            own.append(str(value) if isinstance(value, Decimal) else repr(value))
    label = f"{role}: " if role else ""
    yield "  " * depth + label + " ".join([type(node).__name__, *own, "@" + format_span(node.span)])
    for name, items in below:
        for item in items:
            yield from render_tree(item, depth + 1, name)


def render_diagnostics(diagnostics: list[Diagnostic]) -> Iterator[str]:
    for each in diagnostics:
        start = each.subject.start
        end = each.subject.end
        yield (
            f"{each.severity.value} {format_span(each.subject)} (bytes {start.byte}-{end.byte}): "
            f"{each.summary}"
        )
        yield from (f"    {line}".rstrip() for line in each.detail.split("\n"))


def render_result(table: str, text: str) -> str:
    tree, diagnostics = parse_source(table, text)
    shown = (
        [] if tree is None or (diagnostics and table.endswith("mistakes")) else render_tree(tree)
    )
    return "\n".join([*shown, *render_diagnostics(diagnostics)])


def read_entries(path: Path) -> Iterator[tuple[str, str, str]]:
    for entry in path.read_text("utf-8").split("\n--- "):
        title, _, rest = entry.removeprefix("--- ").partition("\n")
        text, _, expected = f"{rest}\n".partition("\n>>>\n")
        yield title, text, expected.strip("\n")


def unescape_source(text: str) -> str:
    """Return a source, evaluated first if it is written as a Python string.

    It is one because of special characters.
    """
    return literal_eval(text) if text.startswith("'") else text


def rewrite_table(path: Path) -> None:
    parts = [
        f"--- {title}\n{text}\n>>>\n{render_result(path.stem, unescape_source(text))}\n"
        for title, text, _ in read_entries(path)
    ]
    path.write_text("\n".join(parts), "utf-8")


def list_cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.txt")):
        if os.environ.get("NEXUSFORM_WRITE_CASES"):
            rewrite_table(path)
        for title, text, expected in read_entries(path):
            yield pytest.param(
                path.stem, unescape_source(text), expected, id=f"{path.stem}: {title}"
            )


@pytest.mark.parametrize(("table", "text", "expected"), list(list_cases()))
def test_result_equals_table(table: str, text: str, expected: str) -> None:
    assert render_result(table, text) == expected


# --- invariants for any text ---------------------------------------------------------------------

CONFIGURATION = (CASES / "everything.hcl").read_text("utf-8")


def list_child_nodes(node: Any) -> Iterator[Any]:
    for field in node.__struct_fields__:
        value = getattr(node, field)
        for item in value if isinstance(value, tuple) else (value,):
            for one in item if isinstance(item, tuple) else (item,):
                if isinstance(one, Struct) and not isinstance(one, Span):
                    yield one


def assert_nested(node: Any) -> None:
    for inner in list_child_nodes(node):
        assert node.span.start <= inner.span.start, (node, inner)
        assert inner.span.end <= node.span.end, (node, inner)
        assert_nested(inner)


def assert_inside(text: str, diagnostics: list[Diagnostic]) -> None:
    size = len(text.encode())
    lines = text.count("\n") + 1
    for each in diagnostics:
        start = each.subject.start
        end = each.subject.end
        assert 0 <= start.byte <= end.byte <= size
        assert 1 <= start.line <= end.line <= lines
        assert start.column >= 1
        assert each.summary
        assert each.detail


def test_every_construct_is_parsed_without_errors_and_spans_nest() -> None:
    body, diagnostics = parse_file(SourceFile("everything.hcl", CONFIGURATION))
    assert diagnostics == []
    assert_nested(body)


EXTRA = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    '"',
    "${",
    "%{",
    "~",
    "=",
    "==",
    ",",
    "\n",
    ".",
    "*",
    "...",
    "=>",
    ":",
]
EXTRA += [
    "?",
    "for",
    "in",
    "if",
    "!",
    "-",
    "<<E\n",
    '"x"',
    "1",
    "::",
    "/*",
    "#",
    "\\",
    "é",
    "@",
    "$",
    "%",
]


def split_into_tokens(text: str) -> Iterator[str]:
    tokens = scan_text(text, with_comments=True)
    at = 0
    for start, end in zip(tokens.starts, tokens.ends, strict=True):
        yield text[at:start] + text[start:end]
        at = end


def mutate_configuration(seed: int) -> str:
    chance = random.Random(seed)
    row = list(split_into_tokens(CONFIGURATION))
    for _ in range(chance.choice([1, 1, 2, 4])):
        one = chance.randrange(len(row))
        other = chance.randrange(len(row))
        match chance.randrange(3):
            case 0:
                del row[one]
            case 1:
                row[one], row[other] = row[other], row[one]
            case _:
                row.insert(one, chance.choice(EXTRA))
    return "".join(row)


@pytest.mark.parametrize("hundred", range(10))
def test_mutated_configuration_never_raises_and_errors_are_inside(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        text = mutate_configuration(seed)
        body, diagnostics = parse_file(SourceFile("mutated.hcl", text))
        assert_inside(text, diagnostics)
        if not diagnostics:
            assert_nested(body)


def test_truncated_file_never_raises() -> None:
    for cut in range(0, len(CONFIGURATION), 7):
        text = CONFIGURATION[:cut]
        _, diagnostics = parse_file(SourceFile("cut.hcl", text))
        assert_inside(text, diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000,
        "a = " + "(" * 5000 + "1" + ")" * 5000,
        "a = " + "-" * 5000 + "1",
        "a = " + "1 + " * 5000 + "1",
        "a = " + "x ? y : " * 3000 + "z",
        "a = " + '"${' * 3000,
        "a = " + '"${' * 3000 + "x" + '}"' * 3000,
        "a = f" + "[x]" * 5000,
        "a = f" + "[*]" * 5000,
        "a = f" + ".*.a[0]" * 5000,
        "a = " + "f(" * 5000,
        "a = " + "{ a = " * 5000,
        "a = " + "[for x in " * 3000,
        'a = "' + "%{ if x }" * 3000 + '"',
        'a = "' + "%{ if x }" * 3000 + "%{ endif }" * 3000 + '"',
        "a {\n" * 5000,
        "a {\n" * 3000 + "}\n" * 3000,
    ],
    ids=lambda text: text[:14],
)
def test_deep_nesting_is_a_diagnostic(text: str) -> None:
    _, diagnostics = parse_file(SourceFile("deep.hcl", text))
    assert "Configuration nested too deeply" in {each.summary for each in diagnostics}
    assert_inside(text, diagnostics)


def test_long_flat_text_is_not_too_deep() -> None:
    many = "".join(f'%{{ if x }}${{a.b[{n}]}}%{{ endif }}"\n' for n in range(300))
    text = "a = [" + ", ".join(f"x[{n}] + 1" for n in range(3000)) + f"]\nb = <<E\n{many}E\n"
    text += "c = x" + "[0].a" * 3000 + "\n"
    assert parse_file(SourceFile("flat.hcl", text))[1] == []


def test_parser_stops_after_many_errors() -> None:
    _, diagnostics = parse_file(SourceFile("nonsense.hcl", "] = (\n" * 20_000))
    assert 10 < len(diagnostics) < 200


def test_file_over_size_limit_is_rejected() -> None:
    body, diagnostics = parse_file(SourceFile("big.hcl", "#" * (MAX_SOURCE_LENGTH + 1)))
    assert body.attributes == ()
    assert [
        (each.summary, each.subject.start.line, each.subject.start.column) for each in diagnostics
    ] == [("File too large", 1, 1)]
    assert diagnostics[0].subject.end == diagnostics[0].subject.start
    assert "Split it" in diagnostics[0].detail


def test_several_errors_of_one_file_are_all_reported() -> None:
    text = "a = [1 2]\nb {\n  c = 1 d = 2\n  e\n}\nf = +\n"
    _, diagnostics = parse_file(SourceFile("several.hcl", text))
    assert [(each.summary, each.subject.start.line) for each in diagnostics] == [
        ("Missing item separator", 1),
        ("Missing newline after argument", 3),
        ("Argument or block definition required", 4),
        ("Invalid expression", 6),
    ]
    assert [each.block for each in diagnostics] == ["", "b", "b", ""]


def test_text_after_an_error_is_still_parsed() -> None:
    body, diagnostics = parse_file(
        SourceFile("x.hcl", 'a = (1\nb {\n  c = ]\n  d = 4\n}\n"e" = 1\nf = 6\n')
    )
    assert len(diagnostics) >= 2
    assert "f" in {each.name for each in body.attributes}


def test_expression_inside_file_has_positions_of_file() -> None:
    expression, _ = parse_expression(SourceFile("v.hcl", "var.a +\n  b"), Position(4, 9, 70))
    assert expression.left.span == Span("v.hcl", Position(4, 9, 70), Position(4, 14, 75))
    assert expression.right.span == Span("v.hcl", Position(5, 3, 80), Position(5, 4, 81))


def test_columns_count_characters_and_bytes_count_storage() -> None:
    text = 'a = ["e\u0301", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "각", "\u1112\u1161\u11ab"] b'
    _, (problem,) = parse_file(SourceFile("x.hcl", text))
    assert problem.subject.start == Position(1, 32, len(text.encode()) - 1)


def test_byte_order_mark_has_three_bytes_and_no_column() -> None:
    body, diagnostics = parse_file(SourceFile("x.hcl", "\ufeffa = 1\n"))
    assert diagnostics == []
    assert body.attributes[0].name_span.start == Position(1, 1, 3)


def test_numbers_are_exact() -> None:
    expression, _ = parse_expression(
        SourceFile("x", "[0.1, 1e3, 123456789012345678901234567890, 1.50]")
    )
    values = [item.value for item in expression.items]
    assert values == [
        Decimal("0.1"),
        Decimal("1e3"),
        123456789012345678901234567890,
        Decimal("1.5"),
    ]
    assert type(values[2]) is int


@pytest.mark.parametrize("number", ["9" * 5000, "1e99999", "1.2.3"])
def test_number_out_of_bounds_is_a_diagnostic(number: str) -> None:
    expression, diagnostics = parse_expression(SourceFile("x", number))
    assert expression is None
    assert [each.summary for each in diagnostics] == ["Invalid number literal"]


def test_strings_are_normalized_to_nfc() -> None:
    expression, _ = parse_expression(SourceFile("x", '"e\u0301"'))
    assert expression == syntax.StringLiteral("\u00e9", expression.span)


EVERYTHING = (Path(__file__).parent / "cases" / "everything.hcl").read_text("utf-8")
NUMBERS = "a = [123456789012345678901234567890, 1.50, 0.1, 9007199254740993, -1]\nb {\n}\n"


@pytest.mark.parametrize("text", ["", EVERYTHING, NUMBERS, "\ufeffa = 1\r\n"])
def test_native_tree_survives_serialization(text: str) -> None:
    body, _ = parse_file(SourceFile("a.nf.hcl", text))
    back = decode(encode(body))
    assert back == body
    # 1.50 stays 1.50, and an int stays an int.
    assert repr(back) == repr(body)


def test_json_tree_survives_serialization() -> None:
    body, _ = parse_json_file(
        SourceFile("a.nf.json", '{"a": [1, 2.50, null, "é ${b}"], "c": {"d": {}}}')
    )
    assert decode(encode(body)) == body


def test_same_text_has_same_bytes() -> None:
    first, second = (parse_file(SourceFile("a.nf.hcl", EVERYTHING))[0] for _ in range(2))
    assert encode(first) == encode(second)


def test_damaged_bytes_or_other_version_are_no_tree() -> None:
    data = encode(parse_file(SourceFile("a.nf.hcl", NUMBERS))[0])
    assert decode(data.replace(b"nexusform-tree-2", b"nexusform-tree-1", 1)) is None
    for damaged in (
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        data[:-2],
        data + b"x",
        msgspec.json.encode(["nexusform-tree-2.1", 1]),
    ):
        assert decode(damaged) is None


@given(st.data())
def test_modified_bytes_give_a_tree_or_none(data: st.DataObject) -> None:
    kept = encode(parse_file(SourceFile("a.nf.hcl", NUMBERS))[0])
    at = data.draw(st.integers(0, len(kept) - 1))
    changed = (
        kept[:at] + data.draw(st.binary(max_size=3)) + kept[at + data.draw(st.integers(0, 3)) :]
    )
    assert decode(changed) is None or isinstance(decode(changed), Body)
