"""What foreign data hold, and reading that passes over what is of another shape."""

import pytest

from nexusform.documents.shapes import (
    Fault,
    Holds,
    Shape,
    fault_of,
    list_at,
    mapping_at,
    mappings_at,
    text_at,
    texts_at,
    value_at,
)

DATA = {"spec": {"name": "web", "ports": [{"port": 80}, "x", 3, {"port": 443}], "count": 2}, "items": "none"}


def test_a_path_leads_as_far_as_there_are_mappings() -> None:
    assert value_at(DATA, "spec", "count") == 2
    assert value_at(DATA) is DATA
    assert value_at(DATA, "items", "spec") is None
    assert value_at(None, "spec") is None


def test_what_is_of_another_shape_counts_as_absent() -> None:
    assert mapping_at(DATA, "spec", "ports") == {}
    assert list_at(DATA, "spec") == []
    assert text_at(DATA, "spec", "count") == ""
    assert text_at(DATA, "spec", "name") == "web"


def test_of_a_list_only_the_items_of_the_shape_are_read() -> None:
    assert mappings_at(DATA, "spec", "ports") == [{"port": 80}, {"port": 443}]
    assert texts_at(DATA, "spec", "ports") == ["x"]
    assert mappings_at(DATA, "items") == []


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        ({}, {Holds.OBJECT, Holds.TEXTS}),
        ([], {Holds.LIST}),
        ("1", {Holds.TEXT, Holds.AMOUNT, Holds.QUANTITY}),
        (1, {Holds.WHOLE, Holds.NUMBER, Holds.AMOUNT, Holds.QUANTITY}),
        (1.5, {Holds.NUMBER, Holds.QUANTITY}),
        (True, {Holds.FLAG}),
        (None, set()),
    ],
)
def test_a_value_fits_what_holds_it(data: object, fits: set[Holds]) -> None:
    assert {holds for holds in Holds if holds.fits(data)} == fits | {Holds.ANY}


def _even(value: object) -> str:
    return "" if value in (0, 2) else "it must be even"


@pytest.mark.parametrize(
    ("data", "shape", "detail"),
    [
        ("2", Shape(Holds.WHOLE), "must be a whole number; write 2, without quotes."),
        ("two", Shape(Holds.WHOLE), 'must be a whole number, not "two".'),
        (2.5, Shape(Holds.WHOLE), "must be a whole number."),
        (True, Shape(Holds.NUMBER), "must be a number."),
        ("true", Shape(Holds.FLAG), "must be true or false; write true, without quotes."),
        (None, Shape(Holds.TEXT), "must be a text; write quotes."),
        (False, Shape(Holds.TEXT), 'must be a text; write "false", with quotes.'),
        ([], Shape(Holds.AMOUNT), "must be a whole number or a text."),
        ({}, Shape(Holds.LIST), "must be a list."),
        (7, Shape(Holds.WHOLE, least=1, most=5), "must be 1 to 5, not 7."),
        (-1, Shape(Holds.WHOLE, least=0, most=2**31 - 1), "must be 0 or more, not -1."),
        (2**31, Shape(Holds.WHOLE, least=0, most=2**31 - 1), "must be at most 2147483647, not 2147483648."),
        ("", Shape(Holds.TEXT, least=1, most=3), "must have 1 to 3 characters, not 0."),
        ([1, 2], Shape(Holds.LIST, most=1), "must have at most 1 items, not 2."),
        ("10%", Shape(Holds.AMOUNT, least=20), ""),
        ("Prod", Shape(Holds.TEXT, choices=("prod", "test")), 'is "Prod"; it must be one of prod, test. '),
        ("5", Shape(Holds.AMOUNT, pattern="[0-9]+%"), "must match [0-9]+%, or a number, without quotes: 5."),
        (3, Shape(Holds.WHOLE, form=_even), 'is "3": it must be even.'),
        (2, Shape(Holds.WHOLE, least=0, most=2, form=_even), ""),
        (0.5, Shape(Holds.QUANTITY), ""),
    ],
)
def test_what_is_wrong_with_a_value_is_told_by_its_shape(data: object, shape: Shape, detail: str) -> None:
    fault = fault_of(data, shape)
    assert (detail in fault.detail) if fault is not None else (detail == "")


def test_a_scalar_without_quotes_stands_for_the_text_that_it_is_written_as() -> None:
    assert fault_of(8, Shape(Holds.TEXT), "010") == Fault('must be a text; write "010", with quotes.', "8")
