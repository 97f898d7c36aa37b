from __future__ import annotations

import pytest

from nexusform.exact_numbers import MAX_DIGITS, number_from_decimal
from nexusform.value_types import (
    BOOL,
    NUMBER,
    STRING,
    ObjectType,
    TupleType,
)
from nexusform.values import (
    SENSITIVE,
    Value,
    boolean,
    null,
    number,
    object_value,
    set_value,
    string,
    tuple_value,
    unknown,
    unmark_deep,
)


def test_constructors_find_the_type() -> None:
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


def test_numbers_are_as_exact_as_they_are_written() -> None:
    assert number(0.1) == Value(NUMBER, number_from_decimal("0.1"))
    assert number(3.0).raw == 3
    assert isinstance(number(3.0).raw, int)
    with pytest.raises(OverflowError):
        number_from_decimal(f"1e{MAX_DIGITS + 1}")
    with pytest.raises(ValueError, match="finite"):
        number(float("inf"))
