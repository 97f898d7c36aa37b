"""Values that documents share: everything back, each once, and nothing that points where nothing is."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.plans.saved.shared_values import DocumentDeduplicator, DocumentExpander, SharedValuesError
from nexusform.values.typed_value import UNKNOWN

texts = st.sampled_from(["a", "&", "&0", "&:0", "&?", "&&", "x&0"])
plain = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, 2**70]) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


def written(documents: dict[str, Any]) -> tuple[DocumentDeduplicator, Any, dict[str, Any]]:
    sharing = DocumentDeduplicator(documents)
    return sharing, *json.loads(json.dumps([sharing.shared, sharing.documents]))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), plain, max_size=3))
def test_whatever_is_written_comes_back_to_the_class_of_every_value(documents: dict[str, Any]) -> None:
    sharing, shared, parts = written(documents)
    back = DocumentExpander(sharing.mark, shared)
    read = {name: back.expand(part) for name, part in parts.items()}
    assert repr(read) == repr(documents)


def test_what_is_equal_stands_once_and_is_one_object_when_it_is_read() -> None:
    documents = {"d": [{"machine": "m1", "cells": [0]} for _ in range(5)]}
    sharing, shared, parts = written(documents)
    assert json.dumps([shared, parts]).count("m1") == 1
    read = DocumentExpander(sharing.mark, shared).expand(parts["d"])
    assert read == documents["d"]
    assert all(each is read[0] for each in read)


def test_keys_of_many_objects_stand_once() -> None:
    documents = {"d": {f"vm-{n}": {"machine": "m", "rack": "r", "number": n} for n in range(9)}}
    sharing, shared, parts = written(documents)
    assert json.dumps([shared, parts]).count("rack") == 1
    assert DocumentExpander(sharing.mark, shared).expand(parts["d"]) == documents["d"]


def test_true_is_not_one() -> None:
    documents = {"d": [[True, True, True], [1, 1, 1], [1.0, 1.0, 1.0]]}
    sharing, shared, parts = written(documents)
    assert repr(DocumentExpander(sharing.mark, shared).expand(parts["d"])) == repr(documents["d"])


def test_what_is_unknown_stays_so() -> None:
    sharing = DocumentDeduplicator({"d": [UNKNOWN]})
    assert DocumentExpander(sharing.mark, sharing.shared).expand([sharing.unknown_reference])[0] is UNKNOWN


@pytest.mark.parametrize(
    "shared",
    [
        [],
        {"keys": []},
        {"keys": {}, "values": []},
        {"keys": [[1]], "values": []},
        {"keys": [], "values": 3},
        {"keys": [], "values": ["&0"]},
        {"keys": [], "values": [["&1"], 2]},
        {"keys": [], "values": ["&x"]},
        {"keys": [], "values": ["&-1"]},
        {"keys": [], "values": ["&99999999999999999999"]},
        {"keys": [["a"]], "values": [["&:0"]]},
        {"keys": [["a"]], "values": [["&:1", 1]]},
    ],
)
def test_what_points_nowhere_is_refused(shared: Any) -> None:
    with pytest.raises(SharedValuesError):
        DocumentExpander("&", shared)


def test_a_small_file_does_not_unfold_into_a_large_plan() -> None:
    """Each value holds the one before it ten times: twenty of them are 10^20 parts."""
    values: list[Any] = [[1] * 10]
    values += [[f"&{before}"] * 10 for before in range(20)]
    with pytest.raises(SharedValuesError, match="exceed the maximum of a plan"):
        DocumentExpander("&", {"keys": [], "values": values}).expand(["&20"])
