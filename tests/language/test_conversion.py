"""Converting, unifying and comparing."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.language.conversion import convert, describe
from nexusform.language.unification import equals, unify
from nexusform.plain_data import ConversionProblem, from_plain, to_plain
from nexusform.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values import (
    NOT_NULL,
    SENSITIVE,
    UNKNOWN,
    Refinement,
    null,
    number,
    object_value,
    refined,
    refinement_of,
    string,
    unknown,
)

_A = ObjectType.of({"a": STRING})


@pytest.mark.parametrize(
    ("plain", "of", "wanted"),
    [
        (1, STRING, "1"),
        (1.5, STRING, "1.5"),
        (True, STRING, "true"),
        ("1e3", NUMBER, 1000),
        ("true", BOOL, True),
        ("0", BOOL, False),
        (["b", 1], ListType(STRING), ["b", "1"]),
        (["b", "a", "b"], SetType(STRING), ["a", "b"]),
        ({"x": 1}, MapType(STRING), {"x": "1"}),
        ({"a": 1, "surplus": 2}, _A, {"a": "1"}),
        ([1, "x"], ListType(DYNAMIC), ["1", "x"]),
        ([1, "2"], TupleType((STRING, NUMBER)), ["1", 2]),
    ],
)
def test_values_take_the_type_they_are_asked_to(plain: Any, of: Type, wanted: Any) -> None:
    assert to_plain(convert(from_plain(plain, DYNAMIC), of))[0] == wanted


def test_of_an_unknown_value_its_length_stays_known_where_it_stays_its_length() -> None:
    bounded = refined(unknown(MapType(STRING)), Refinement(not_null=True, longest=1))
    optional = ObjectType(ObjectType.of({"a": STRING, "b": STRING}).attributes, frozenset({"a", "b"}))
    assert refinement_of(convert(bounded, optional)) == NOT_NULL
    pair = refined(unknown(TupleType((STRING, STRING))), NOT_NULL)
    assert convert(pair, ListType(STRING)).raw == (unknown(STRING), unknown(STRING))
    as_set = refinement_of(convert(pair, SetType(STRING)))
    assert (as_set.shortest, as_set.longest) == (1, 2)


@pytest.mark.parametrize(
    ("plain", "of", "problem"),
    [
        ("x", NUMBER, "a number is required"),
        ("True", BOOL, 'a bool is required; to convert from string, use lowercase "true"'),
        (1, BOOL, "bool required"),
        ([], STRING, "string required"),
        ({}, _A, 'attribute "a" is required'),
        ({}, ObjectType.of({"a": STRING, "b": STRING}), 'attributes "a" and "b" are required'),
        ({"a": []}, _A, 'attribute "a": string required'),
        ([["x"], [[]]], ListType(ListType(STRING)), "element 1: element 0: string required"),
        ("x", ListType(STRING), "list of string required"),
        ([1, True], ListType(DYNAMIC), "all list elements must have the same type"),
        ([1], MapType(DYNAMIC), "map of any single type required"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(plain: Any, of: Type, problem: str) -> None:
    with pytest.raises(ConversionProblem) as caught:
        convert(from_plain(plain, DYNAMIC), of)
    assert describe(caught.value) == problem


def test_defaults_fill_in_absent_and_null_attributes() -> None:
    inner = ObjectType.of({"n": NUMBER}, ["n"], {"n": number(3)})
    outer = ObjectType.of({"list": ListType(inner), "note": STRING}, ["note"])
    given = from_plain({"list": [{}, {"n": None}, {"n": 5}]}, DYNAMIC)
    made = convert(given, outer)
    assert to_plain(made)[0] == {"list": [{"n": 3}, {"n": 3}, {"n": 5}], "note": None}
    assert made.type == ObjectType.of({"list": ListType(ObjectType.of({"n": NUMBER})), "note": STRING})


def test_unknown_and_null_keep_their_nature_and_marks() -> None:
    assert convert(unknown(NUMBER).with_marks(SENSITIVE), STRING) == unknown(STRING).with_marks(SENSITIVE)
    assert convert(null(), ListType(STRING)) == null(ListType(STRING))
    with pytest.raises(ConversionProblem):
        convert(unknown(BOOL), NUMBER)
    with pytest.raises(ConversionProblem):
        convert(null(ListType(STRING)), STRING)


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([STRING, NUMBER], STRING),
        ([NUMBER, BOOL], None),
        ([DYNAMIC, NUMBER], NUMBER),
        ([DYNAMIC, DYNAMIC], DYNAMIC),
        ([TupleType((NUMBER,)), TupleType((STRING,))], TupleType((STRING,))),
        ([TupleType(()), TupleType((STRING,))], ListType(STRING)),
        ([_A, ObjectType.of({"b": NUMBER})], MapType(STRING)),
        ([_A, MapType(NUMBER)], MapType(STRING)),
        ([ListType(NUMBER), SetType(STRING)], ListType(STRING)),
        ([SetType(STRING), TupleType((STRING,))], SetType(STRING)),
        ([TupleType(()), _A], None),
    ],
)
def test_types_are_unified(types: list[Type], common: Type | None) -> None:
    assert unify(types) == common


def test_equality_looks_through_structure_and_waits_for_what_is_unknown() -> None:
    left = object_value({"a": string("x"), "b": unknown(STRING)})
    assert equals(left, left).raw is UNKNOWN
    assert equals(left, object_value({"a": string("y"), "b": string("z")})).raw is False
    assert equals(string("1"), number(1)).raw is False
    assert equals(unknown(STRING), number(1)).raw is False
    assert equals(null(STRING), null()).raw is True
    assert equals(string("x").with_marks(SENSITIVE), string("x")).is_sensitive
