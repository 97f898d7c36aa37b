"""Tests of Kubernetes quantities: parsing, comparison and canonical form."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.kubernetes.quantity import (
    InvalidQuantity,
    Quantity,
    QuantityFormat,
    build_quantity,
    parse_quantity,
)


def parse_valid_quantity(text: str) -> Quantity:
    quantity = parse_quantity(text)
    assert isinstance(quantity, Quantity), quantity
    return quantity


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("0", 0),
        ("5", 5 * 10**9),
        ("+5", 5 * 10**9),
        ("-5", -5 * 10**9),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("500m", 5 * 10**8),
        ("1n", 1),
        ("0.9n", 1),
        ("-0.9n", -1),
        ("1.0000000001", 10**9 + 1),
        ("1e-20", 1),
        ("1k", 10**12),
        ("1E", 10**27),
        ("2e3", 2 * 10**12),
        ("2E3", 2 * 10**12),
        ("2e+3", 2 * 10**12),
        ("2e-3", 2 * 10**6),
        ("1Ki", 1024 * 10**9),
        ("0.5Gi", 2**29 * 10**9),
        ("8Ei", (2**63 - 1) * 10**9),
        ("-8Ei", -(2**63 - 1) * 10**9),
        ("18446744073709551616", 2**64 * 10**9),
        (".", 0),
        ("+", 0),
        ("-", 0),
    ],
)
def test_value_is_parsed_in_nano_units(text: str, nano: int) -> None:
    assert parse_valid_quantity(text).nano == nano


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("", "regular expression"),
        (" 5", "regular expression"),
        ("5 ", "regular expression"),
        ("5 Gi", "regular expression"),
        ("5GB", "regular expression"),
        ("1_0", "regular expression"),
        ("1.2.3", "regular expression"),
        ("five", "regular expression"),
        ("\u0665", "regular expression"),
        ("5K", "suffix"),
        ("5kk", "suffix"),
        ("5e", "suffix"),
        ("5i", "suffix"),
        ("1k5", "suffix"),
        ("--5", "suffix"),
        ("Ei", "numeric part"),
        ("1e999999999", "exponents above"),
        ("1e99999999999999999999", "suffix"),
    ],
)
def test_malformed_quantity_is_rejected(text: str, about: str) -> None:
    malformed = parse_quantity(text)
    assert isinstance(malformed, InvalidQuantity)
    assert about in malformed.message


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("1024", "1024"),
        ("2000", "2k"),
        ("2e3", "2e3"),
        ("2000e3", "2e6"),
        ("0Gi", "0"),
        ("-0.5", "-500m"),
        ("0.5Ki", "512"),
        ("0.0005Ki", "512m"),
        ("1.1Gi", "1181116006400m"),
        ("8Ei", "9223372036854775807"),
        ("1000E", "1e21"),
        ("100n", "100n"),
        ("0.001n", "1n"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(parse_valid_quantity(text)) == canonical


@pytest.mark.parametrize(
    ("one", "other"), [("1Gi", "1024Mi"), ("1500m", "1.5"), ("5", "5.0"), ("1k", "1e3")]
)
def test_quantities_compare_equal_in_any_notation(one: str, other: str) -> None:
    assert parse_valid_quantity(one) == parse_valid_quantity(other)
    assert hash(parse_valid_quantity(one)) == hash(parse_valid_quantity(other))
    assert not parse_valid_quantity(one) < parse_valid_quantity(other)


def test_quantities_are_ordered_by_value() -> None:
    texts = ["-1", "0", "1n", "999m", "1", "1k", "1Ki", "1M", "1Mi", "8Ei", "10E"]
    assert all(
        parse_valid_quantity(low) < parse_valid_quantity(high) for low, high in pairwise(texts)
    )
    assert all(
        parse_valid_quantity(low) <= parse_valid_quantity(high) for low, high in pairwise(texts)
    )


def test_rounding_is_away_from_zero() -> None:
    assert parse_valid_quantity("1.0001").round_to_milli() == 1001
    assert parse_valid_quantity("-1.0001").round_to_milli() == -1001
    assert parse_valid_quantity("1.1").round_to_units() == 2
    assert parse_valid_quantity("-1.1").round_to_units() == -2
    assert parse_valid_quantity("1500m").round_to_power(-9) == 1_500_000_000


def test_floats_are_digits_times_power_of_ten() -> None:
    assert parse_valid_quantity("0.3").convert_to_float() == 3 * 0.1
    assert parse_valid_quantity("300m").convert_to_float() == 300 * 0.001
    assert parse_valid_quantity("0.3") == parse_valid_quantity("300m")
    assert (
        parse_valid_quantity("0.3").convert_to_float()
        != parse_valid_quantity("300m").convert_to_float()
    )
    assert parse_valid_quantity("1e400").convert_to_float() == float("inf")
    assert parse_valid_quantity("1Ki").convert_to_float() == 1024.0
    assert parse_valid_quantity("5k").convert_to_float() == 5000.0
    assert parse_valid_quantity("-3e40").convert_to_float() == -3e40
    # More than 64 bits, and beyond the range of a double.
    assert parse_valid_quantity(f"-{'9' * 20}e400").convert_to_float() == float("-inf")


def test_sum_has_form_of_nonzero_operand() -> None:
    assert str(parse_valid_quantity("1Gi") + parse_valid_quantity("512Mi")) == "1536Mi"
    assert str(parse_valid_quantity("0") + parse_valid_quantity("1Gi")) == "1Gi"
    assert str(parse_valid_quantity("2") - parse_valid_quantity("500m")) == "1500m"
    assert build_quantity(1500, QuantityFormat.DECIMAL, -3) == parse_valid_quantity("1.5")


@given(
    st.integers(-(10**12), 10**12),
    st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi", "e3"]),
)
def test_formatting_and_parsing_loses_nothing(number: int, suffix: str) -> None:
    once = parse_valid_quantity(f"{number}{suffix}")
    assert parse_valid_quantity(str(once)) == once


@given(st.text(max_size=6))
def test_any_text_is_a_quantity_or_malformed(text: str) -> None:
    assert isinstance(parse_quantity(text), Quantity | InvalidQuantity)
