"""JSON of plain data: unknown values dropped, masks added, secrets redacted.

Large ones are written in pieces.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from nexusform.diagnostics.names import INVISIBLE_PATTERN, escape_control_characters
from nexusform.json_data.plain_data import Path
from nexusform.rendering.notation.hcl_text import build_path_trie
from nexusform.schemas.value_types import (
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
    build_type_json,
)
from nexusform.state import json_codec
from nexusform.values.typed_value import UNKNOWN

# Written as code points: invisible characters and prefixes of CI log commands.
_ESCAPED_CHARACTERS: Final = re.compile(rf"{INVISIBLE_PATTERN}|(?<=#)#(?=\[|vso\[)")
REDACTED: Final = "(sensitive value)"


def drop_unknown_values(plain: Any) -> Any:
    """Return the data without unknown values: properties are dropped, list elements become null."""
    if plain is UNKNOWN:
        return None
    if isinstance(plain, Mapping):
        return {
            name: drop_unknown_values(part) for name, part in plain.items() if part is not UNKNOWN
        }
    if _is_list(plain):
        return list(map(drop_unknown_values, plain))
    return plain


def omit_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an object without null, false, 0 and empty values."""
    return {name: value for name, value in document.items() if value}


def _is_list(plain: Any) -> bool:
    return plain.__class__ is list or plain.__class__ is tuple


def build_unknown_mask(plain: Any) -> Any:
    """Build Terraform's mask of a value, as in `after_unknown`.

    It is True for an unknown value, and False for a known scalar. For an object it is
    `{"id": true}` without the known attributes; for a list `[false, true]`, or [] if all are known.
    """
    if plain is UNKNOWN:
        return True
    if isinstance(plain, Mapping):
        return omit_empty({name: build_unknown_mask(part) for name, part in plain.items()})
    if _is_list(plain):
        elements = list(map(build_unknown_mask, plain))
        return elements if any(elements) else []
    return False


def build_sensitive_mask(plain: Any, marks: Any) -> Any:
    """Build Terraform's mask of a value, as in `before_sensitive`.

    The mask has True in place of each sensitive part. It is True for a value sensitive as a whole,
    and False for another scalar. For an object it is `{"key": true}` without the other keys; for a
    list `[false, true]`, or [] if no element is sensitive. `marks` is True if the whole value is
    sensitive, None if nothing is, else the marks of parts by name or position.
    """
    if marks is True:
        return True
    part_marks = marks or {}
    if isinstance(plain, Mapping):
        marked = [name for name in plain if name in part_marks]
        return omit_empty(
            {name: build_sensitive_mask(plain[name], part_marks[name]) for name in marked}
        )
    if not _is_list(plain):
        return False
    # No element is sensitive.
    if not part_marks:
        return []
    return [build_sensitive_mask(part, part_marks.get(index)) for index, part in enumerate(plain)]


def redact_value(plain: Any, marks: Any) -> Any:
    """Return the data with its sensitive parts hidden.

    A sensitive text becomes "(sensitive value)", a number or boolean None. A map becomes empty,
    because its keys may be secret, and a list keeps its length. `marks` is True if the whole value
    is sensitive, None if nothing is, else the marks of parts: `{"password": True}`.
    """
    if marks is None:
        return plain
    if isinstance(plain, Mapping):
        if marks is True:
            return {}
        return {name: redact_value(part, marks.get(name)) for name, part in plain.items()}
    if _is_list(plain):
        part_marks = (
            [True] * len(plain) if marks is True else list(map(marks.get, range(len(plain))))
        )
        return [redact_value(part, mark) for part, mark in zip(plain, part_marks, strict=True)]
    # A scalar has no marks of parts.
    if marks is not True:
        return plain
    return REDACTED if plain.__class__ is str else None


def build_visible_value(plain: Any, sensitive: Iterable[Path], *, show_sensitive: bool) -> Any:
    """Return the known part of the data, redacted unless `show_sensitive`."""
    known = drop_unknown_values(plain)
    return known if show_sensitive else redact_value(known, build_path_trie(sensitive))


def build_visible_type(value_type: Type, *, is_hidden: bool) -> Any:
    """Return a type as JSON.

    A hidden value with named parts has the type "dynamic", because the keys may be secret.
    """
    return "dynamic" if is_hidden and _has_named_parts(value_type) else build_type_json(value_type)


