"""Changes of the text that messages propose, for an editor to make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from nexusform.diagnostics import Diagnostic, name_meant
from nexusform.domains.editor.module_text import ModuleText, Range, TextChange, moved_after
from nexusform.language.syntax.token_stream import CURLY_QUOTES

_NAME: Final = re.compile(rb"[\w-]+")  # a step of a reference, a word of a header
_ID: Final = re.compile(rb"[\w./:-]+")
_NEAR: Final = 0.6  # how alike names are, 0 to 1


class Fix(NamedTuple):
    """A change of the text, and what it is called in the editor's list."""

    title: str
    change: TextChange


def fixes(module: ModuleText, found: Diagnostic) -> Iterator[Fix]:
    """What can be changed about a finding; none where only the writer knows."""
    span = found.subject
    source = module.files.get(span.filename) if span is not None else None
    if span is None or source is None:
        return
    text = source.text.encode()
    where = Range(span.filename, span.start.byte, span.end.byte)
    name = name_meant(found.detail)
    if name:
        yield from _named_otherwise(text, where, name)
    if found.id == "invalid-character":
        yield from _straightened(text, where)
    moved = found.extra.get("moved")
    blocks = module.blocks_at(where.path, where.start)
    if moved and blocks:
        old, new = str(moved["from"]), str(moved["to"])
        yield Fix(f"Keep {old} as {new}: write the moved block", moved_after(blocks[0], old, new))


def _named_otherwise(text: bytes, where: Range, name: str) -> Iterator[Fix]:
    """The name that was meant, in place of the one word that is like it."""
    likeness: list[tuple[float, re.Match[bytes]]] = []
    pattern = _NAME if _NAME.fullmatch(name.encode()) else _ID
    for word in pattern.finditer(text, where.start, where.end):
        written = word[0].decode(errors="replace").casefold()
        likeness.append((SequenceMatcher(None, written, name.casefold()).ratio(), word))
    if not likeness:
        return
    nearest, word = max(likeness, key=lambda each: each[0])
    is_alone = sum(each == nearest for each, _ in likeness) == 1
    written = word[0].decode(errors="replace")
    if nearest >= _NEAR and is_alone and written != name:
        place = Range(where.path, word.start(), word.end())
        yield Fix(f'Write "{name}" in place of "{written}"', TextChange(place, name))


def _straightened(text: bytes, where: Range) -> Iterator[Fix]:
    """The line with straight quotes in place of curly ones."""
    start = text.rfind(b"\n", 0, where.start) + 1
    end = text.find(b"\n", start)
    line = text[start : end if end >= 0 else len(text)].decode(errors="replace")
    straight = "".join('"' if letter in CURLY_QUOTES else letter for letter in line)
    if straight != line:
        place = Range(where.path, start, start + len(line.encode()))
        yield Fix("Write straight quotes", TextChange(place, straight))
