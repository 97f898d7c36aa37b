"""Conversion of JSON text to plain data and back.

It is fast and exact, with positions of values. orjson does the work. It would change or reject some
values: numbers beyond 64 bits and floats, text that is not Unicode, and nesting beyond 254 levels
on writing, 1,024 on reading. Those are rendered here, and read by the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, make_dataclass
from functools import cache, partial
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from nexusform.json_data.plain_data import Path, convert_number, is_fraction
from nexusform.values.typed_value import MAX_DIGITS, convert_decimal, format_number

if TYPE_CHECKING:
    from fractions import Fraction

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Digits become 0 and other characters but points become blanks, so a plain search finds a long run
# of digits. A float holds up to 15 of them.
_DIGITS: Final = bytes(0x30 if 0x30 <= code <= 0x39 else 0x20 for code in range(256))
_LONG_RUN: Final = b"0" * 16
# Bytes; larger ones are allocated from the system each time.
_CHUNK_SIZE: Final = 1 << 16
_BLANK_BYTES: Final = b" \t\r\n"
_LONG_NUMBER: Final = re.compile(
    rb"(?<![\w\".+-])-?(?=[0-9.]{16})[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
)
_LONG_DIGITS: Final = re.compile(rf"[0-9]{{{MAX_DIGITS + 1},}}")
_MIN_INTEGER: Final = -(1 << 63)
_MAX_INTEGER: Final = (1 << 64) - 1
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAX_INTEGER_LENGTH: Final = 20
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


class JsonProblem(Exception):
    """Text that is not JSON.

    `offset` counts its characters from 0; the message is a clause without a full stop.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def decode_text_for_display(data: bytes) -> str:
    """Decode the bytes for display and location; invalid UTF-8 becomes a replacement character."""
    return data.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")


