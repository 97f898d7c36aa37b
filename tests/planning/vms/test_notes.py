"""The note of who was placed when and why, as a state that somebody edited may hold it."""

from typing import Any

import pytest

from nexusform.planning.vms.vm_object import note_placed, placed_by


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
