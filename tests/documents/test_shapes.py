"""What foreign data hold, and reading that passes over what is of another shape."""

import pytest

from nexusform.documents.shapes import (
    Holds,
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
        ("1", {Holds.TEXT, Holds.AMOUNT}),
        (1, {Holds.WHOLE, Holds.NUMBER, Holds.AMOUNT}),
        (1.5, {Holds.NUMBER}),
        (True, {Holds.FLAG}),
        (None, set()),
    ],
)
def test_a_value_fits_what_holds_it(data: object, fits: set[Holds]) -> None:
    assert {holds for holds in Holds if holds.fits(data)} == fits | {Holds.ANY}
