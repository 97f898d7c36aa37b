"""Tests of numbers as text and in arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.values.typed_value import (
    PRECISION,
    compute_quotient,
    compute_remainder,
    convert_decimal,
    format_number,
    normalize_number,
    parse_number,
    round_number,
)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "1",
        "-1",
        "0.1",
        "-0.25",
        "1.5",
        "100.5",
        "0.00000025",
        "123456789012345678901234567890.5",
        "9.99",
    ],
)
def test_decimal_round_trips(text: str) -> None:
    found = parse_number(text)
    assert found is not None
    assert format_number(found) == text


@pytest.mark.parametrize(
    "text", ["", "x", " 1", "1 ", "0x10", "1_000", "--1", "1e", ".", "inf", "nan", "\u0661"]
)
def test_invalid_decimal_is_rejected(text: str) -> None:
    assert parse_number(text) is None


def test_fractions_have_512_bits() -> None:
    third = "0." + "3" * 154 + "5"
    assert format_number(compute_quotient(1, 3)) == third
    assert format_number(compute_remainder(11, convert_decimal("5.1"))) == "0.8" + "0" * 152 + "24"
    assert normalize_number(convert_decimal("0.1") + convert_decimal("0.2")) == convert_decimal(
        "0.3"
    )


def test_remainder_has_the_sign_of_the_dividend() -> None:
    assert compute_remainder(-7, 3) == -1
    assert compute_remainder(7, -3) == 1
    with pytest.raises(ZeroDivisionError):
        compute_remainder(1, 0)


def test_integers_beyond_the_precision_are_rounded() -> None:
    big = normalize_number(10**200 + 1)
    assert format_number(big) == "1" + "0" * 200


@given(st.integers(1, 10**40), st.integers(1, 10**40))
def test_rounding_is_to_the_nearest(numerator: int, denominator: int) -> None:
    rounded = Fraction(round_number(numerator, denominator))
    exact = Fraction(numerator, denominator)
    assert abs(rounded - exact) <= exact / 2**PRECISION
    assert rounded.denominator & (rounded.denominator - 1) == 0


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=12
    )
)
def test_formatted_number_is_parsed_to_the_same_number(given_decimal: object) -> None:
    found = parse_number(format(given_decimal, "f"))
    assert found is not None
    assert parse_number(format_number(found)) == found
