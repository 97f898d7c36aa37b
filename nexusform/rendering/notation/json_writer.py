"""Large JSON documents written piece by piece, so that none stands in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from nexusform.state import json_text


class Rows:
    """A JSON array whose items are made while it is written; it can be gone through again."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return iter(self._make())


class Section(dict[str, Any]):
    """A JSON object that holds Rows (or Sections that do)."""


class Sink(Protocol):
    """Where bytes go: a file opened for binary writing, or a buffer."""

    def write(self, data: bytes, /) -> Any:
        """Take some bytes."""
        ...


_INDENT: Final = b"  "


def write_json(document: Any, out: Sink, *, pretty: bool = False) -> None:
    """Write a document as UTF-8, with a newline at the end. `pretty` indents by two spaces."""
    _write(document, out, b"", pretty=pretty)
    out.write(b"\n")


def json_bytes(document: Any, *, pretty: bool = False) -> bytes:
    """The whole document as bytes."""
    from io import BytesIO

    buffer = BytesIO()
    write_json(document, buffer, pretty=pretty)
    return buffer.getvalue()


def materialised(document: Any) -> Any:
    """The document as ordinary dicts and lists."""
    if isinstance(document, Section):
        return {name: materialised(part) for name, part in document.items()}
    if isinstance(document, Rows):
        return [materialised(row) for row in document]
    return document


def _write(value: Any, out: Sink, margin: bytes, *, pretty: bool) -> None:
    """Write one value; `margin` stands before each of its further lines."""
    if isinstance(value, Section):
        colon = b": " if pretty else b":"
        pairs = ((encoded(name) + colon, part) for name, part in value.items())
        _enclosed(b"{}", pairs, out, margin, pretty=pretty)
    elif isinstance(value, Rows):
        _enclosed(b"[]", ((b"", part) for part in value), out, margin, pretty=pretty)
    else:
        data = encoded(value, pretty=pretty)
        # A newline never stands inside a JSON string, so every one of them ends a line.
        out.write(data.replace(b"\n", b"\n" + margin) if pretty and margin else data)


def _enclosed(
    brackets: bytes, parts: Iterable[tuple[bytes, Any]], out: Sink, margin: bytes, *, pretty: bool
) -> None:
    """Write parts, each after its prefix, between brackets."""
    out.write(brackets[:1])
    inner = margin + _INDENT
    between = b"\n" + inner if pretty else b""
    separator = b""
    for prefix, part in parts:
        out.write(separator + between + prefix)
        _write(part, out, inner, pretty=pretty)
        separator = b","
    if separator and pretty:
        out.write(b"\n" + margin)
    out.write(brackets[1:])


def encoded(value: Any, *, pretty: bool = False) -> bytes:
    """One value as JSON. Numbers of any size and lone surrogates are written too."""
    return json_text.dumps(value, indent=pretty)
