"""Tests of YAML as read by Kubernetes and PyYAML: plain data, positions, and limits."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.documents.yaml_documents import (
    MAX_BYTES,
    MIN_LARGE,
    ScalarRules,
    parse_large_list,
    parse_yaml,
)
from tests.kill_points import scale_count


def parse_single(text: str) -> object:
    stream = parse_yaml("f.yaml", text)
    assert stream.findings == ()
    (document,) = stream.documents
    return document.data


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("010", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("2024-01-31", "2024-01-31"),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
        ('"1"', "1"),
        ("'yes'", "yes"),
        ("!!str 5", "5"),
        ("500m", "500m"),
        ("08", 8.0),
        ("-", [None]),
    ],
)
def test_scalars(written: str, value: object) -> None:
    if written == "-":
        assert parse_single("- \n") == value
        return
    found = parse_single(f"a: {written}\n")
    assert found == {"a": value}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(value)


def test_keys_are_strings() -> None:
    assert parse_single("1: a\ntrue: b\n1.5: c\n") == {"1": "a", "true": "b", "1.5": "c"}
    # As in Kubernetes.
    assert parse_single("y: 1\n") == {"true": 1}


@pytest.mark.parametrize(
    "scalar",
    [
        "y",
        "Y",
        "n",
        "N",
        "yes",
        "No",
        "on",
        "OFF",
        "true",
        "False",
        "~",
        "null",
        "7",
        "010",
        "08",
        "0o17",
        "0x1F",
        "0x_",
        "0b101",
        "1_000",
        "1e3",
        "1.5e+3",
        ".5",
        "1.50",
        "12:30",
        "12:30.5",
        "1.2.3",
        "=",
        "500m",
    ],
)
def test_scalars_of_pyyaml_rules_are_those_of_pyyaml(scalar: str) -> None:
    stream = parse_yaml("f.yaml", f"a: {scalar}\n", ScalarRules.PYYAML)
    assert stream.findings == ()
    try:
        value = yaml.safe_load(f"a: {scalar}\n")["a"]
    except (ValueError, yaml.YAMLError):
        # PyYAML fails.
        value = scalar
    assert repr(stream.documents[0].data) == repr({"a": value})


def test_keys_y_and_n_are_texts_for_pyyaml() -> None:
    stream = parse_yaml("f.yaml", "y: 1\nn: 2\non: 3\n", ScalarRules.PYYAML)
    assert stream.documents[0].data == {"y": 1, "n": 2, "true": 3}


def test_aliases_and_merges() -> None:
    assert parse_single("base: &b {x: 1, z: 2}\nmine: {<<: *b, z: 3}\nsame: *b\n") == {
        "base": {"x": 1, "z": 2},
        "mine": {"x": 1, "z": 3},
        "same": {"x": 1, "z": 2},
    }
    assert parse_single("a: {<<: [{x: 1}, {x: 2, z: 3}]}\n") == {"a": {"x": 1, "z": 3}}


def test_merged_keys_keep_their_order_after_own_keys() -> None:
    names = [f"key{number}" for number in range(12)]
    base = ", ".join(f"{name}: 1" for name in names)
    assert list(parse_single(f"base: &b {{{base}}}\nmine: {{<<: *b, z: 3}}\n")["mine"]) == [
        "z",
        *names,
    ]


def test_positions() -> None:
    stream = parse_yaml("f.yaml", "---\na:\n  - b: 1\n---\n# only a remark\n---\nc: 2\n")
    first, second = stream.documents
    assert (
        first.find_position("a").line,
        first.find_position("a", 0, "b").line,
        first.find_position("a", 0, "b").column,
    ) == (2, 3, 5)
    assert first.find_position("a", 0, "missing", "deeper").line == 3
    assert second.find_position("c").line == 7


@pytest.mark.usefixtures("deep_calls")
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [\n", 3, "did not find expected node content"),
        ("a: *nobody\n", 1, '"*nobody" is not defined'),
        ("a: !!python/object:os.system {}\n", 1, "is not supported"),
        ("a: .inf\n", 1, "is not finite"),
        ("a: 1e999\n", 1, "too large"),
        ("? [1]\n: 2\n", 1, "a key must be a text or a number"),
        ("a:\n  name: {{ .Values.name }}\n", 2, "render it first"),
        ("~: 2\n", 1, "a key must be a text or a number"),
        ("a: {<<: 3}\n", 1, "can be merged"),
        ("a: !!int x\n", 1, "cannot be read as !!int"),
        (f"a: !!float {'9' * 350}\n", 1, "too large"),
        ("- " * 600 + "x", 1, "nested more than"),
        ("[" * 3000, 1, "nested more than"),
        ("a: \t b\n\tc: d\n", 2, ""),
    ],
)
def test_invalid_documents_are_reported_with_position(text: str, line: int, message: str) -> None:
    stream = parse_yaml("f.yaml", text)
    assert stream.documents == ()
    (finding,) = stream.findings
    assert finding.line == line
    assert message in finding.detail
    assert str(finding).startswith(f"f.yaml, line {line}, column ")


@pytest.mark.parametrize(
    ("scalar", "number"), [("0x10", 16.0), ("010", 8.0), ("0o7", 7.0), ("1", 1.0), ("-2.5", -2.5)]
)
def test_float_tag_converts_integers_of_every_base(scalar: str, number: float) -> None:
    value = parse_single(f"a: !!float {scalar}\n")["a"]
    assert (value, type(value)) == (number, float)


def test_documents_before_an_invalid_one_are_kept() -> None:
    stream = parse_yaml("f.yaml", "a: 1\n---\nb: [\n")
    assert [document.data for document in stream.documents] == [{"a": 1}]
    assert len(stream.findings) == 1


def test_duplicate_key_is_a_warning_and_the_last_one_counts() -> None:
    stream = parse_yaml("f.yaml", "a: 1\na: 2\n")
    assert stream.documents[0].data == {"a": 2}
    (finding,) = stream.findings
    assert (finding.severity.value, finding.line) == ("warning", 2)


def test_expansion_of_aliases_is_limited() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 9))
    (finding,) = parse_yaml("f.yaml", "l0: &l0 [x, x]\n" + levels).findings
    assert "expands to more than" in finding.detail


def test_size_is_limited_and_bytes_must_be_utf_8() -> None:
    assert parse_yaml("f.yaml", b"#" * (MAX_BYTES + 1)).findings[0].id == "file-too-large"
    (finding,) = parse_yaml("f.yaml", b"a: 1\nb: \xff\n").findings
    assert (finding.line, finding.column) == (2, 4)
    assert parse_yaml("f.yaml", b"\xef\xbb\xbfa: 1\n").documents[0].data == {"a": 1}


@settings(max_examples=scale_count(400), deadline=None)
@given(st.text(alphabet="ab01:-[]{}&*!|>\"'#,?%@`\n \t~.<", max_size=60))
def test_any_text_is_parsed_without_exception(text: str) -> None:
    for rules in ScalarRules:
        stream = parse_yaml("f.yaml", text, rules)
        assert all(finding.line >= 0 for finding in stream.findings)


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


def test_list_on_one_line_has_the_positions_of_its_items() -> None:
    """Such as the answer of a hub: it is read as fast as a large list."""
    text = json.dumps(json.loads(LIST))
    for content in (text, text.encode()):
        (document,) = parse_yaml("hub", content).documents
        assert document.data == json.loads(LIST)
        position = document.find_position("items", 0, "a")
        assert (position.line, position.column) == (1, text.index('{"a"') + 1)


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
    assert (finding.id, finding.line) == ("invalid-json", 6)


@pytest.mark.parametrize(
    ("name", "text", "error_id"),
    [
        ("a.json", "{,", "invalid-json"),
        ("a.JSON", b'{"a": "\xff"}', "invalid-json"),
        ("stdin", '\n{ "a" 1', "invalid-json"),
        ("stdin", '[{"a": 1}, }', "invalid-json"),
        ("a.yaml", "{{ .Values.name }}", "invalid-yaml"),
        ("a.yaml", "a: [", "invalid-yaml"),
        ("a.json", '{"a": 1, "a": 2}', "duplicate-json-key"),
        ("stdin", '{"a": 1,\n "a": 2}', "duplicate-json-key"),
        ("a.yaml", "a: 1\na: 2", "duplicate-yaml-key"),
    ],
)
def test_findings_name_json_or_yaml(name: str, text: str | bytes, error_id: str) -> None:
    assert [finding.id for finding in parse_yaml(name, text).findings] == [error_id]
