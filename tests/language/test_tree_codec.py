"""A tree comes back from its bytes as it was, and damaged bytes are no tree."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_bytes_of_another_version_or_damaged_ones_are_no_tree() -> None:
    data = encode(parse_file(SourceFile("a.nf.hcl", NUMBERS))[0])
    assert decode(data.replace(b"nexusform-tree-2", b"nexusform-tree-1", 1)) is None
    for damaged in (
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        data[:-2],
        data + b"x",
        msgspec.json.encode(["nexusform-tree-2.1", 1]),
    ):
        assert decode(damaged) is None


@given(st.data())
def test_bytes_that_were_changed_give_a_tree_or_none(data: st.DataObject) -> None:
    kept = encode(parse_file(SourceFile("a.nf.hcl", NUMBERS))[0])
    at = data.draw(st.integers(0, len(kept) - 1))
    changed = kept[:at] + data.draw(st.binary(max_size=3)) + kept[at + data.draw(st.integers(0, 3)) :]
    assert decode(changed) is None or isinstance(decode(changed), Body)
