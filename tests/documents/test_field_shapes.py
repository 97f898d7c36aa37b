"""Tests of reading external data: values of other types are ignored."""

import pytest

from nexusform.documents.field_validation import (
    FieldKind,
    FieldShape,
    SchemaViolation,
    validate_value,
)
from nexusform.json_data.plain_data import (
    get_list,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
    list_texts,
)

DATA = {
    "spec": {"name": "web", "ports": [{"port": 80}, "x", 3, {"port": 443}], "count": 2},
    "items": "none",
}


def test_path_is_followed_through_mappings() -> None:
    assert get_value_at_path(DATA, "spec", "count") == 2
    assert get_value_at_path(DATA) is DATA
    assert get_value_at_path(DATA, "items", "spec") is None
    assert get_value_at_path(None, "spec") is None


def test_value_of_other_type_counts_as_absent() -> None:
    assert get_mapping(DATA, "spec", "ports") == {}
    assert get_list(DATA, "spec") == []
    assert get_text(DATA, "spec", "count") == ""
    assert get_text(DATA, "spec", "name") == "web"


def test_list_items_of_other_type_are_ignored() -> None:
    assert list_mappings(DATA, "spec", "ports") == [{"port": 80}, {"port": 443}]
    assert list_texts(DATA, "spec", "ports") == ["x"]
    assert list_mappings(DATA, "items") == []


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        ({}, {FieldKind.OBJECT, FieldKind.TEXTS}),
        ([], {FieldKind.LIST}),
        ("1", {FieldKind.TEXT, FieldKind.AMOUNT, FieldKind.QUANTITY}),
        (1, {FieldKind.WHOLE, FieldKind.NUMBER, FieldKind.AMOUNT, FieldKind.QUANTITY}),
        (1.5, {FieldKind.NUMBER, FieldKind.QUANTITY}),
        (True, {FieldKind.FLAG}),
        (None, set()),
    ],
)
def test_value_is_valid_for_its_kinds(data: object, fits: set[FieldKind]) -> None:
    assert {holds for holds in FieldKind if holds.is_valid(data)} == fits | {FieldKind.ANY}


def _check_even(value: object) -> str:
    return "" if value in (0, 2) else "it must be even"


@pytest.mark.parametrize(
    ("data", "shape", "detail"),
    [
        ("2", FieldShape(FieldKind.WHOLE), "must be a whole number; write 2, without quotes."),
        ("two", FieldShape(FieldKind.WHOLE), 'must be a whole number, not "two".'),
        (2.5, FieldShape(FieldKind.WHOLE), "must be a whole number."),
        (True, FieldShape(FieldKind.NUMBER), "must be a number."),
        ("true", FieldShape(FieldKind.FLAG), "must be true or false; write true, without quotes."),
        (None, FieldShape(FieldKind.TEXT), "must be a text; write quotes."),
        (False, FieldShape(FieldKind.TEXT), 'must be a text; write "false", with quotes.'),
        ([], FieldShape(FieldKind.AMOUNT), "must be a whole number or a text."),
        ({}, FieldShape(FieldKind.LIST), "must be a list."),
        (7, FieldShape(FieldKind.WHOLE, minimum=1, maximum=5), "must be 1 to 5, not 7."),
        (
            -1,
            FieldShape(FieldKind.WHOLE, minimum=0, maximum=2**31 - 1),
            "must be 0 or more, not -1.",
        ),
        (
            2**31,
            FieldShape(FieldKind.WHOLE, minimum=0, maximum=2**31 - 1),
            "must be at most 2147483647, not 2147483648.",
        ),
        (
            "",
            FieldShape(FieldKind.TEXT, minimum=1, maximum=3),
            "must have 1 to 3 characters, not 0.",
        ),
        ([1, 2], FieldShape(FieldKind.LIST, maximum=1), "must have at most 1 items, not 2."),
        ("10%", FieldShape(FieldKind.AMOUNT, minimum=20), ""),
        (
            "Prod",
            FieldShape(FieldKind.TEXT, choices=("prod", "test")),
            'is "Prod"; it must be one of prod, test. ',
        ),
        (
            "5",
            FieldShape(FieldKind.AMOUNT, pattern="[0-9]+%"),
            "must match [0-9]+%, or a number, without quotes: 5.",
        ),
        (3, FieldShape(FieldKind.WHOLE, check_form=_check_even), 'is "3": it must be even.'),
        (2, FieldShape(FieldKind.WHOLE, minimum=0, maximum=2, check_form=_check_even), ""),
        (0.5, FieldShape(FieldKind.QUANTITY), ""),
    ],
)
def test_invalid_value_is_described_by_its_shape(
    data: object, shape: FieldShape, detail: str
) -> None:
    fault = validate_value(data, shape)
    assert (detail in fault.detail) if fault is not None else (detail == "")


def test_unquoted_scalar_is_suggested_in_its_original_form() -> None:
    assert validate_value(8, FieldShape(FieldKind.TEXT), "010") == SchemaViolation(
        'must be a text; write "010", with quotes.', "8"
    )
