"""CSV text to a list of objects (RFC 4180; quotes are strict)."""

from __future__ import annotations

from typing import Final

from nexusform.language.functions.function import FunctionProblem
from nexusform.language.functions.json_text import clean_text
from nexusform.value_types import STRING, ListType, ObjectType
from nexusform.values import Value

_BAD_QUOTE: Final = 'extraneous or missing " in quoted-field'


def parse_csv(text: str) -> Value:
    """One object for every row after the first, which names the columns. Raises FunctionProblem."""
    rows = _rows(text.replace("\r\n", "\n"))
    if not rows:
        raise FunctionProblem("missing header line")
    _, header = rows[0]
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise FunctionProblem(f'duplicate column name "{name}"')
        seen.add(name)
    kind = ObjectType.of(dict.fromkeys(header, STRING))
    objects = []
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise FunctionProblem(f"CSV parse error on line {line}: wrong number of fields")
        fields = dict(zip(header, row, strict=True))
        objects.append(Value(kind, {k: Value(STRING, fields[k]) for k in sorted(fields)}))
    return Value(ListType(kind), tuple(objects))


def _rows(text: str) -> list[tuple[int, list[str]]]:
    # Every row with the line it starts on; empty lines do not count.
    rows: list[tuple[int, list[str]]] = []
    at, line = 0, 1
    while at < len(text):
        if text[at] == "\n":
            at += 1
            line += 1
            continue
        start_line, row = line, []
        while True:
            field, at, line = _field(text, at, line)
            row.append(clean_text(field))
            if at >= len(text) or text[at] == "\n":
                break
            at += 1
        rows.append((start_line, row))
        at += 1
        line += 1
    return rows


def _field(text: str, at: int, line: int) -> tuple[str, int, int]:
    # The field that begins here, where its end is (a comma, a line end, the end), and the line.
    if text[at : at + 1] != '"':
        end = min([i for i in (text.find(",", at), text.find("\n", at)) if i >= 0], default=len(text))
        field = text[at:end]
        if '"' in field:
            raise FunctionProblem(f'CSV parse error on line {line}: bare " in non-quoted-field')
        return field, end, line
    pieces: list[str] = []
    start_line, at = line, at + 1
    while True:
        quote = text.find('"', at)
        if quote < 0:
            raise FunctionProblem(f"CSV parse error on line {start_line}: {_BAD_QUOTE}")
        pieces.append(text[at:quote])
        line += text.count("\n", at, quote)
        following = text[quote + 1 : quote + 2]
        if following == '"':
            pieces.append('"')
            at = quote + 2
        elif following in {"", ",", "\n"}:
            return "".join(pieces), quote + 1, line
        else:
            raise FunctionProblem(f"CSV parse error on line {line}: {_BAD_QUOTE}")