def _has_named_parts(value_type: Type) -> bool:
    """Return whether a type is an object type, or contains one."""
    if isinstance(value_type, TupleType):
        return any(map(_has_named_parts, value_type.elements))
    if isinstance(value_type, ListType | MapType | SetType):
        return _has_named_parts(value_type.element)
    return isinstance(value_type, ObjectType)


class LazyArray:
    """A JSON array with items created during writing.

    It can be iterated several times.
    """

    __slots__ = ("_create_items",)

    def __init__(self, create_items: Callable[[], Iterable[Any]]) -> None:
        self._create_items = create_items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._create_items())


class LazyObject(dict[str, Any]):
    """A JSON object with lazy arrays, directly or in nested objects."""


class BinaryOutput(Protocol):
    """A binary output: a file or a buffer."""

    def write(self, data: bytes, /) -> Any:
        """Write some bytes; the result is not used."""
        ...


_INDENT: Final = b"  "


def write_json(document: Any, out: BinaryOutput, *, pretty: bool = False) -> None:
    """Write a document as UTF-8 with a newline at the end.

    `pretty` indents by two spaces.
    """
    _write_value(document, out, b"", pretty=pretty)
    out.write(b"\n")


def encode_document(document: Any, *, pretty: bool = False) -> bytes:
    """Encode the whole document as bytes."""
    from io import BytesIO

    buffer = BytesIO()
    write_json(document, buffer, pretty=pretty)
    return buffer.getvalue()


def expand_document(document: Any) -> Any:
    """Return the document as ordinary dicts and lists."""
    if isinstance(document, LazyObject):
        return {name: expand_document(part) for name, part in document.items()}
    if isinstance(document, LazyArray):
        return list(map(expand_document, document))
    return document


def _write_value(value: Any, out: BinaryOutput, margin: bytes, *, pretty: bool) -> None:
    """Write one value as JSON; `margin` precedes each of its lines but the first.

    The parts of a LazyObject or LazyArray are written one by one; any other value is encoded
    as a whole.
    """
    if isinstance(value, LazyObject):
        colon = b": " if pretty else b":"
        pairs = ((encode_value(name) + colon, part) for name, part in value.items())
        _write_bracketed_parts(b"{}", pairs, out, margin, pretty=pretty)
    elif isinstance(value, LazyArray):
        _write_bracketed_parts(b"[]", ((b"", part) for part in value), out, margin, pretty=pretty)
    else:
        data = encode_value(value, pretty=pretty)
        # JSON strings contain no raw newline, so each newline ends a line.
        out.write(data.replace(b"\n", b"\n" + margin) if pretty and margin else data)


def _write_bracketed_parts(
    brackets: bytes,
    parts: Iterable[tuple[bytes, Any]],
    out: BinaryOutput,
    margin: bytes,
    *,
    pretty: bool,
) -> None:
    """Write (prefix, value) pairs between brackets.

    The prefix is the name with a colon in an object, else empty.
    """
    out.write(brackets[:1])
    inner = margin + _INDENT
    line_start = b"\n" + inner if pretty else b""
    separator = b""
    for prefix, part in parts:
        out.write(separator + line_start + prefix)
        _write_value(part, out, inner, pretty=pretty)
        separator = b","
    # Not inside empty brackets.
    if separator and pretty:
        out.write(b"\n" + margin)
    out.write(brackets[1:])


def encode_value(value: Any, *, pretty: bool = False) -> bytes:
    """Encode one value as JSON with numbers of any size.

    Unsafe characters and CI log commands are escaped.
    """
    data = json_codec.render_json(value, indent=pretty)
    # Nothing to escape, as in most values.
    if data.isascii() and b"##" not in data:
        return data
    return _ESCAPED_CHARACTERS.sub(_escape_code_units, data.decode()).encode()


def escape_texts(document: Any) -> Any:
    """Return a plain document with invisible characters escaped in all texts."""
    if isinstance(document, str):
        return escape_control_characters(document)
    if isinstance(document, Mapping):
        return {
            escape_control_characters(name): escape_texts(part) for name, part in document.items()
        }
    if isinstance(document, list | tuple):
        return list(map(escape_texts, document))
    return document


def _escape_code_units(match: re.Match[str]) -> str:
    # JSON escapes UTF-16 code units, such as \ud83d\ude00.
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
