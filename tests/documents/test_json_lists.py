"""Tests of large Lists in JSON: the data equal those of the general parser, and items have their lines."""

from __future__ import annotations

import json

import pytest

from nexusform.documents.json_lists import MIN_LARGE, parse_large_list
from nexusform.documents.yaml_documents import MAX_BYTES, parse_yaml

LIST = '{\n  "kind": "List",\n  "items": [\n    {"a": [1, 2.5, "x"]},\n\n    {"b": null}\n  ]\n}\n'


def test_items_have_their_lines() -> None:
    read = parse_large_list(LIST)
    assert read is not None
    data, place = read
    assert data == json.loads(LIST)
    assert [place.children["items"].children[i].line for i in (0, 1)] == [4, 6]
    assert (place.children["kind"].line, place.children["items"].line) == (2, 3)
    empty = parse_large_list('{"items": []}')
    assert empty is not None
    assert empty[0] == {"items": []}


@pytest.mark.parametrize(
    "text",
    [
        LIST.replace("null", "NaN"),
        LIST.replace('"b": null', '"b": 1, "b": 2'),
        LIST.replace("null", "[" * 600 + "]" * 600),
        LIST + "x",
        LIST[:-4],
        LIST.replace('"items"', '"kind"'),
        '{"kind": "List"}',
        '{"items": 3}',
        "{",
        "",
    ],
)
def test_unusual_lists_are_left_to_the_general_parser(text: str) -> None:
    assert parse_large_list(text) is None


def test_list_may_be_larger_than_other_documents() -> None:
    body = json.dumps({"items": [{"a": "x" * MAX_BYTES}, {"a": 1}]})
    for content in (body, body.encode(), b"\xef\xbb\xbf" + body.encode()):
        stream = parse_yaml("hub.json", content)
        assert not stream.findings
        assert stream.documents[0].data["items"][1] == {"a": 1}
    (finding,) = parse_yaml("hub.json", json.dumps({"a": "x" * MAX_BYTES})).findings
    assert finding.id == "file-too-large"
    assert "several files" in finding.detail


def test_error_in_large_text_is_reported_at_its_line() -> None:
    text = LIST.replace('"x"', '"' + "x" * MIN_LARGE + '"').replace("null", "no: 3")
    (finding,) = parse_yaml("hub.json", text).findings
    assert (finding.id, finding.line) == ("invalid-yaml", 6)
