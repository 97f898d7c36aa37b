from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.functions.registry import list_function_families
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_string


class _Texts:
    functions = {f.name: f for _, family in list_function_families() for f in family}  # noqa: RUF012 - never changed

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        return build_string(self.texts[traversal.root.name]), 0, []


def _evaluated(call: str, **texts: str) -> tuple[Value, list[Diagnostic]]:
    expression, _ = parse_expression(SourceFile("test", call))
    assert expression is not None
    return evaluate_expression(expression, _Texts(**texts))


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
def test_every_pattern_ends_soon(pattern: str, text: str, first: str | None) -> None:
    value, problems = _evaluated("regex(pattern, text)", pattern=pattern, text=text)
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
def test_mistakes_have_the_words_that_people_know(pattern: str, mistake: str) -> None:
    _, (problem,) = _evaluated('regex(pattern, "xy")', pattern=pattern)
    assert problem.detail == f'Invalid value for "pattern" parameter: invalid regexp pattern: {mistake}.'


def test_a_mistake_in_a_pattern_of_replace_is_found_at_its_argument(capfd: pytest.CaptureFixture[str]) -> None:
    _, (problem,) = _evaluated('replace("a", pattern, "b")', pattern="/(a/")
    assert problem.detail.startswith('Invalid value for "substr" parameter: invalid regexp pattern: missing')
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["\\\\C", "[(?P<é>]", "\\Q\\C(?P<é>(\\E", "[^]\\](]", "[[:^alpha:](]", "\\("])
def test_what_only_looks_like_a_group_is_none(pattern: str) -> None:
    value, problems = _evaluated("regexall(pattern, text)", pattern=pattern, text="\\C(?P<é>(-")
    assert not problems
    assert all(isinstance(match.raw, str) for match in value.raw)
    assert value.raw
