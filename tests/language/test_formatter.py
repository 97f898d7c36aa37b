"""Tests of canonical style: cases as pairs, and invariants for any configuration."""

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.language.formatter import format_text
from nexusform.language.parser import parse_file
from nexusform.language.syntax.scanner import (
    CLOSE_HEREDOC,
    CLOSE_QUOTE,
    COMMENT,
    NEWLINE,
    OPEN_HEREDOC,
    OPEN_QUOTE,
    PLAIN_TEXT,
    QUOTED_TEXT,
    scan_text,
)
from nexusform.language.syntax.syntax_nodes import TemplateWrap

EVERYTHING = (Path(__file__).parent / "cases" / "everything.hcl").read_text("utf-8")


def format_configuration(text: str) -> str:
    result, diagnostics = format_text(SourceFile("a.nf.hcl", text))
    assert diagnostics == []
    return result


CASES = {
    "equals signs of neighbouring lines are aligned": (
        "a=1\nbbb  = 2\n\ncc = 3\n",
        "a   = 1\nbbb = 2\n\ncc = 3\n",
    ),
    "a comment between lines parts their alignment": (
        "a = 1\n# x\nbbb = 2\n",
        "a = 1\n# x\nbbb = 2\n",
    ),
    "a value over several lines is not aligned": (
        "a = 1\nbbb = [\n1,\n  ]\ncc = 2\n",
        "a = 1\nbbb = [\n  1,\n]\ncc = 2\n",
    ),
    "blocks are indented by two": (
        'a "b" {\nc {\n d = 1\n}\n      }\n',
        'a "b" {\n  c {\n    d = 1\n  }\n}\n',
    ),
    "comments at the ends of lines are aligned": (
        "a = 1 # x\nbbb = [2]// y\nc = 3\n",
        "a   = 1   # x\nbbb = [2] // y\nc   = 3\n",
    ),
    "operators have spaces, calls and steps have none": (
        "a = f ( 1,x . y [ 0 ] )+2*-3&&! z\n",
        "a = f(1, x.y[0]) + 2 * -3 && !z\n",
    ),
    "minus as an operator and as a sign": ("a = [- 1, b -1, (- c)]\n", "a = [-1, b - 1, (-c)]\n"),
    "braces on one line have spaces inside": (
        "a = {b=1}\nc {}\nd {e=1}\n",
        "a = { b = 1 }\nc {}\nd { e = 1 }\n",
    ),
    "for expressions": (
        "a = [for x in [1]:x if x>0]\nb = {for k,v in c:k=>v ...}\n",
        "a = [for x in [1] : x if x > 0]\nb = { for k, v in c : k => v... }\n",
    ),
    "the insides of strings stay, the insides of sequences are spaced": (
        'a = "x  ${ b+1 }  y"\n',
        'a = "x  ${b + 1}  y"\n',
    ),
    "an argument that is one interpolation loses its quotation marks": (
        'a = "${ b.c }"\nd = ["${e}"]\nf = "${g} "\n',
        'a = b.c\nd = ["${e}"]\nf = "${g} "\n',
    ),
    "bare labels get quotation marks": ("a b c {\n}\n", 'a "b" "c" {\n}\n'),
    "heredocs are left alone": (
        "a {\n b = <<-EOT\n  x ${ y }\n      z\n   EOT\nccc = 1\n}\n",
        "a {\n  b   = <<-EOT\n  x ${ y }\n      z\n   EOT\n  ccc = 1\n}\n",
    ),
    "white space at the ends of lines goes": ("a = 1  \n  \nb = 2\t\n", "a = 1\n\nb = 2\n"),
    "columns count what a reader sees": (
        'größe = 1 # x\na = "é" # y\n',
        'größe = 1   # x\na     = "é" # y\n',
    ),
    "Windows newlines stay": ("a=1\r\nbb=2\r\n", "a  = 1\r\nbb = 2\r\n"),
    "brackets opened together are one step of indentation": (
        "a = f({\nb = 1\n})\n",
        "a = f({\n  b = 1\n})\n",
    ),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_case_is_formatted_as_expected(name: str) -> None:
    before, after = CASES[name]
    assert format_configuration(before) == after
    assert format_configuration(after) == after


def test_file_with_errors_is_unchanged_and_errors_are_reported() -> None:
    text, diagnostics = format_text(SourceFile("a.nf.hcl", "a=[1 2]\n"))
    assert text == "a=[1 2]\n"
    assert [each.summary for each in diagnostics] == ["Missing item separator"]


def remove_spans(node: Any) -> Any:
    """Return a tree without its positions; a wrapped interpolation equals its content."""
    if isinstance(node, TemplateWrap):
        return remove_spans(node.wrapped)
    if isinstance(node, tuple):
        return tuple(remove_spans(item) for item in node)
    if isinstance(node, Struct):
        kept = [name for name in node.__struct_fields__ if not name.endswith("span")]
        return (type(node).__name__, *(remove_spans(getattr(node, name)) for name in kept))
    return node


def list_comments(text: str) -> list[str]:
    tokens = scan_text(text, with_comments=True)
    return [
        tokens.get_text(index).rstrip()
        for index, kind in enumerate(tokens.kinds)
        if kind == COMMENT
    ]


def change_white_space(seed: int) -> str:
    """Return every construct of the language with other white space.

    The white space is at the ends of its lines and words.
    """
    chance = random.Random(seed)
    lines = []
    heredoc = False
    for line in EVERYTHING.split("\n"):
        heredoc = heredoc or "<<" in line
        words = [line] if heredoc or '"' in line else line.split(" ")
        gaps = [" " * (1 + chance.choice([0, 0, 1, 3])) for _ in words[1:]] + [""]
        lines.append("".join(word + gap for word, gap in zip(words, gaps, strict=True)))
        if line.strip() == "EOT":
            heredoc = False
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(30))
def test_formatting_keeps_meaning_and_comments_and_is_idempotent(seed: int) -> None:
    text = change_white_space(seed)
    before, problems = parse_file(SourceFile("a.nf.hcl", text))
    assert problems == []
    result = format_configuration(text)
    after, _ = parse_file(SourceFile("a.nf.hcl", result))
    assert remove_spans(after) == remove_spans(before)
    assert list_comments(result) == list_comments(text)
    assert format_configuration(result) == result


