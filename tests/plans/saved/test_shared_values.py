"""Tests of shared values: documents round-trip, and equal values are stored once.

Invalid references are rejected.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.plans.saved.shared_values import (
    DocumentDeduplicator,
    DocumentExpander,
    SharedValuesError,
)
from nexusform.values.typed_value import UNKNOWN
from tests.kill_points import scale_count

texts = st.sampled_from(["a", "&", "&0", "&:0", "&?", "&&", "x&0"])
plain = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, 2**70]) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


def deduplicate(documents: dict[str, Any]) -> tuple[DocumentDeduplicator, Any, dict[str, Any]]:
    sharing = DocumentDeduplicator(documents)
    return sharing, *json.loads(json.dumps([sharing.shared, sharing.documents]))


@settings(max_examples=scale_count(400), deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), plain, max_size=3))
def test_documents_round_trip_with_types_of_all_values(documents: dict[str, Any]) -> None:
    sharing, shared, parts = deduplicate(documents)
    back = DocumentExpander(sharing.mark, shared)
    read = {name: back.expand(part) for name, part in parts.items()}
    assert repr(read) == repr(documents)


def test_equal_values_are_stored_once_and_read_as_one_object() -> None:
    documents = {"d": [{"machine": "m1", "cells": [0]} for _ in range(5)]}
    sharing, shared, parts = deduplicate(documents)
    assert json.dumps([shared, parts]).count("m1") == 1
    read = DocumentExpander(sharing.mark, shared).expand(parts["d"])
    assert read == documents["d"]
    assert all(each is read[0] for each in read)


def test_keys_of_many_objects_are_stored_once() -> None:
    documents = {"d": {f"vm-{n}": {"machine": "m", "rack": "r", "number": n} for n in range(9)}}
    sharing, shared, parts = deduplicate(documents)
    assert json.dumps([shared, parts]).count("rack") == 1
    assert DocumentExpander(sharing.mark, shared).expand(parts["d"]) == documents["d"]


def test_true_and_one_are_distinct() -> None:
    documents = {"d": [[True, True, True], [1, 1, 1], [1.0, 1.0, 1.0]]}
    sharing, shared, parts = deduplicate(documents)
    assert repr(DocumentExpander(sharing.mark, shared).expand(parts["d"])) == repr(documents["d"])


def test_unknown_value_stays_unknown() -> None:
    sharing = DocumentDeduplicator({"d": [UNKNOWN]})
    assert (
        DocumentExpander(sharing.mark, sharing.shared).expand([sharing.unknown_reference])[0]
        is UNKNOWN
    )


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
def test_invalid_reference_is_rejected(shared: Any) -> None:
    with pytest.raises(SharedValuesError):
        DocumentExpander("&", shared)


def test_expansion_to_an_oversized_plan_is_rejected() -> None:
    """Each value contains the previous one ten times: twenty of them have 10^20 parts."""
    values: list[Any] = [[1] * 10]
    values += [[f"&{before}"] * 10 for before in range(20)]
    with pytest.raises(SharedValuesError, match="exceed the maximum of a plan"):
        DocumentExpander("&", {"keys": [], "values": values}).expand(["&20"])
