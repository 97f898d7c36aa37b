"""Text changes suggested by diagnostics, applied by the editor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from nexusform.diagnostics.diagnostic import Diagnostic, extract_suggested_name
from nexusform.domains.editor.module_files import FileRange, ModuleText, TextChange, create_moved_block
from nexusform.language.syntax.token_stream import CURLY_QUOTES

_NAME: Final = re.compile(rb"[\w-]+")  # a step of a reference, or a word of a header
_ID: Final = re.compile(rb"[\w./:-]+")
_MIN_SIMILARITY: Final = 0.6  # how alike names are, 0 to 1


class QuickFix(NamedTuple):
    """Text change with its title for the editor's list."""

    title: str
    change: TextChange


def list_quick_fixes(module: ModuleText, finding: Diagnostic) -> Iterator[QuickFix]:
    """Yield the possible changes for a finding, if any."""
    span = finding.subject
    source = module.files.get(span.filename) if span is not None else None
    if span is None or source is None:
        return
    text = source.text.encode()
    range_in_file = FileRange(span.filename, span.start.byte, span.end.byte)
    suggested_name = extract_suggested_name(finding.detail)
    if suggested_name:
        yield from _suggest_name(text, range_in_file, suggested_name)
    if finding.id == "invalid-character":
        # The line with straight quotes in place of curly ones.
        start = text.rfind(b"\n", 0, range_in_file.start) + 1
        end = text.find(b"\n", start)
        line = text[start : end if end >= 0 else len(text)].decode(errors="replace")
        new_line = "".join('"' if letter in CURLY_QUOTES else letter for letter in line)
        if new_line != line:
            location = FileRange(range_in_file.path, start, start + len(line.encode()))
            yield QuickFix("Replace by straight quotes", TextChange(location, new_line))
    move = finding.extra.get("moved")
    blocks = module.find_blocks(range_in_file.path, range_in_file.start)
    if move and blocks:
        old, new = str(move["from"]), str(move["to"])
        yield QuickFix(f"Add a moved block from {old} to {new}", create_moved_block(blocks[0], old, new))


def _suggest_name(text: bytes, range_in_file: FileRange, name: str) -> Iterator[QuickFix]:
    """Yield the suggested name in place of the most similar word."""
    similarities: list[tuple[float, re.Match[bytes]]] = []
    pattern = _NAME if _NAME.fullmatch(name.encode()) else _ID
    for word in pattern.finditer(text, range_in_file.start, range_in_file.end):
        current_word = word[0].decode(errors="replace").casefold()
        similarities.append((SequenceMatcher(None, current_word, name.casefold()).ratio(), word))
    if not similarities:
        return
    best_ratio, word = max(similarities, key=lambda item: item[0])
    is_unique = sum(item == best_ratio for item, _ in similarities) == 1
    current_word = word[0].decode(errors="replace")
    if best_ratio >= _MIN_SIMILARITY and is_unique and current_word != name:
        location = FileRange(range_in_file.path, word.start(), word.end())
        yield QuickFix(f'Replace "{current_word}" by "{name}"', TextChange(location, name))
