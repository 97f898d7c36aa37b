from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.json_data.plain_data import (
    ConversionProblem,
    convert_to_plain,
    convert_to_value,
    list_refinements,
    unify_json_error,
)
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    build_type_json,
    parse_type_json,
)
from nexusform.values.typed_value import (
    UNKNOWN,
    Refinement,
    Value,
    add_refinement,
    build_number,
    build_object,
    build_tuple,
    build_unknown,
    get_refinement,
    is_refinement_met,
)

_PERSON = ObjectType.create(
    {"name": STRING, "age": NUMBER, "tags": MapType(STRING)}, optional=["age"]
)


def test_plain_data_is_converted_to_typed_and_back() -> None:
    plain = {"name": "x", "age": 2.5, "tags": {"b": "2", "a": "1"}}
    value = convert_to_value(plain, _PERSON, [("tags", "a"), ("name",)])
    assert convert_to_plain(value) == (
        {"age": 2.5, "name": "x", "tags": {"a": "1", "b": "2"}},
        (("name",), ("tags", "a")),
    )


def test_absent_attributes_are_null_and_extra_ones_are_dropped() -> None:
    assert convert_to_plain(convert_to_value({"name": "x", "more": 1}, _PERSON))[0] == {
        "age": None,
        "name": "x",
        "tags": None,
    }


def test_dynamic_type_accepts_any_data() -> None:
    value = convert_to_value({"a": [1, "x", True, None, UNKNOWN]}, DYNAMIC)
    assert value.type == ObjectType.create(
        {"a": TupleType((NUMBER, STRING, BOOL, DYNAMIC, DYNAMIC))}
    )
    assert convert_to_plain(value)[0] == {"a": [1, "x", True, None, UNKNOWN]}


def test_sensitive_path_into_set_marks_the_set() -> None:
    value = convert_to_value(
        {"zones": ["b", "a"]}, ObjectType.create({"zones": SetType(STRING)}), [("zones", 0)]
    )
    assert convert_to_plain(value) == ({"zones": ["a", "b"]}, (("zones",),))


@pytest.mark.parametrize(
    ("plain", "path", "message"),
    [
        ({"name": 3}, ("name",), "string required"),
        ({"tags": {"a": 1}}, ("tags", "a"), "string required"),
        ({"age": True}, ("age",), "number required"),
        ({"tags": []}, ("tags",), "map of string required"),
        ([], (), "object required"),
    ],
)
def test_plain_data_of_wrong_type_is_reported_with_path(
    plain: Any, path: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ConversionProblem) as caught:
        convert_to_value(plain, _PERSON)
    assert (caught.value.path, caught.value.message) == (path, message)


_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.text(max_size=5)
    | st.just(UNKNOWN),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_plain)
def test_any_plain_data_survives_conversion(plain: Any) -> None:
    value = convert_to_value(plain, DYNAMIC)
    assert convert_to_plain(value) == (plain, ())
    assert convert_to_value(convert_to_plain(value)[0], value.type) == value
    assert parse_type_json(build_type_json(value.type)) == value.type


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_float_survives_conversion(given_float: float) -> None:
    back = convert_to_plain(build_number(given_float))[0]
    assert isinstance(back, (int, float))
    assert float(back) == given_float


def test_refinements_of_unknown_parts_survive_conversion() -> None:
    text = add_refinement(build_unknown(STRING), Refinement(not_null=True, prefix="a-"))
    count = add_refinement(
        build_unknown(NUMBER), Refinement(lowest=Fraction(1, 2), highest=Fraction(1, 2**70))
    )
    value = build_object(
        {"t": build_tuple([text, build_unknown(STRING)]), "n": count, "k": Value(STRING, "k")}
    )
    parts = list_refinements(value)
    assert [path for path, _ in parts] == [("n",), ("t", 0)]
    again = convert_to_value(convert_to_plain(value)[0], value.type, (), parts)
    assert again == value
    assert list_refinements(again) == parts
    assert get_refinement(again.raw["n"]) == get_refinement(count)


@pytest.mark.parametrize(
    ("plain", "refinement", "expected"),
    [
        (None, Refinement(), True),
        (None, Refinement(not_null=True), False),
        ("ab", Refinement(prefix="a"), True),
        ("b", Refinement(prefix="a"), False),
        ([1], Refinement(shortest=1, longest=1), True),
        ([1, 2], Refinement(longest=1), False),
        ({}, Refinement(shortest=1), False),
        (3, Refinement(lowest=3, highest=3), True),
        (2.5, Refinement(lowest=3), False),
        (4, Refinement(highest=3), False),
        (True, Refinement(not_null=True), True),
    ],
)
def test_value_is_compared_with_its_earlier_refinement(
    plain: Any, refinement: Refinement, expected: bool
) -> None:
    assert is_refinement_met(plain, refinement) is expected


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ('[\n  {"name": "r1", \n}]', "Illegal trailing comma before end of object", 2, 16),
        ("[1, 2 ,\n\n]", "Illegal trailing comma before end of array", 1, 7),
        ("[]]", "Extra data", 1, 3),
        ('{"a": 1, ]', "Expecting property name enclosed in double quotes", 1, 10),
        ("[1, }", "Expecting value", 1, 5),
        ('{"a": }', "Expecting value", 1, 7),
        ("[1,", "Expecting value", 1, 4),
    ],
)
def test_error_names_its_position(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(json.JSONDecodeError) as raised:
        json.loads(text)
    error = unify_json_error(raised.value)
    assert (error.msg, error.lineno, error.colno) == (message, line, column)