def parse_json(data: bytes) -> Any:
    """Parse a JSON document to plain data.

    Raises JsonProblem. The last value of a duplicate key counts.
    """
    import orjson

    data = data.removeprefix(_BYTE_ORDER_MARK)
    # The fast search finds most documents to be without long numbers.
    if _has_long_digit_runs(data) and any(map(_is_changed_by_orjson, _LONG_NUMBER.findall(data))):
        # The library orjson would round a number.
        return _parse_exact_numbers(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        # Limits of orjson alone.
        if "infinity" in problem.msg or "depth limit" in problem.msg:
            return _parse_exact_numbers(data)
        raise _build_json_problem(data, problem.msg, problem.pos) from None


def _has_long_digit_runs(data: bytes) -> bool:
    """Return whether a number may be too long for orjson.

    It has a run of digits as long as _LONG_RUN.
    """
    tail = b""
    for chunk in _split_chunks(data):
        # 0 for each digit, a blank for any other byte, no points.
        digits = tail + chunk.translate(_DIGITS, b".")
        if _LONG_RUN in digits:
            return True
        # A run may continue in the next chunk.
        tail = digits[-len(_LONG_RUN) :]
    return False


def _split_chunks(data: bytes) -> Iterator[bytes]:
    """Split the bytes into chunks, so that no second copy of a large document is needed."""
    return (data[start : start + _CHUNK_SIZE] for start in range(0, len(data), _CHUNK_SIZE))


def find_duplicate_keys(data: bytes, document: Any) -> list[str]:
    """Return the keys that occur more than once in one object.

    `document` is parsed by `parse_json`.
    """
    import json

    # Fast path: a document with the same text when rendered again has lost nothing, as
    # every unedited file.
    if _is_equal_without_blanks(render_json(document), data.removeprefix(_BYTE_ORDER_MARK)):
        return []
    duplicates: dict[str, None] = {}
    collect = partial(_collect_duplicate_keys, duplicates)
    json.loads(
        data.removeprefix(_BYTE_ORDER_MARK),
        object_pairs_hook=collect,
        parse_int=str,
        parse_float=str,
    )
    # Filled by `collect`; numbers stay texts, as only keys count.
    return list(duplicates)


def _collect_duplicate_keys(duplicates: dict[str, None], pairs: list[tuple[str, Any]]) -> None:
    """Add the duplicate keys of one object to the `duplicates` found so far.

    The object is given as its pairs.
    """
    known_keys = set()
    for key, _ in pairs:
        if key in known_keys:
            duplicates[key] = None
        known_keys.add(key)


def _is_equal_without_blanks(first: bytes, second: bytes) -> bool:
    """Check whether two texts are equal except for blanks."""
    # Bytes of `second` without blanks, read but not compared yet.
    buffer = b""
    chunks = _split_chunks(second)
    for chunk in _split_chunks(first):
        expected = chunk.translate(None, _BLANK_BYTES)
        while len(buffer) < len(expected):
            next_chunk = next(chunks, None)
            if next_chunk is None:
                return False
            buffer += next_chunk.translate(None, _BLANK_BYTES)
        if not buffer.startswith(expected):
            return False
        buffer = buffer[len(expected) :]
    return not buffer and all(not chunk.translate(None, _BLANK_BYTES) for chunk in chunks)


def _is_changed_by_orjson(text: bytes) -> bool:
    """Return whether orjson would return another number."""
    literal = text.decode()
    if literal.removeprefix("-").isdecimal():
        return (
            len(literal) > _MAX_INTEGER_LENGTH or not _MIN_INTEGER <= int(literal) <= _MAX_INTEGER
        )
    return not _is_exact_float(literal)


def _is_exact_float(text: str) -> bool:
    """Return whether the nearest float is the same number."""
    nearest = float(text)
    try:
        return isfinite(nearest) and convert_decimal(nearest) == convert_decimal(text)
    except OverflowError:
        return False


def _build_json_problem(data: bytes, message: str, offset: int) -> JsonProblem:
    """Build the problem of an invalid document.

    It is empty, is no UTF-8, or has the parser's `message` without its position.
    """
    if not data.strip():
        return JsonProblem("the document is empty", offset=0)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        return JsonProblem("not UTF-8 text", len(data[: problem.start].decode("utf-8", "replace")))
    return JsonProblem(message.split(": line ", maxsplit=1)[0], offset)


def _parse_exact_numbers(data: bytes) -> Any:
    """Parse by the standard library, with numbers of any size.

    Raises JsonProblem.
    """
    import json

    from nexusform.json_data.plain_data import unify_json_error

    try:
        text = data.decode("utf-8")
        return json.loads(text, parse_int=_parse_number, parse_float=_parse_decimal)
    except UnicodeDecodeError:
        # It finds the invalid byte.
        raise _build_json_problem(data, message="", offset=0) from None
    except json.JSONDecodeError as problem:
        error = unify_json_error(problem)
        raise JsonProblem(error.msg.lower(), error.pos) from None
    except RecursionError:
        raise JsonProblem("the document is nested too deeply", offset=0) from None
    except OverflowError:
        too_long = _LONG_DIGITS.search(text)
        offset = too_long.start() if too_long else 0
        raise JsonProblem(f"a number of more than {MAX_DIGITS} digits", offset) from None


def _parse_number(text: str) -> int | float | Fraction:
    return convert_number(convert_decimal(text))


def _parse_decimal(text: str) -> int | float | Fraction:
    # A float as by orjson.
    return float(text) if _is_exact_float(text) else _parse_number(text)


def convert_mapping(value: Any) -> Any:
    """Convert a mapping of another class to a dict.

    Raises TypeError for other values.
    """
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"not plain data: {type(value).__name__}")


def render_json(
    value: Any,
    *,
    indent: bool = False,
    sort: bool = False,
    default: Callable[[Any], Any] = convert_mapping,
) -> bytes:
    """Render plain data as JSON text, UTF-8, without a closing newline.

    `default` converts other values to plain data, or raises TypeError.
    """
    return _JsonWriter(default, indent=indent, sort=sort).render(value)


def build_ordered_object(members: Mapping[str, Any]) -> Any:
    """Build an object that `render_document` writes with its members in this order."""
    return _create_ordered_members_class(tuple(members))(*members.values())


@cache
def _create_ordered_members_class(names: tuple[str, ...]) -> Callable[..., Any]:
    # The writer sorts the members of a dict, but keeps the fields of a dataclass in their order.
    return make_dataclass("Ordered", names, slots=True)


