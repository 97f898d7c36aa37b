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
    build_type_json,
    describe_type,
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
