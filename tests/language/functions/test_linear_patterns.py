from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.language.functions import linear_patterns
from nexusform.language.functions.linear_patterns import Danger, Pattern, TooSlow
from nexusform.language.functions.re2 import compile_re2

NEVER = Danger(endless=True)

# Patterns whose loops always take a character: where they need not, engines differ in what a group holds.
SOLID = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", "."]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "+?", "{1,2}", "{2}", "{1,}?"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
        st.tuples(inner, inner).map("|".join).map("(?:{})".format),
        st.tuples(inner, inner).map("".join),
        inner.map("({})".format),
    ),
    max_leaves=6,
)
PATTERNS = st.one_of(
    SOLID,
    st.tuples(SOLID, st.sampled_from(["*", "?", "*?", "??", "{0,2}"]), SOLID).map(
        lambda p: f"(?:{p[0]}){p[1]}{p[2]}"
    ),
    SOLID.map("^(?:{})$".format),
    SOLID.map("(?i:{})".format),
    SOLID.map("\\b(?:{})".format),
)


def linear(pattern: str) -> Pattern:
    found = compile_re2.__wrapped__(pattern)
    assert isinstance(found, Pattern)
    found.danger = NEVER
    return found


def spans(found: Any, groups: int) -> list[list[Any]]:
    return [[m.start(), m.end(), *(m.group(n) for n in range(groups + 1))] for m in found]


@given(PATTERNS, st.text("abA \n", max_size=12))
def test_it_finds_what_pythons_engine_finds(pattern: str, text: str) -> None:
    mine = linear(pattern)
    python = mine._python
    assert spans(mine.finditer(text), mine.groups) == spans(python.finditer(text), mine.groups)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(a+)+$", "a" * 5000 + "b", None),
        ("(a|a)*b", "a" * 5000, None),
        ("(x*)*y", "x" * 5000 + "y", "x" * 5000 + "y"),
        ("(a|aa)+$", "a" * 5000 + "!", None),
        ("(.*)(.*)(.*)(.*)!", "a" * 3000, None),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 2000, None),
        ("((a{0,20}){0,20}){0,20}b", "a" * 50, None),
        ("(a?){40}a{40}$", "a" * 39 + "!", None),
        ("a?" * 40 + "a" * 40 + "$", "a" * 60 + "!", None),
        ("(a|a)" * 40 + "$", "a" * 60 + "!", None),
    ],
)
def test_patterns_that_would_take_for_ever_do_not(pattern: str, text: str, found: str | None) -> None:
    match = compile_re2(pattern).search(text)
    assert (match.group() if match is not None else None) == found


@pytest.mark.parametrize(
    ("pattern", "length", "fits"),
    [
        ("a+b", 10_000_000, True),
        ("^(\\d+)\\.(\\d+)\\.(\\d+)$", 100, True),
        ("^(\\d+)\\.(\\d+)\\.(\\d+)$", 1000, False),
        ("(?:a|b)c+", 10_000_000, True),
        ("(?:a|b)+", 1, False),
        ("([a-z]+-)*[a-z]+", 1, False),
        ("(a{3})+", 100, True),
        ("(a?)+", 1, False),
    ],
)
def test_what_is_left_to_pythons_engine(pattern: str, length: int, fits: bool) -> None:
    assert compile_re2(pattern).danger.fits(length) == fits


def test_groups_and_names_are_those_of_the_match() -> None:
    match = linear("(?P<key>[a-z]+)=(?P<value>[0-9]+)|(none)").search("x: ab=12")
    assert match is not None
    assert match.groups() == ("ab", "12", None)
    assert (match.group("key"), match.group(2), match.group()) == ("ab", "12", "ab=12")


def test_there_is_an_end_to_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_patterns, "MOST_STEPS", 1000)
    with pytest.raises(TooSlow):
        linear("(a|a)*b").search("a" * 1000)
    monkeypatch.setattr(linear_patterns, "_MOST_INSTRUCTIONS", 100)
    with pytest.raises(TooSlow):
        linear("(a{100})+b").search("a")


def test_everything_that_re2_writes_is_read() -> None:
    pattern = r"(?is)^\Aa.(?P<n>[[:alpha:]\]])(?m:x$)\b\B\d\pL\Qa(b\E|[^\w]{2,3}?(?-i:Z)\z"
    found = compile_re2(pattern)
    assert found.groups == re.compile(found._python.pattern).groups == 1
    assert linear(pattern).search("nothing") is None