def render_document(document: Any) -> bytes:
    """Render a dataclass instance as an indented document with a closing newline.

    The fields of dataclasses keep their order, the members of dicts are sorted.
    """
    return _JsonWriter(convert_mapping, indent=True, sort=True).render(document) + b"\n"


class _OpenContainer(Struct):
    """Object or list during rendering."""

    # A member's name with its colon, and its value.
    parts: Iterator[tuple[bytes, Any]]
    closing: bytes
    has_parts: bool = False


class _JsonWriter:
    """Renderer of plain data, by orjson if possible.

    The rest is rendered here as orjson would, on an explicit stack, so that depth costs no calls.
    orjson's fragments are not used: below a hundred levels orjson 3.13 closes lists after one
    without making room for the brackets, and writes beyond its buffer.
    """

    def __init__(self, default: Callable[[Any], Any], *, indent: bool, sort: bool) -> None:
        """Set the options of orjson.

        `default` converts values unknown to it, `sort` sorts object members by name.
        """
        import orjson

        self._default = default
        self._sort = sort
        self._indent = b""
        self._colon = b":"
        self._option = 0
        if indent:
            self._indent = b"  "
            self._colon = b": "
            self._option = orjson.OPT_INDENT_2
        if sort:
            self._option |= orjson.OPT_SORT_KEYS

    def render(self, value: Any) -> bytes:
        """Render the whole text, without recursion for any depth.

        Raises TypeError for values other than plain data.
        """
        chunks: list[bytes] = []
        # Depth 0 has the whole value as its only part.
        stack = [_OpenContainer(iter([(b"", value)]), b"")]
        while stack:
            container = stack[-1]
            depth = len(stack) - 1
            part = next(container.parts, None)
            if part is None:
                stack.pop()
                chunks += (self._build_line_break(depth - 1), container.closing) if depth else ()
                continue
            if depth:
                chunks += (b"," if container.has_parts else b"", self._build_line_break(depth))
            container.has_parts = True
            name_with_colon, part_value = part
            # A text in one piece is returned without a copy.
            if name_with_colon:
                chunks.append(name_with_colon)
            rendered = self._render_directly(part_value, depth)
            if rendered is None:
                new_container, bracket = self._open_container(part_value)
                stack.append(new_container)
                rendered = bracket
            chunks.append(rendered)
        return b"".join(chunks)

    def _build_line_break(self, depth: int) -> bytes:
        return b"\n" + depth * self._indent if self._indent else b""

    def _render_directly(self, value: Any, depth: int) -> bytes | None:
        """Render a value with orjson.

        Return None for a container that `render` must render part by part. orjson rejects some
        values, such as fractions. A rejected scalar is rendered here, a container with one is not.
        """
        import orjson

        plain_value = self._convert_value(value)
        holds_parts = isinstance(plain_value, (Mapping, list, tuple)) or is_dataclass(plain_value)
        if holds_parts and plain_value and depth > _ORJSON_DEPTH:
            # A value in it may fail below: an attempt at every level would take quadratic time.
            return None
        try:
            text = orjson.dumps(plain_value, default=self._reject_fraction, option=self._option)
        except TypeError:
            return None if holds_parts else _render_scalar(plain_value)
        # Indented as its container.
        return text.replace(b"\n", self._build_line_break(depth)) if depth else text

    def _open_container(self, value: Any) -> tuple[_OpenContainer, bytes]:
        """Return a list, dataclass or mapping as a container, and its opening bracket.

        The container has the parts that are still to render. A part is a pair of rendered name with
        colon (b"" in a list) and value, for example (b'"a":', 1).
        """
        plain_value = self._convert_value(value)
        if isinstance(plain_value, (list, tuple)):
            elements = [(b"", part) for part in plain_value]
            return _OpenContainer(iter(elements), b"]"), b"["
        if is_dataclass(plain_value):
            members = [
                (field.name, getattr(plain_value, field.name)) for field in fields(plain_value)
            ]
        else:
            names = sorted(plain_value) if self._sort else plain_value
            members = [(name, plain_value[name]) for name in names]
        if not all(isinstance(name, str) for name, _ in members):
            raise TypeError("a member without a name")
        named_parts = [(_render_scalar(name) + self._colon, part) for name, part in members]
        return _OpenContainer(iter(named_parts), b"}"), b"{"

    def _convert_value(self, value: Any) -> Any:
        """Return a value to render.

        Plain data, fractions and dataclasses stay as they are; others are converted.
        """
        is_plain = isinstance(value, (str, int, float, list, tuple, dict, NoneType))
        if is_plain or is_dataclass(value) or is_fraction(value):
            return value
        return self._default(value)

    # Called by orjson for values other than plain data.
    def _reject_fraction(self, value: Any) -> Any:
        if is_fraction(value):
            # `render` then writes the parts around it one by one.
            raise TypeError("a fraction")
        return self._default(value)


