from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nexusform.rendering.report.difference_tree import pair_elements

items = st.lists(st.sampled_from(["a", "b", "c", {"k": 1}, {"k": 2}]), max_size=12)


@given(items, items)
def test_every_element_is_paired_once_in_order(before: list[object], after: list[object]) -> None:
    pairs = pair_elements(before, after)
    assert [i for i, _ in pairs if i is not None] == list(range(len(before)))
    assert [j for _, j in pairs if j is not None] == list(range(len(after)))


@given(items, items)
def test_text_pairs_only_with_itself(before: list[object], after: list[object]) -> None:
    for i, j in pair_elements(before, after):
        if i is not None and j is not None and isinstance(before[i], str):
            assert before[i] == after[j]


def test_inserted_element_does_not_affect_its_neighbours() -> None:
    assert pair_elements(["a", "b", "c"], ["a", "x", "b", "c"]) == [
        (0, 0),
        (None, 1),
        (1, 2),
        (2, 3),
    ]


def test_objects_between_equal_ones_change_in_place() -> None:
    assert pair_elements([{"k": 1}, "x"], [{"k": 2}, "x"]) == [(0, 0), (1, 1)]


def test_long_lists_keep_equal_elements() -> None:
    before = [f"i{k}" for k in range(1200)]
    after = ["new", *before[:600], *before[601:], "last"]
    pairs = pair_elements(before[::-1] + before, after[::-1] + after)
    kept = sum(1 for i, j in pairs if i is not None and j is not None)
    assert kept == 2 * 1199
