"""Lines of parts of a JSON text, by their path."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')
_ESCAPE: Final = "\\"
_Path: TypeAlias = tuple[str | int, ...]


def find_json_lines(text: str, paths: Collection[_Path]) -> dict[_Path, int]:
    """Return the lines of the parts at these paths, from 1; parts that the text lacks are left out.

    A text of several documents in a row counts as a list of them.
    """
    wanted = set(paths)
    # By the path in a document, and by the path in the list of documents.
    lines: dict[_Path, int] = {}
    listed_lines: dict[_Path, int] = {}
    line = 1
    counted_offset = 0
    number = 0
    for number, path, offset in _list_parts(text):
        listed_path = (number, *path)
        if path in wanted or listed_path in wanted:
            line += text.count("\n", counted_offset, offset)
            counted_offset = offset
            lines.setdefault(path, line)
            listed_lines[listed_path] = line
    found = listed_lines if number else lines
    return {path: found[path] for path in wanted if path in found}


def _list_parts(text: str) -> Iterator[tuple[int, _Path, int]]:
    """Yield the number of the document, the path and the offset of each part of a JSON text."""
    number = 0
    # The key or index of the current part of each open object or list; "" before the first key.
    steps: list[str | int] = []
    is_key_next = False
    # Of each open object or list.
    is_object: list[bool] = []
    for match in _TOKEN.finditer(text):
        mark = match[0]
        if mark in "]}":
            steps.pop()
            is_object.pop()
        elif mark == ",":
            is_key_next = is_object[-1]
            if not is_key_next:
                steps[-1] = int(steps[-1]) + 1
            continue
        elif mark == ":":
            continue
        elif is_key_next:
            steps[-1] = json.loads(mark) if _ESCAPE in mark else mark[1:-1]
            is_key_next = False
            continue
        else:
            yield number, tuple(steps), match.start()
            if mark in "[{":
                is_key_next = mark == "{"
                is_object.append(is_key_next)
                steps.append("" if is_key_next else 0)
                continue
        if not steps:
            number += 1
        is_key_next = False
