from __future__ import annotations

import json
from typing import Any

import pytest

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
    build_type_json,
    describe_type,
    is_same_type,
    parse_type_json,
)

_PERSON = ObjectType.create(
    {"name": STRING, "age": NUMBER, "tags": MapType(STRING)}, optional=["age"]
)


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
def test_types_have_their_names_from_messages(of: Any, name: str) -> None:
    assert describe_type(of, constraint=True) == name


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
def test_type_round_trips_through_json(data: Any) -> None:
    assert build_type_json(parse_type_json(json.loads(json.dumps(data)))) == data


@pytest.mark.parametrize(
    "data", ["int", ["list"], ["list", "string", "string"], None, 3, ["object", []]]
)
def test_invalid_type_is_rejected(data: Any) -> None:
    with pytest.raises(ValueError, match="not a type"):
        parse_type_json(data)


@pytest.mark.parametrize(
    "other",
    [
        NUMBER,
        ListType(STRING),
        MapType(NUMBER),
        TupleType((STRING,)),
        ObjectType.create({"name": STRING, "age": NUMBER, "tags": MapType(STRING)}),
        ObjectType.create({"name": STRING, "age": NUMBER, "labels": MapType(STRING)}, ["age"]),
        ObjectType.create({"name": STRING, "age": NUMBER, "tags": MapType(BOOL)}, ["age"]),
    ],
)
def test_types_that_differ_are_not_the_same(other: Type) -> None:
    assert is_same_type(_PERSON, _PERSON)
    assert is_same_type(other, parse_type_json(build_type_json(other)))
    assert not is_same_type(_PERSON, other)
    assert not is_same_type(other, _PERSON)
    assert not is_same_type(TupleType((_PERSON, STRING)), TupleType((_PERSON, other)))


def test_types_of_any_depth_are_compared() -> None:
    """On Python 3.12, `==` compares at most 500 levels of objects."""

    def nest(leaf: Type) -> Type:
        for _ in range(600):
            leaf = ObjectType((("a", leaf),))
        return leaf

    assert is_same_type(nest(STRING), nest(STRING))
    assert not is_same_type(nest(STRING), nest(NUMBER))
