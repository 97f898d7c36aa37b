from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_string
from tests.language.function_families import list_function_families


class _TextScope:
    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return build_string(self.texts[traversal.root.name]), 0, []


def _evaluate_call(call: str, **texts: str) -> tuple[Value, list[Diagnostic]]:
    expression, _ = parse_expression(SourceFile("test", call))
    assert expression is not None
    return evaluate_expression(expression, _TextScope(**texts))


@pytest.mark.parametrize(
    ("pattern", "text", "first"),
    [
        ("(?:a+)+$", "a" * 50_000 + "b", None),
        ("(?:x*)*y", "x" * 50_000 + "y", "x" * 50_000 + "y"),
        ("(?:a|aa)+$", "a" * 50_000 + "!", None),
        ("(?:a?){40}a{40}$", "a" * 39 + "!", None),
        ("\\pL{1000}", "é" * 1000, "é" * 1000),
    ],
)
def test_every_pattern_terminates_quickly(pattern: str, text: str, first: str | None) -> None:
    value, problems = _evaluate_call("regex(pattern, text)", pattern=pattern, text=text)
    assert has_errors(problems) == (first is None)
    assert value == (DYNAMIC_UNKNOWN if first is None else build_string(first))


@pytest.mark.parametrize(
    ("pattern", "mistake"),
    [
        ("(a", "missing closing ): `(a`"),
        ("é)", "unexpected ): `é)`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("((a{0,20}){0,20}){0,20}b", "invalid repeat count: `{0,20}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("\\p{Foo}", "invalid character class range: `\\p{Foo}`"),
        ("a\\", "trailing backslash at end of expression"),
        ("\\1", "invalid escape sequence: `\\1`"),
        ("\\C", "invalid escape sequence: `\\C`"),
        ("(?=a)b", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<a-b>x)", "invalid named capture: `(?P<a-b>`"),
        ("(?P<é>x)", "invalid named capture: `(?P<é>`"),
        ("(?P<a>x)(y)", "cannot mix both named and unnamed capture groups"),
    ],
)
def test_pattern_errors_have_terraform_wording(pattern: str, mistake: str) -> None:
    _, (problem,) = _evaluate_call('regex(pattern, "xy")', pattern=pattern)
    assert (
        problem.detail
        == f'Invalid value for "pattern" parameter: invalid regexp pattern: {mistake}.'
    )


def test_pattern_error_of_replace_is_reported_at_its_argument(
    capfd: pytest.CaptureFixture[str],
) -> None:
    _, (problem,) = _evaluate_call('replace("a", pattern, "b")', pattern="/(a/")
    assert problem.detail.startswith(
        'Invalid value for "substr" parameter: invalid regexp pattern: missing'
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "pattern", ["\\\\C", "[(?P<é>]", "\\Q\\C(?P<é>(\\E", "[^]\\](]", "[[:^alpha:](]", "\\("]
)
def test_group_lookalike_is_no_group(pattern: str) -> None:
    value, problems = _evaluate_call("regexall(pattern, text)", pattern=pattern, text="\\C(?P<é>(-")
    assert not problems
    assert all(isinstance(match.raw, str) for match in value.raw)
    assert value.raw
