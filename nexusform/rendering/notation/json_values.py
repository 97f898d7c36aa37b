"""Plain data as JSON shows it: unknown leaves left out, masks beside it, secrets redacted; large documents
are written piece by piece, so that none stands in memory as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from nexusform.plain_data import Path
from nexusform.rendering.notation.colours import UNSEEN, harmless
from nexusform.rendering.notation.hcl_text import trie
from nexusform.state import json_text
from nexusform.value_types import (
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
    type_to_json,
)
from nexusform.values import UNKNOWN

# What is written by its number: what nobody sees, and what makes a command of a line of a log.
_NUMBERED: Final = re.compile(rf"{UNSEEN}|(?<=#)#(?=\[|vso\[)")
REDACTED: Final = "(sensitive value)"


def known_part(plain: Any) -> Any:
    """The data without its unknown leaves: properties left out, list elements null."""
    if plain is UNKNOWN:
        return None
    if isinstance(plain, Mapping):
        return {name: known_part(part) for name, part in plain.items() if part is not UNKNOWN}
    if _is_list(plain):
        return [known_part(part) for part in plain]
    return plain


def _is_list(plain: Any) -> bool:
    return plain.__class__ is list or plain.__class__ is tuple


def unknown_mask(plain: Any) -> Any:
    """True at unknown leaves; objects name only what holds one, a wholly known container is empty."""
    if plain is UNKNOWN:
        return True
    if isinstance(plain, Mapping):
        masks = {name: unknown_mask(part) for name, part in plain.items()}
        return {name: mask for name, mask in masks.items() if mask}
    if _is_list(plain):
        elements = [unknown_mask(part) for part in plain]
        return elements if any(elements) else []
    return False


def sensitive_mask(plain: Any, marks: Any) -> Any:
    """True at sensitive parts, in the shape of the data as `unknown_mask`."""
    if marks is True:
        return True
    inside = marks or {}
    if isinstance(plain, Mapping):
        marked = [name for name in plain if name in inside]
        masks = {name: sensitive_mask(plain[name], inside[name]) for name in marked}
        return {name: mask for name, mask in masks.items() if mask}
    if not _is_list(plain):
        return False
    if not inside:
        return []
    return [sensitive_mask(part, inside.get(index)) for index, part in enumerate(plain)]


def redacted(plain: Any, marks: Any) -> Any:
    """The data with its sensitive parts hidden: text becomes "(sensitive value)", a map or object becomes
    empty (its keys may be the secret), the rest null.
    """
    if marks is None:
        return plain
    if isinstance(plain, Mapping):
        inside = {} if marks is True else plain
        return {name: redacted(part, marks.get(name)) for name, part in inside.items()}
    if _is_list(plain):
        inner = [True] * len(plain) if marks is True else [marks.get(index) for index in range(len(plain))]
        return [redacted(part, mark) for part, mark in zip(plain, inner, strict=True)]
    if marks is not True:
        return plain
    return REDACTED if plain.__class__ is str else None


def shown(plain: Any, sensitive: Iterable[Path], *, show_sensitive: bool) -> Any:
    """The known part of the data, redacted unless `show_sensitive`."""
    known = known_part(plain)
    return known if show_sensitive else redacted(known, trie(sensitive))


def shown_type(of: Type, *, hidden: bool) -> Any:
    """A type as JSON. Where the value is hidden, one that names parts is "dynamic": it would show keys."""
    return "dynamic" if hidden and _names_parts(of) else type_to_json(of)


def _names_parts(of: Type) -> bool:
    if isinstance(of, TupleType):
        return any(map(_names_parts, of.elements))
    if isinstance(of, ListType | MapType | SetType):
        return _names_parts(of.element)
    return isinstance(of, ObjectType)


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
    r"""One value as JSON. Numbers of any size and lone surrogates are written too.

    What nobody sees, or a CI system would obey where it stands in a log, is written by its number, which
    means the same: `\u202e`, `#\u0023[`.
    """
    data = json_text.dumps(value, indent=pretty)
    if data.isascii() and b"##" not in data:
        return data
    text = _NUMBERED.sub(_by_number, data.decode())
    return text.encode()


def spelled_out(document: Any) -> Any:
    """A plain document for people to read: unseen characters of its texts are written as text."""
    if isinstance(document, str):
        return harmless(document)
    if isinstance(document, Mapping):
        return {harmless(name): spelled_out(part) for name, part in document.items()}
    if isinstance(document, list | tuple):
        return [spelled_out(part) for part in document]
    return document


def _by_number(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
