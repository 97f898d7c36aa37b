"""Types, values and plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.exact_numbers import MAX_DIGITS, number_from_decimal
from nexusform.values import (
    BOOL,
    DYNAMIC,
    NUMBER,
    SENSITIVE,
    STRING,
    UNKNOWN,
    ConversionProblem,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Value,
    boolean,
    friendly_name,
    from_plain,
    list_value,
    map_value,
    null,
    number,
    object_value,
    set_value,
    string,
    to_plain,
    tuple_value,
    type_from_json,
    type_to_json,
    unknown,
    unmark_deep,
)

_PERSON = ObjectType.of({"name": STRING, "age": NUMBER, "tags": MapType(STRING)}, optional=["age"])


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (STRING, "string"),
        (ListType(STRING), "list of string"),
        (MapType(ListType(NUMBER)), "map of list of number"),
        (SetType(BOOL), "set of bool"),
        (_PERSON, "object"),
        (TupleType((STRING,)), "tuple"),
        (DYNAMIC, "any type"),
        (ListType(DYNAMIC), "list of any single type"),
    ],
)
def test_types_have_the_names_that_messages_use(of: Any, name: str) -> None:
    assert friendly_name(of, constraint=True) == name


@pytest.mark.parametrize(
    "data",
    [
        "string",
        "dynamic",
        ["list", "string"],
        ["set", ["map", "bool"]],
        ["tuple", ["string", "number"]],
        ["object", {"a": "string", "b": ["list", "number"]}],
        ["object", {"a": "string", "b": "bool"}, ["b"]],
    ],
)
def test_a_type_survives_json(data: Any) -> None:
    assert type_to_json(type_from_json(json.loads(json.dumps(data)))) == data


@pytest.mark.parametrize("data", ["int", ["list"], ["list", "string", "string"], None, 3, ["object", []]])
def test_what_is_no_type_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="not a type"):
        type_from_json(data)


def test_constructors_find_the_type() -> None:
    assert list_value([string("a")]).type == ListType(STRING)
    assert map_value({"b": number(1), "a": number(2)}).type == MapType(NUMBER)
    assert list(map_value({"b": number(1), "a": number(2)}).raw) == ["a", "b"]
    assert object_value({"b": string("x"), "a": boolean(True)}).type == ObjectType.of(
        {"a": BOOL, "b": STRING}
    )
    assert tuple_value([string("a"), number(1)]).type == TupleType((STRING, NUMBER))
    assert null(STRING).is_null
    assert not unknown(STRING).is_known


def test_a_set_is_sorted_without_duplicates_and_takes_over_marks() -> None:
    made = set_value([string("b"), string("a").with_marks(SENSITIVE), string("b")])
    assert [v.raw for v in made.raw] == ["a", "b"]
    assert made.is_sensitive
    assert not any(v.marks for v in made.raw)
    assert [v.raw for v in set_value([number(10), number(9), null(NUMBER)]).raw] == [9, 10, None]


def test_unknown_elements_of_a_set_stay_apart() -> None:
    assert len(set_value([unknown(STRING), unknown(STRING), string("a")]).raw) == 3


def test_whole_knowledge_and_marks_are_seen_through_structure() -> None:
    deep = object_value({"a": tuple_value([string("x"), unknown(NUMBER)])})
    assert deep.is_known
    assert not deep.is_wholly_known
    secret = object_value({"a": tuple_value([string("x").with_marks(SENSITIVE)])})
    assert secret.has_marks
    assert not secret.is_sensitive
    bare, marks = unmark_deep(secret)
    assert marks == SENSITIVE
    assert not bare.has_marks


def test_plain_data_becomes_typed_and_back() -> None:
    plain = {"name": "x", "age": 2.5, "tags": {"b": "2", "a": "1"}}
    value = from_plain(plain, _PERSON, [("tags", "a"), ("name",)])
    assert to_plain(value) == (
        {"age": 2.5, "name": "x", "tags": {"a": "1", "b": "2"}},
        (("name",), ("tags", "a")),
    )


def test_absent_attributes_are_null_and_surplus_ones_left_out() -> None:
    assert to_plain(from_plain({"name": "x", "more": 1}, _PERSON))[0] == {
        "age": None,
        "name": "x",
        "tags": None,
    }


def test_the_open_type_takes_what_comes() -> None:
    value = from_plain({"a": [1, "x", True, None, UNKNOWN]}, DYNAMIC)
    assert value.type == ObjectType.of({"a": TupleType((NUMBER, STRING, BOOL, DYNAMIC, DYNAMIC))})
    assert to_plain(value)[0] == {"a": [1, "x", True, None, UNKNOWN]}


def test_a_sensitive_path_into_a_set_marks_the_set() -> None:
    value = from_plain({"zones": ["b", "a"]}, ObjectType.of({"zones": SetType(STRING)}), [("zones", 0)])
    assert to_plain(value) == ({"zones": ["a", "b"]}, (("zones",),))


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
def test_plain_data_that_does_not_fit_says_where(plain: Any, path: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConversionProblem) as caught:
        from_plain(plain, _PERSON)
    assert (caught.value.path, caught.value.message) == (path, message)


def test_numbers_are_as_exact_as_they_are_written() -> None:
    assert number(0.1) == Value(NUMBER, number_from_decimal("0.1"))
    assert number(3.0).raw == 3
    assert isinstance(number(3.0).raw, int)
    with pytest.raises(OverflowError):
        number_from_decimal(f"1e{MAX_DIGITS + 1}")
    with pytest.raises(ValueError, match="finite"):
        number(float("inf"))


_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=5) | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(_plain)
def test_any_plain_data_survives(plain: Any) -> None:
    value = from_plain(plain, DYNAMIC)
    assert to_plain(value) == (plain, ())
    assert from_plain(to_plain(value)[0], value.type) == value
    assert type_from_json(type_to_json(value.type)) == value.type


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_a_float_survives(given_float: float) -> None:
    back = to_plain(number(given_float))[0]
    assert isinstance(back, (int, float))
    assert float(back) == given_float
