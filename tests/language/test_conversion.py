"""Tests of conversion, unification and comparison of values."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.json_data.plain_data import ConversionProblem, convert_to_plain, convert_to_value
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.language.type_unification import compare_values, unify_types
from nexusform.schemas.value_types import (
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
from nexusform.values.typed_value import (
    NOT_NULL,
    SENSITIVE,
    UNKNOWN,
    Refinement,
    add_refinement,
    build_null,
    build_number,
    build_object,
    build_string,
    build_unknown,
    get_refinement,
)

_A = ObjectType.create({"a": STRING})


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
def test_values_are_converted_to_requested_type(plain: Any, of: Type, wanted: Any) -> None:
    assert convert_to_plain(convert_value(convert_to_value(plain, DYNAMIC), of))[0] == wanted


def test_known_length_of_unknown_value_survives_if_still_valid() -> None:
    bounded = add_refinement(build_unknown(MapType(STRING)), Refinement(not_null=True, longest=1))
    optional = ObjectType(
        ObjectType.create({"a": STRING, "b": STRING}).attributes, frozenset({"a", "b"})
    )
    assert get_refinement(convert_value(bounded, optional)) == NOT_NULL
    pair = add_refinement(build_unknown(TupleType((STRING, STRING))), NOT_NULL)
    assert convert_value(pair, ListType(STRING)).raw == (
        build_unknown(STRING),
        build_unknown(STRING),
    )
    as_set = get_refinement(convert_value(pair, SetType(STRING)))
    assert (as_set.shortest, as_set.longest) == (1, 2)


@pytest.mark.parametrize(
    ("plain", "of", "problem"),
    [
        ("x", NUMBER, "a number is required"),
        ("True", BOOL, 'a bool is required; to convert from string, use lowercase "true"'),
        (1, BOOL, "bool required"),
        ([], STRING, "string required"),
        ({}, _A, 'attribute "a" is required'),
        ({}, ObjectType.create({"a": STRING, "b": STRING}), 'attributes "a" and "b" are required'),
        ({"a": []}, _A, ".a: string required"),
        ([["x"], [[]]], ListType(ListType(STRING)), "[1][0]: string required"),
        (
            [{"ports": {"http": "a"}}],
            ListType(ObjectType.create({"ports": MapType(NUMBER)})),
            '[0].ports["http"]: a number is required',
        ),
        ({"a-b": []}, ObjectType.create({"a-b": STRING}), '["a-b"]: string required'),
        ("x", ListType(STRING), "list of string required"),
        ([1, True], ListType(DYNAMIC), "all list elements must have the same type"),
        ([1], MapType(DYNAMIC), "map of any single type required"),
    ],
)
def test_failed_conversion_is_reported_with_path(plain: Any, of: Type, problem: str) -> None:
    with pytest.raises(ConversionProblem) as caught:
        convert_value(convert_to_value(plain, DYNAMIC), of)
    assert describe_problem(caught.value) == problem


def test_defaults_fill_absent_and_null_attributes() -> None:
    inner = ObjectType.create({"n": NUMBER}, ["n"], {"n": build_number(3)})
    outer = ObjectType.create({"list": ListType(inner), "note": STRING}, ["note"])
    given = convert_to_value({"list": [{}, {"n": None}, {"n": 5}]}, DYNAMIC)
    made = convert_value(given, outer)
    assert convert_to_plain(made)[0] == {"list": [{"n": 3}, {"n": 3}, {"n": 5}], "note": None}
    assert made.type == ObjectType.create(
        {"list": ListType(ObjectType.create({"n": NUMBER})), "note": STRING}
    )


def test_unknown_and_null_values_keep_marks() -> None:
    assert convert_value(build_unknown(NUMBER).add_marks(SENSITIVE), STRING) == build_unknown(
        STRING
    ).add_marks(SENSITIVE)
    assert convert_value(build_null(), ListType(STRING)) == build_null(ListType(STRING))
    with pytest.raises(ConversionProblem):
        convert_value(build_unknown(BOOL), NUMBER)
    with pytest.raises(ConversionProblem):
        convert_value(build_null(ListType(STRING)), STRING)


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([STRING, NUMBER], STRING),
        ([NUMBER, BOOL], None),
        ([DYNAMIC, NUMBER], NUMBER),
        ([DYNAMIC, DYNAMIC], DYNAMIC),
        ([TupleType((NUMBER,)), TupleType((STRING,))], TupleType((STRING,))),
        ([TupleType(()), TupleType((STRING,))], ListType(STRING)),
        ([_A, ObjectType.create({"b": NUMBER})], MapType(STRING)),
        ([_A, MapType(NUMBER)], MapType(STRING)),
        ([ListType(NUMBER), SetType(STRING)], ListType(STRING)),
        ([SetType(STRING), TupleType((STRING,))], SetType(STRING)),
        ([TupleType(()), _A], None),
    ],
)
def test_types_are_unified(types: list[Type], common: Type | None) -> None:
    assert unify_types(types) == common


def test_equality_is_deep_and_unknown_for_unknown_parts() -> None:
    left = build_object({"a": build_string("x"), "b": build_unknown(STRING)})
    assert compare_values(left, left).raw is UNKNOWN
    assert (
        compare_values(left, build_object({"a": build_string("y"), "b": build_string("z")})).raw
        is False
    )
    assert compare_values(build_string("1"), build_number(1)).raw is False
    assert compare_values(build_unknown(STRING), build_number(1)).raw is False
    assert compare_values(build_null(STRING), build_null()).raw is True
    assert compare_values(build_string("x").add_marks(SENSITIVE), build_string("x")).is_sensitive
