"""Tests of counts and lists in sentences."""

from __future__ import annotations

import pytest

from nexusform.diagnostics import phrases


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1024, "1,024 entries")]
)
def test_count_selects_the_form_of_its_noun(count: int, text: str) -> None:
    assert phrases.format_count(count, "entry", "entries") == text


def test_default_plural_ends_in_s() -> None:
    assert [phrases.format_count(1, "VM"), phrases.format_count(2, "VM")] == ["1 VM", "2 VMs"]
    assert [phrases.select_word_form(count, "has", "have") for count in (1, 2)] == ["has", "have"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("", ""),
        ("a", "a"),
        ("ab", "a and b"),
        ("abc", "a, b and c"),
        ("abcd", "a, b, c and 1 more"),
    ],
)
def test_names_are_listed_up_to_a_maximum(names: str, text: str) -> None:
    assert phrases.format_list(names, max_items=3) == text


def test_first_items_are_listed_and_the_rest_counted() -> None:
    assert phrases.format_first_items(["a", "b", "c"], 3, "; ") == "a; b; c"
    assert phrases.format_first_items(["a", "b", "c"], 2, "; ") == "a; b and 1 more"


def test_consecutive_numbers_are_one_range() -> None:
    assert phrases.group_ranges([]) == []
    assert phrases.group_ranges([1, 2, 3, 5, 7, 8]) == [(1, 3), (5, 5), (7, 8)]