# Maximum depth at which orjson is tried first.
_ORJSON_DEPTH: Final = 4


def _render_scalar(value: Any) -> bytes:
    """Render a number of any size, or a text of any characters.

    Half of a surrogate pair, such as a byte of a path that is not UTF-8, is no JSON that can be
    read again: it is replaced, as in all values.
    """
    import json

    if isinstance(value, str):
        return json.dumps(_SURROGATE.sub("\ufffd", value), ensure_ascii=False).encode()
    if isinstance(value, int) or is_fraction(value):
        return format_number(value).encode()
    raise TypeError(f"not plain data: {type(value).__name__}")


_PathTree: TypeAlias = dict[Any, Any]


def locate_json_values(text: str, paths: Iterable[Path]) -> dict[Path, int]:
    """Return the character offsets of the values at these paths.

    All are 0 if the text is no valid JSON, or too deep. For an absent member, the offset is that of
    its innermost existing object or list. Only containers on the paths are scanned, the rest is
    skipped at the speed of the parser.
    """
    paths = list(paths)
    # The steps of all paths, nested.
    tree: _PathTree = {}
    for path in paths:
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    scanner = _JsonScanner(text)
    try:
        scanner.scan_value(_skip_blanks(text, 0), path=(), tree=tree)
    except (ValueError, StopIteration, IndexError, RecursionError):
        return dict.fromkeys(paths, 0)
    offsets: dict[Path, int] = {}
    for path in paths:
        nearest_path = path
        while nearest_path not in scanner.offsets and nearest_path:
            # The innermost existing container.
            nearest_path = nearest_path[:-1]
        offsets[path] = scanner.offsets.get(nearest_path, 0)
    return offsets


# The offset after them.
def _skip_blanks(text: str, offset: int) -> int:
    match = _BLANKS.match(text, offset)
    assert match is not None, "the pattern matches no blanks, too"
    return match.end()


class _JsonScanner:
    """Scanner of one text along the wanted paths."""

    def __init__(self, text: str) -> None:
        # Only documents with a mistake are scanned.
        import json

        self._text = text
        self._decode_value: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().raw_decode
        # Of the values found, by path.
        self.offsets: dict[Path, int] = {}

    def scan_value(self, offset: int, path: Path, tree: _PathTree) -> int:
        """Record the offset of the value at `offset`, and the offsets of its parts in `tree`.

        Return its end. If `tree` is {}, no offset in the value is needed.
        """
        text = self._text
        self.offsets[path] = offset
        if not tree or text[offset] not in "{[":
            return self._decode_value(text, offset)[1]  # its end
        closing = "}" if text[offset] == "{" else "]"
        index = 0
        offset = _skip_blanks(text, offset + 1)
        while text[offset] != closing:
            # Of a list; the key in an object.
            step: str | int = index
            if closing == "}":
                key, offset = self._decode_value(text, offset)
                # Past the colon.
                step = str(key)
                offset = _skip_blanks(text, _skip_blanks(text, offset) + 1)
            if step in tree:
                offset = self.scan_value(offset, (*path, step), tree[step])
            else:
                offset = self._decode_value(text, offset)[1]
            offset = _skip_blanks(text, offset)
            if text[offset] == ",":
                offset = _skip_blanks(text, offset + 1)
            index += 1
        return offset + 1
