"""Tests of evaluation errors and evaluation limits."""

from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Position,
    Severity,
    SourceFile,
    Span,
    build_error,
    build_warning,
)
from nexusform.json_data.plain_data import convert_to_plain, convert_to_value
from nexusform.language import evaluation_run
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Expression, Literal, Parentheses, Traversal
from nexusform.schemas.value_types import BOOL, DYNAMIC, NUMBER, STRING, ListType
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    SENSITIVE,
    UNKNOWN,
    Value,
    build_null,
    build_object,
    build_string,
    build_unknown,
)
from tests.language.function_families import list_function_families

SPAN = Span("main.nf.hcl", Position(1, 1, 0), Position(1, 2, 1))

_VAR = build_object(
    {
        "name": build_string("web"),
        "secret": build_string("hunter2").add_marks(SENSITIVE),
        "zones": convert_to_value(["1", "2"], ListType(STRING)),
        "none": build_null(STRING),
        "later": build_unknown(STRING),
        "open": build_unknown(),
        "flag": build_unknown(BOOL),
        "rack": convert_to_value({"slot": 1, "machine": "r1-bm01"}, DYNAMIC),
    }
)


class FakeScope:
    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        if traversal.root.name != "var":
            problem = build_error(
                "invalid-reference", "", traversal.span, headline="Reference to undeclared name"
            )
            return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]
        if not traversal.steps:
            return _VAR, 0, []
        return _VAR.raw[traversal.steps[0].name], 1, []  # type: ignore[union-attr]


class WarningScope(FakeScope):
    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return (*super().lookup(traversal)[:2], [build_warning("advice", "", traversal.span)])


def test_a_warning_in_a_key_or_condition_leaves_the_value_known() -> None:
    for text in ("{for zone in var.zones : var.name => zone...}", 'var.open ? "a" : "b"'):
        expression, _ = parse_expression(SourceFile("main.nf.hcl", text))
        assert expression is not None
        value, problems = evaluate_expression(expression, WarningScope())
        assert {problem.severity for problem in problems} == {Severity.WARNING}
        assert list(value.raw) == ["web"] if "for" in text else value.type is STRING


def evaluate_text(text: str) -> tuple[Value, list[Diagnostic]]:
    expression, problems = parse_expression(SourceFile("main.nf.hcl", text))
    assert expression is not None, problems
    return evaluate_expression(expression, FakeScope())


def evaluate_to_problem(text: str) -> Diagnostic:
    _, problems = evaluate_text(text)
    assert len(problems) == 1, problems
    return problems[0]


def get_subject_text(text: str, found: Diagnostic) -> str:
    assert found.subject is not None
    return text.encode()[found.subject.start.byte : found.subject.end.byte].decode()


