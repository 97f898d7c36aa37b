from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.json_data.plain_data import convert_to_plain, convert_to_value
from nexusform.state import json_codec
from nexusform.state.json_codec import JsonProblem, locate_json_values, parse_json, render_json
from nexusform.values.typed_value import (
    NULL,
    Value,
    build_number,
    build_object,
    build_string,
    build_tuple,
    convert_decimal,
    format_number,
)


def test_values_are_located_by_path() -> None:
    text = '{ "a" : [1, {"b": "x"} , 3],\n "c": {"a": null}}'
    found = locate_json_values(
        text, [("a", 1, "b"), ("a", 2), ("c",), ("c", "a"), (), ("a", 9), ("c", "z", 1)]
    )
    assert text[found["a", 1, "b"] :].startswith('"x"')
    assert text[found["a", 2] :].startswith("3]")
    assert text[found["c", "a"] :].startswith("null")
    assert found[()] == 0
    assert found["a", 9] == text.index("[")
    assert found["c", "z", 1] == found[("c",)]


def test_last_of_duplicate_keys_is_located() -> None:
    text = '{"a": 1, "a": 2}'
    assert locate_json_values(text, [("a",)]) == {("a",): text.index("2")}


def test_invalid_text_does_not_break_the_search() -> None:
    assert locate_json_values("{", [("a",)]) == {("a",): 0}


def test_long_numbers_are_read_exactly() -> None:
    assert parse_json(b'[123456789012345678901234567890, "1"]') == [
        123456789012345678901234567890,
        "1",
    ]


def test_oversized_number_is_rejected_with_its_location() -> None:
    with pytest.raises(JsonProblem, match="more than 4000 digits") as caught:
        parse_json(b'{"a": 1, "b": ' + b"9" * 6000 + b"}")
    assert caught.value.offset == 14


@pytest.mark.parametrize(
    "text",
    [
        "0.123456789012345678901234567890123456789",
        "12345678.123456789",
        "0.12345678901234567",
        "1" + "0" * 309,
        "-" + "123456789" * 17,
        "0." + "0" * 400 + "1",
        "18446744073709551616",
    ],
)
def test_every_digit_of_a_number_round_trips(text: str) -> None:
    exact = convert_decimal(text)
    assert parse_json(f'{{"a": [{text}, 0.5]}}'.encode()) == {"a": [exact, 0.5]}
    assert render_json({"a": [exact, 0.5]}) == f'{{"a":[{text},0.5]}}'.encode()
    assert render_json([[exact]], indent=True) == f"[\n  [\n    {text}\n  ]\n]".encode()


def test_number_beyond_floats_is_read_from_its_exponent() -> None:
    assert parse_json(b"[1e309]") == [convert_decimal("1e309")]


def test_digits_in_strings_are_ignored() -> None:
    text = (
        b'{"serial": "12345678901234567890", "at": "10.20.30.40.50.60.70.80", "n": '
        b"0.30000000000000004}"
    )
    assert parse_json(text) == {
        "serial": "12345678901234567890",
        "at": "10.20.30.40.50.60.70.80",
        "n": 0.30000000000000004,
    }


_NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(10**600), 10**600),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.fractions(),
    st.tuples(st.integers(1, 10**40), st.integers(-3800, 3800)).map(
        lambda p: Decimal(f"{p[0]}e{p[1]}")
    ),
)
_VALUES = st.recursive(
    st.none().map(lambda _: NULL)
    | st.text(max_size=4).map(build_string)
    | _NUMBERS.map(build_number),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(build_tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3).map(build_object),
    ),
    max_leaves=8,
)


@given(_VALUES)
def test_written_values_are_read_back(value: Value) -> None:
    plain, _ = convert_to_plain(value)
    for document in (render_json(plain), render_json(plain, indent=True, sort=True)):
        assert convert_to_value(parse_json(document), value.type) == value


@given(_VALUES, st.integers(-1, 3), st.booleans(), st.booleans())
def test_own_layout_equals_the_layout_of_orjson(
    value: Value, tried: int, indent: bool, sort: bool
) -> None:
    plain, _ = convert_to_plain(value)
    document = {"b": [plain, {"é\n": [], "a": {}}], "a": [[[[plain]]], 1e16, True, None]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_codec, "_ORJSON_DEPTH", tried)
        laid_out = render_json(document, indent=indent, sort=sort)
    assert laid_out == render_json(document, indent=indent, sort=sort)


@pytest.mark.usefixtures("deep_calls")
def test_deep_nesting_round_trips() -> None:
    value = []
    for _ in range(1200):
        value = [value]
    assert render_json(value) == b"[" * 1201 + b"]" * 1201
    assert render_json(parse_json(render_json(value))) == render_json(value)


def test_long_number_in_deep_nesting_is_written_safely() -> None:
    """With such a fragment orjson would write beyond its buffer."""
    for digits in (1 << 9, 1 << 10, 1 << 11, 3700, 3800, 3900):
        value: object = 10**digits
        for _ in range(140):
            value = [value]
        assert render_json(value) == b"[" * 140 + format_number(10**digits).encode() + b"]" * 140


def test_unsupported_data_raises_type_error() -> None:
    with pytest.raises(TypeError):
        render_json({"a": object()})


def test_half_of_a_surrogate_pair_can_be_read_again() -> None:
    """A path with a byte that is not UTF-8 has one."""
    text = render_json({"a\udcff": ["b\udcff", "é"]})
    assert parse_json(text) == {"a\ufffd": ["b\ufffd", "é"]}
