"""Bytes of a JSON file -> plain data, or a finding that names the line and the column."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from nexusform.diagnostics import Problem

MAX_BYTES: Final = 64 * 1024 * 1024
INVALID: Final = "invalid-json"

# What `>` writes depends on the shell: PowerShell puts a mark first, or writes UTF-16.
_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def parse_json(file: str, content: bytes) -> tuple[Any, Problem | None]:
    """The data of a JSON document, or (None, what is wrong with it)."""
    if len(content) > MAX_BYTES:
        detail = f"the file has {len(content):,} bytes; at most {MAX_BYTES:,} are read."
        return None, Problem((), "file-too-large", detail, file=file)
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as problem:
        before = content[: problem.start]
        line = before.count(b"\n") + 1
        column = problem.start - (before.rfind(b"\n") + 1) + 1
        return None, _broken(file, line, column, f"this is not {encoding} text.")
    if not text.strip():
        return None, _broken(file, 1, 1, "the file is empty. Capture it again.")
    try:
        return json.loads(text, parse_constant=_refuse_constant), None
    except json.JSONDecodeError as problem:
        detail = f"{problem.msg}. Is this the whole output of the command?"
        return None, _broken(file, problem.lineno, problem.colno, detail)
    except RecursionError:
        return None, _broken(file, 1, 1, "the document is nested too deeply.")
    except ValueError as problem:
        return None, _broken(file, 1, 1, f"a number cannot be read: {str(problem).split(';')[0]}.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _broken(file: str, line: int, column: int, detail: str) -> Problem:
    return Problem((), INVALID, detail, file=file, line=line, column=column)