# --- every example is in canonical style, and is restored to it ----------------------------------

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.nf.hcl"))
_INSIDE_TEXT = {QUOTED_TEXT, PLAIN_TEXT, CLOSE_QUOTE, CLOSE_HEREDOC}


def disturb_white_space(text: str, seed: int) -> str:
    """Return a text with other spaces and tabs between tokens.

    Strings, heredocs and comments stay as they are.
    """
    chance = random.Random(seed)
    tokens = scan_text(text, with_comments=True)
    pieces = []
    at = depth = 0
    fresh = True
    for kind, start, end in zip(tokens.kinds, tokens.starts, tokens.ends, strict=True):
        gap = text[at:start]
        if depth == 0 and kind not in _INSIDE_TEXT:
            least = 0 if fresh else 1
            if gap or fresh:
                gap = "".join(chance.choices(" \t", k=chance.randint(least, 4)))
        pieces.append(gap + text[start:end])
        depth += (kind in {OPEN_QUOTE, OPEN_HEREDOC}) - (kind in {CLOSE_QUOTE, CLOSE_HEREDOC})
        fresh = kind == NEWLINE or text[start:end].endswith("\n")
        at = end
    return "".join(pieces)


def test_examples_exist() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_example_is_in_canonical_style_and_restored_to_it(path: Path) -> None:
    text = path.read_text("utf-8")
    assert format_configuration(text) == text
    for seed in range(20):
        changed = disturb_white_space(text, seed)
        assert changed != text
        assert format_configuration(changed) == text


@pytest.mark.parametrize("seed", range(20))
def test_formatted_text_is_restored(seed: int) -> None:
    text = format_configuration(EVERYTHING)
    assert format_configuration(disturb_white_space(text, seed)) == text
