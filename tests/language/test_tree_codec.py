"""A tree comes back from its bytes as it was, and damaged bytes are no tree."""

from pathlib import Path

import orjson
import pytest

from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import parse_file
from nexusform.language.syntax import Body
from nexusform.language.tree_codec import decode, encode
from nexusform.source import SourceFile

EVERYTHING = (Path(__file__).parent / "cases" / "everything.hcl").read_text("utf-8")
NUMBERS = "a = [123456789012345678901234567890, 1.50, 0.1, 9007199254740993, -1]\nb {\n}\n"


@pytest.mark.parametrize("text", ["", EVERYTHING, NUMBERS, "\ufeffa = 1\r\n"])
def test_a_native_tree_comes_back_as_it_was(text: str) -> None:
    body, _ = parse_file(SourceFile("a.nf.hcl", text))
    back = decode(encode(body))
    assert back == body
    assert repr(back) == repr(body)  # 1.50 stays 1.50, and an int an int


def test_a_json_tree_comes_back_as_it_was() -> None:
    body, _ = parse_json_file(SourceFile("a.nf.json", '{"a": [1, 2.50, null, "é ${b}"], "c": {"d": {}}}'))
    assert decode(encode(body)) == body


def test_the_same_text_gives_the_same_bytes() -> None:
    first, second = (parse_file(SourceFile("a.nf.hcl", EVERYTHING))[0] for _ in range(2))
    assert encode(first) == encode(second)


def test_the_spans_of_a_tree_from_another_file_get_the_name_asked_for() -> None:
    back = decode(encode(parse_file(SourceFile("old.nf.hcl", "a = 1\n"))[0]), "new.nf.hcl")
    assert isinstance(back, Body)
    assert back == parse_file(SourceFile("new.nf.hcl", "a = 1\n"))[0]


def test_bytes_of_another_version_or_damaged_ones_are_no_tree() -> None:
    data = encode(parse_file(SourceFile("a.nf.hcl", NUMBERS))[0])
    assert decode(data.replace(b"nexusform-tree-1", b"nexusform-tree-0", 1)) is None
    for damaged in (
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        data[:-2],
        data + b"x",
        orjson.dumps(["nexusform-tree-1.1", 1]),
    ):
        assert decode(damaged) is None
    document = orjson.loads(data)
    document[-1] = 10_000
    assert decode(orjson.dumps(document)) is None
