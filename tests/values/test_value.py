from __future__ import annotations

import pytest

from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ObjectType, TupleType
from nexusform.values.typed_value import (
    MAX_DIGITS,
    SENSITIVE,
    Value,
    build_boolean,
    build_null,
    build_number,
    build_object,
    build_set,
    build_string,
    build_tuple,
    build_unknown,
    convert_decimal,
    remove_all_marks,
)


def test_constructors_infer_the_type() -> None:
    assert build_object(
        {"b": build_string("x"), "a": build_boolean(True)}
    ).type == ObjectType.create({"a": BOOL, "b": STRING})
    assert build_tuple([build_string("a"), build_number(1)]).type == TupleType((STRING, NUMBER))
    assert build_null(STRING).is_null
    assert not build_unknown(STRING).is_known


def test_set_is_sorted_without_duplicates_and_keeps_marks() -> None:
    made = build_set(
        [build_string("b"), build_string("a").add_marks(SENSITIVE), build_string("b")], STRING
    )
    assert [v.raw for v in made.raw] == ["a", "b"]
    assert made.is_sensitive
    assert not any(v.marks for v in made.raw)
    assert [
        v.raw
        for v in build_set([build_number(10), build_number(9), build_null(NUMBER)], NUMBER).raw
    ] == [9, 10, None]


def test_unknown_elements_of_a_set_stay_separate() -> None:
    assert (
        len(
            build_set([build_unknown(STRING), build_unknown(STRING), build_string("a")], STRING).raw
        )
        == 3
    )


def test_unknown_values_and_marks_are_found_in_nested_values() -> None:
    deep = build_object({"a": build_tuple([build_string("x"), build_unknown(NUMBER)])})
    assert deep.is_known
    assert not deep.is_wholly_known
    secret = build_object({"a": build_tuple([build_string("x").add_marks(SENSITIVE)])})
    assert secret.has_marks
    assert not secret.is_sensitive
    bare, marks = remove_all_marks(secret)
    assert marks == SENSITIVE
    assert not bare.has_marks


def test_numbers_are_exact() -> None:
    assert build_number(0.1) == Value(NUMBER, convert_decimal("0.1"))
    assert build_number(3.0).raw == 3
    assert isinstance(build_number(3.0).raw, int)
    with pytest.raises(OverflowError):
        convert_decimal(f"1e{MAX_DIGITS + 1}")
    with pytest.raises(ValueError, match="finite"):
        build_number(float("inf"))
