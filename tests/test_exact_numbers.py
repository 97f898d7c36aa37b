"""Numbers as text and in arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.exact_numbers import (
    PRECISION,
    divide,
    normalised,
    number_from_decimal,
    number_text,
    parse_number,
    remainder,
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
def test_a_decimal_reads_back_as_written(text: str) -> None:
    found = parse_number(text)
    assert found is not None
    assert number_text(found) == text


@pytest.mark.parametrize(
    "text", ["", "x", " 1", "1 ", "0x10", "1_000", "--1", "1e", ".", "inf", "nan", "\u0661"]
)
def test_what_is_no_decimal_is_no_number(text: str) -> None:
    assert parse_number(text) is None


def test_fractions_have_512_bits() -> None:
    third = "0." + "3" * 154 + "5"
    assert number_text(divide(1, 3)) == third
    assert number_text(remainder(11, number_from_decimal("5.1"))) == "0.8" + "0" * 152 + "24"
    assert normalised(number_from_decimal("0.1") + number_from_decimal("0.2")) == number_from_decimal("0.3")


def test_the_remainder_has_the_sign_of_what_is_divided() -> None:
    assert remainder(-7, 3) == -1
    assert remainder(7, -3) == 1
    with pytest.raises(ZeroDivisionError):
        remainder(1, 0)


def test_whole_numbers_beyond_the_precision_are_rounded() -> None:
    big = normalised(10**200 + 1)
    assert number_text(big) == "1" + "0" * 200


@given(st.integers(1, 10**40), st.integers(1, 10**40))
def test_rounding_is_to_the_nearest(numerator: int, denominator: int) -> None:
    rounded = Fraction(round_number(numerator, denominator))
    exact = Fraction(numerator, denominator)
    assert abs(rounded - exact) <= exact / 2**PRECISION
    assert rounded.denominator & (rounded.denominator - 1) == 0


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=12))
def test_the_shortest_text_names_the_same_number(given_decimal: object) -> None:
    found = parse_number(format(given_decimal, "f"))
    assert found is not None
    assert parse_number(number_text(found)) == found