@pytest.mark.parametrize(
    ("text", "summary", "part", "detail"),
    [
        ("var.rack.solt", "Unsupported attribute", ".solt", 'Did you mean "slot"?'),
        ("var.rack.weight", "Unsupported attribute", ".weight", '"machine", "slot"'),
        ("var.none.x", "Attempt to get attribute from null value", ".x", "This value is null"),
        ("var.name.x", "Unsupported attribute", ".x", "primitive-typed value (string)"),
        ("var.zones[2]", "Invalid index", "[2]", "2 elements (the indices are 0 to 1)"),
        ("[][0]", "Invalid index", "[0]", "the collection has no elements"),
        ('var.zones["a"]', "Invalid index", '["a"]', "a number is required"),
        ("[1][0.5]", "Invalid index", "[0.5]", "whole number"),
        ("[1][1 - 2]", "Invalid index", "1 - 2", "negative"),
        ('var.rack["solt"]', "Invalid index", '["solt"]', 'Did you mean "slot"?'),
        ("toset([1])[0]", "Invalid index", "[0]", "identified only by their value"),
        ("null[0]", "Attempt to index null value", "[0]", "null"),
        ("1 + var.name", "Invalid operand", "var.name", "right operand: a number is required"),
        ("-var.name", "Invalid operand", "var.name", "unary operand: a number is required"),
        ("1 + null", "Operation failed", "1 + null", "argument must not be null"),
        ("1 / 0", "Division by zero", "1 / 0", "division by zero"),
        ('"x" ? 1 : 2', "Incorrect condition type", '"x"', "bool"),
        ("null ? 1 : 2", "Null condition", "null", "true or false"),
        (
            "true ? 1 : []",
            "Inconsistent conditional result types",
            "true ? 1 : []",
            "number, but the 'false' value is tuple",
        ),
        ('"a${var.none}"', "Invalid template interpolation value", "var.none", "null"),
        ('"a${[]}"', "Invalid template interpolation value", "[]", "string required"),
        ("[for x in 5: x]", "Iteration over non-iterable value", "5", "A value of type number"),
        ("[for x in null: x]", "Iteration over null value", "null", "null value"),
        ("[for x in [1]: x if null]", "Condition is null", "null", "must not be null"),
        ("{for x in [1, 1]: x => x}", "Duplicate object key", "x", 'produced the key "1"'),
        ("{for x in [1]: null => x}", "Invalid object key", "null", "null value"),
        ("{(null) = 1}", "Null value as key", "(null)", "null value"),
        ("{([]) = 1}", "Incorrect key type", "([])", "string required"),
        ("uper(1)", "Call to unknown function", "uper", 'Did you mean "upper"?'),
        ("upper()", "Not enough function arguments", "upper()", 'Missing value for "str"'),
        ("upper(1, 2)", "Too many function arguments", "2", "expects only 1 argument"),
        ("upper([])", "Invalid function argument", "[]", '"str" parameter: string required'),
        ("upper(null)", "Invalid function argument", "null", "must not be null"),
        ('join(",", [1, []])', "Invalid function argument", "[1, []]", "[1]: string required"),
        ("max(null...)", "Invalid expanding argument value", "null", "must not be null"),
        ("max(1...)", "Invalid expanding argument value", "1", "tuple, list, or set"),
        (
            'convert("1", number...)',
            "Invalid expanding argument value",
            "number",
            "A type cannot be an expanding",
        ),
        (
            'slice(var.flag ? [1, "b"] : [3, "c"], 0.5, 1)',
            "Invalid function argument",
            "0.5",
            "must be a whole number",
        ),
        (
            'slice(var.flag ? [1, "b"] : [3, "c"], 0, -1)',
            "Invalid function argument",
            "-1",
            "must be a whole number",
        ),
        (
            'slice(var.flag ? [1, "b"] : [3, "c"], 0, 7)',
            "Invalid function argument",
            "7",
            "length of the list",
        ),
        ("tolist(null)[*].a", "Splat of null value", "tolist(null)", "null sequences"),
        ("nowhere.x", "Reference to undeclared name", "nowhere.x", ""),
    ],
)
def test_error_is_reported_at_its_position(text: str, summary: str, part: str, detail: str) -> None:
    found = evaluate_to_problem(text)
    assert found.summary == summary
    assert get_subject_text(text, found) == part
    assert detail in found.detail


def test_values_of_referenced_names_are_noted() -> None:
    found = evaluate_to_problem(
        "var.rack.slot + length(var.zones) + (var.later == null ? 1 : 2) + var.name"
    )
    assert [(n.traversal, n.statement) for n in found.values] == [
        ("var.rack.slot", "is 1"),
        ("var.zones", "is list of string with 2 elements"),
        ("var.later", "is a string, known only after apply"),
        ("var.name", 'is "web"'),
    ]


def test_last_existing_part_of_invalid_reference_is_noted() -> None:
    found = evaluate_to_problem("var.rack.solt.x")
    assert [(n.traversal, n.statement) for n in found.values] == [
        ("var.rack", "is object with 2 attributes")
    ]


def test_loop_ends_at_its_first_error() -> None:
    found = evaluate_to_problem("[for zone in var.zones: zone + var.name]")
    assert ("zone", 'is "1"') in [(n.traversal, n.statement) for n in found.values]
    assert evaluate_to_problem("{for zone in var.zones: zone => null.x}").summary.startswith(
        "Attempt to get attribute"
    )


def test_sensitive_values_are_not_shown() -> None:
    found = evaluate_to_problem("var.secret + 1")
    assert [(n.traversal, n.statement) for n in found.values] == [
        ("var.secret", "has a sensitive value")
    ]
    for text in (
        "var.secret + 1",
        "var.rack[var.secret]",
        "tonumber(var.secret)",
        "base64decode(var.secret)",
        "parseint(var.secret, 10)",
        "cidrhost(var.secret, 1)",
        'formatdate("YYYY", var.secret)',
        'regex("(${var.secret}", "a")',
        'csvdecode("${var.secret},${var.secret}")',
        "{(var.secret) = 1}.other",
        "{for x in [1, 2]: var.secret => x}",
    ):
        _, problems = evaluate_text(text)
        assert problems
        assert "hunter2" not in repr([(p.summary, p.detail, p.values) for p in problems])


def test_context_expression_and_function_are_named() -> None:
    text = "1 + upper([])"
    found = evaluate_to_problem(text)
    assert found.function == "upper(str)"
    assert found.context is not None
    assert text[found.context.start.byte : found.context.end.byte] == "upper([])"


