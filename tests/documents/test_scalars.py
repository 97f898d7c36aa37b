"""Tests of iteration over the scalars of plain data, and of whole numbers as text."""

import pytest

from nexusform.documents.scalars import OMITTED, list_scalars, parse_integer, replace_scalars

DATA = {"a": [1, {"b": None, "c": True}], "d": {}, "e": "x"}


def test_scalars_have_paths_in_the_order_of_the_data() -> None:
    assert list(list_scalars(DATA)) == [
        (("a", 0), 1),
        (("a", 1, "b"), None),
        (("a", 1, "c"), True),
        (("e",), "x"),
    ]
    assert list(list_scalars(7)) == [((), 7)]


def test_omitted_list_item_leaves_null() -> None:
    paths = {("a", 0), ("a", 1, "c")}
    rest = replace_scalars(DATA, lambda path, leaf: OMITTED if path in paths else leaf)
    assert rest == {"a": [None, {"b": None}], "d": {}, "e": "x"}
    assert DATA["a"] == [1, {"b": None, "c": True}]


@pytest.mark.parametrize(
    ("value", "number", "signed_number"),
    [
        ("7", 7, 7),
        (7, 7, 7),
        ("007", 7, 7),
        ("9" * 18, 10**18 - 1, 10**18 - 1),
        ("-7", None, -7),
        ("+7", None, 7),
        *(
            (value, None, None)
            for value in (
                "",
                "9" * 19,
                "9" * 5000,
                "²",
                "٣",
                "7\n",
                " 7",
                "1.0",
                1.0,
                True,
                None,
                [7],
            )
        ),
    ],
)
def test_whole_numbers_have_ascii_digits_only(
    value: object, number: int | None, signed_number: int | None
) -> None:
    assert parse_integer(value) == number
    assert parse_integer(value, signed=True) == signed_number
