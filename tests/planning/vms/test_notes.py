"""The note of who was placed when and why, as a state that somebody edited may hold it."""

from typing import Any

import pytest

from nexusform.planning.vms.vm_object import left_by, note_left, note_placed, placed_by


@pytest.mark.parametrize(
    "private",
    [
        {"placed": "x"},
        {"placed": {"a": 1}},
        {"placed": [1, "x", None, [1], [1, "new"], ["1", "new", ["a"]], [1, 2, ["a"]], [1, "new", [2]]]},
        ["placed"],
        "placed",
        None,
    ],
)
def test_an_edited_note_says_nothing_and_does_no_harm(private: Any) -> None:
    assert placed_by(private, "a") is None
    assert note_placed(private, [("a", "new")], ["a"], 3) == {"placed": [[3, "new", ["a"]]]}


def test_what_is_right_in_it_is_read() -> None:
    assert placed_by({"placed": [[1], [2, "new", ["a", "b"]]]}, "b") == ("new", 2)


def test_the_machine_that_a_vm_had_to_leave_is_remembered_until_it_comes_elsewhere() -> None:
    first = note_left(None, {"a": "bm1", "b": "bm1"}, {"a", "b"}, ["a", "b"])
    assert (left_by(first, "a"), left_by(first, "c")) == ("bm1", "")
    second = note_left({**(first or {}), "placed": []}, {}, {"a"}, ["a", "b"])
    assert second == {"left": {"b": "bm1"}, "placed": []}
    assert note_left(second, {}, set(), ["a"]) == {"placed": []}
    assert note_left({"left": {"a": 7}}, {}, set(), ["a"]) is None
    assert left_by({"left": [1]}, "a") == ""