def test_all_errors_are_reported_at_once() -> None:
    _, problems = evaluate_text("[nowhere, var.rack.x, 1 + null]")
    assert [p.summary for p in problems] == [
        "Reference to undeclared name",
        "Unsupported attribute",
        "Operation failed",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("var.none == null || var.none.x", True),
        ("true || nowhere", True),
        ("nowhere || true", True),
        ("false && nowhere", False),
        ("true ? 1 : nowhere", 1),
        ('try(nowhere, "x")', "x"),
        ("can(nowhere)", False),
        ('try(["a", "b"]...)', "a"),
        ("try(nowhere, [7]...)", 7),
        ("can([1]...)", True),
    ],
)
def test_irrelevant_parts_cause_no_error(text: str, wanted: object) -> None:
    value, problems = evaluate_text(text)
    assert problems == []
    assert convert_to_plain(value)[0] == wanted


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("var.flag || nowhere", BOOL),
        ('"a${var.later}"', STRING),
        ("length(var.later)", NUMBER),
        ("var.flag ? 1 : 2", NUMBER),
        ("var.open.a[0]", DYNAMIC),
        ("[for x in var.open: x]", DYNAMIC),
        ("var.zones[var.open]", STRING),
        ("upper(var.open)", STRING),
        ("-var.open", NUMBER),
        ("var.later == 1 ? 1 : 2", NUMBER),
    ],
)
def test_unknown_values_keep_their_type(text: str, of: object) -> None:
    value, problems = evaluate_text(text)
    assert problems == []
    if text != "var.later == 1 ? 1 : 2":
        assert value.raw is UNKNOWN
    assert value.type == of


@pytest.mark.parametrize(
    "text",
    [
        '"${var.secret}!"',
        "[var.secret][0]",
        "var.secret == 1 ? 1 : 2",
        "upper(var.secret)",
        "[for x in [1]: x if var.secret != 2]",
        "{(var.secret) = 1}",
        'var.secret == "x"',
        "{a = var.secret}.a",
        "length(var.secret)",
    ],
)
def test_values_derived_from_sensitive_values_are_sensitive(text: str) -> None:
    value, problems = evaluate_text(text)
    assert problems == []
    assert value.is_sensitive


def test_elements_keep_their_own_marks() -> None:
    value, _ = evaluate_text("{a = var.secret, b = 1}")
    assert convert_to_plain(value)[1] == (("a",),)
    value, _ = evaluate_text("concat([var.secret], [1])")
    assert convert_to_plain(value)[1] == ((0,),)
    value, _ = evaluate_text("merge({a = var.secret}, {b = 1})")
    assert convert_to_plain(value)[1] == (("a",),)
    value, _ = evaluate_text("keys({a = var.secret})")
    assert convert_to_plain(value) == (["a"], ())


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("try([nowhere]...)", "Reference to undeclared name"),
        ('try(1, "x"...)', "Invalid expanding argument value"),
        ("can(null...)", "Invalid expanding argument value"),
        ("can([1, 2]...)", "Too many function arguments"),
        ("can([]...)", "Not enough function arguments"),
        ("try([]...)", "Error in function call"),
    ],
)
def test_expanded_argument_is_evaluated_before_try(text: str, summary: str) -> None:
    assert evaluate_to_problem(text).summary == summary


def test_nested_loops_over_limit_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_run, "MAX_WORK", 5_000)
    text = "[for a in range(100): [for b in range(100): [for c in range(100): a]]]"
    assert evaluate_to_problem(text).summary == "Expression too large"
    assert evaluate_to_problem(f'try({text}, "caught")').summary == "Expression too large"


def test_growing_text_over_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_run, "MAX_WORK", 1_000)
    doubled = '"x"'
    for _ in range(20):
        doubled = f'join("", [for i in [1, 2]: {doubled}])'
    assert evaluate_to_problem(doubled).summary == "Expression too large"
    monkeypatch.setattr(evaluation_run, "MAX_WORK", 100_000)
    assert (
        "characters"
        in evaluate_to_problem('replace(format("%50000s", ""), "", format("%50000s", ""))').detail
    )


def test_nesting_over_limit_is_reported() -> None:
    innermost = Literal(1, SPAN)
    expression: Expression = innermost
    for _ in range(5_000):
        expression = Parentheses(expression, SPAN)
    value, problems = evaluate_expression(expression, FakeScope())
    assert value == DYNAMIC_UNKNOWN
    assert [p.summary for p in problems] == ["Expression too deeply nested"]


def test_loop_names_in_template_are_not_looked_up_outside() -> None:
    found = evaluate_to_problem('"%{ for var in var.name }${var}%{ endfor }"')
    assert [n.traversal for n in found.values] == ["var.name"]


@pytest.mark.parametrize(
    "text", ['format("%{}d", 1)', 'format("%.{}f", 1)', 'format("%[{}]d", 1)', "var.zones.{}"]
)
def test_very_long_number_is_an_error(text: str) -> None:
    expression, problems = parse_expression(SourceFile("main.nf.hcl", text.format("9" * 5000)))
    if expression is not None:
        _, problems = evaluate_expression(expression, FakeScope())
    assert problems
