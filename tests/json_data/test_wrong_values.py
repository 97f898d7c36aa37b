"""Tests of texts about values of a wrong type."""

from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct, ValidationError, convert

from nexusform.json_data.wrong_values import describe_wrong_value


class Cell(Struct):
    size: Annotated[int, Meta(ge=1)] = 1
    name: str | None = None
    share: Annotated[float, Meta(le=1)] = 0
    cells: list["Cell"] = []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"size": 0}, "size must be a whole number of at least 1"),
        ({"size": 1.5}, "size must be a whole number, not a fraction"),
        ({"size": None}, "size must be a whole number, not null"),
        ({"name": 7}, "name must be a string or null, not a whole number"),
        ({"share": 2}, "share must be a number of at most 1.0"),
        ({"cells": [{"size": "1"}]}, "cells[0].size must be a whole number, not a string"),
        ([], "the value must be an object, not a list"),
    ],
)
def test_text_says_what_the_value_must_be(value: Any, text: str) -> None:
    with pytest.raises(ValidationError) as raised:
        convert(value, Cell)
    assert describe_wrong_value(raised.value) == text


def test_other_problems_keep_their_text() -> None:
    assert describe_wrong_value(ValueError("Expected `int` - at `$.x`")) == (
        "Expected `int` - at `$.x`"
    )
