import gc
import json

import pytest

from nexusform.state.json_text import JsonProblem, collector_paused, dumps, loads, locate


def test_places_are_found_by_path() -> None:
    text = '{ "a" : [1, {"b": "x"} , 3],\n "c": {"a": null}}'
    found = locate(text, [("a", 1, "b"), ("a", 2), ("c",), ("c", "a"), (), ("a", 9), ("c", "z", 1)])
    assert text[found["a", 1, "b"] :].startswith('"x"')
    assert text[found["a", 2] :].startswith("3]")
    assert text[found["c", "a"] :].startswith("null")
    assert found[()] == 0
    assert found["a", 9] == text.index("[")
    assert found["c", "z", 1] == found[("c",)]


def test_of_a_key_written_twice_the_last_is_found() -> None:
    text = '{"a": 1, "a": 2}'
    assert locate(text, [("a",)]) == {("a",): text.index("2")}


def test_no_text_brings_the_search_down() -> None:
    assert locate("{", [("a",)]) == {("a",): 0}


def test_long_numbers_are_read_exactly() -> None:
    assert loads(b'[123456789012345678901234567890, "1"]') == [123456789012345678901234567890, "1"]


def test_a_number_too_long_for_anything_is_read_rounded_or_refused() -> None:
    with pytest.raises(JsonProblem):
        loads(b"9" * 6000)


def test_deep_nesting_is_written() -> None:
    value = []
    for _ in range(400):
        value = [value]
    assert json.loads(dumps(value)) == value


def test_other_data_is_a_bug_that_shows() -> None:
    with pytest.raises(TypeError):
        dumps({"a": object()})


def test_the_collector_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
