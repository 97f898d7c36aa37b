"""JSON text to plain data and back: fast, exact, and able to say where something stands.

orjson does the work. It would change or refuse some values: numbers that neither 64 bits nor a float
hold, text that is no Unicode, and nesting beyond 254 levels on writing, 1,024 on reading. What holds these is
laid out here, and read by the standard library.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, make_dataclass
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from nexusform.exact_numbers import MAX_DIGITS, number_from_decimal, number_text
from nexusform.plain_data import Path, is_fraction, plain_number

if TYPE_CHECKING:
    from fractions import Fraction

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Digits become 0 and all else but points a blank, so that a long run of digits is found by a plain
# search: up to 15 of them a float holds.
_DIGITS: Final = bytes(0x30 if 0x30 <= code <= 0x39 else 0x20 for code in range(256))
_LONG_RUN: Final = b"0" * 16
_PIECE: Final = 1 << 16  # bytes; larger ones are asked of the system anew each time
_BLANK_BYTES: Final = b" \t\r\n"
_LONG_NUMBER: Final = re.compile(rb"(?<![\w\".+-])-?(?=[0-9.]{16})[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TOO_LONG: Final = re.compile(rf"[0-9]{{{MAX_DIGITS + 1},}}")
_SMALLEST: Final = -(1 << 63)
_GREATEST: Final = (1 << 64) - 1
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONGEST_INTEGER: Final = 20
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


class JsonProblem(Exception):
    """Text that is not JSON.

    `offset` counts characters of the text from 0; the message is a clause without a full stop.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the cyclic garbage collector off meanwhile: many new objects make it walk in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def as_text(data: bytes) -> str:
    """The bytes as text, for showing and locating; what is not UTF-8 becomes a replacement mark."""
    return data.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")


def loads(data: bytes) -> Any:
    """Plain data of a JSON document. Raises JsonProblem.

    Of a key written twice in one object the last value counts.
    """
    import orjson

    data = data.removeprefix(_BYTE_ORDER_MARK)
    if _has_long_runs(data) and any(map(_is_bent, _LONG_NUMBER.findall(data))):
        return _load_exactly(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        if "infinity" in problem.msg or "depth limit" in problem.msg:
            return _load_exactly(data)
        raise _explained(data, problem.msg, problem.pos) from None


def _has_long_runs(data: bytes) -> bool:
    """Whether anywhere so many digits stand in a row that a float may not hold them."""
    rest = b""
    for piece in _pieces(data):
        digits = rest + piece.translate(_DIGITS, b".")
        if _LONG_RUN in digits:
            return True
        rest = digits[-len(_LONG_RUN) :]
    return False


def _pieces(data: bytes) -> Iterator[bytes]:
    """The bytes piece by piece: what is made of a large document needs no second one of its size."""
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def keys_written_twice(data: bytes, document: Any) -> list[str]:
    """The keys that stand more than once in one object of a JSON document, each once. `document` is what
    `loads` gave of it.
    """
    import json

    # A document that is written back to the same text has lost nothing: that is told at once, and is so for
    # all that nobody has edited by hand.
    if _differ_in_blanks(dumps(document), data.removeprefix(_BYTE_ORDER_MARK)):
        return []
    twice: dict[str, None] = {}

    def note(pairs: list[tuple[str, Any]]) -> None:
        seen = set()
        for key, _ in pairs:
            if key in seen:
                twice[key] = None
            seen.add(key)

    json.loads(data.removeprefix(_BYTE_ORDER_MARK), object_pairs_hook=note, parse_int=str, parse_float=str)
    return list(twice)


def _differ_in_blanks(one: bytes, other: bytes) -> bool:
    """Whether two texts are the same but for blanks."""
    rest = b""
    pieces = _pieces(other)
    for piece in _pieces(one):
        here = piece.translate(None, _BLANK_BYTES)
        while len(rest) < len(here):
            more = next(pieces, None)
            if more is None:
                return False
            rest += more.translate(None, _BLANK_BYTES)
        if not rest.startswith(here):
            return False
        rest = rest[len(here) :]
    return not rest and all(not piece.translate(None, _BLANK_BYTES) for piece in pieces)


def _is_bent(text: bytes) -> bool:
    # Whether orjson would give another number.
    written = text.decode()
    if written.removeprefix("-").isdecimal():
        return len(written) > _LONGEST_INTEGER or not _SMALLEST <= int(written) <= _GREATEST
    return not _is_float(written)


def _is_float(text: str) -> bool:
    # Whether the nearest float stands for the same number.
    nearest = float(text)
    try:
        return isfinite(nearest) and number_from_decimal(nearest) == number_from_decimal(text)
    except OverflowError:
        return False


def _explained(data: bytes, message: str, offset: int) -> JsonProblem:
    if not data.strip():
        return JsonProblem("the document is empty", 0)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        return JsonProblem("not UTF-8 text", len(data[: problem.start].decode("utf-8", "replace")))
    return JsonProblem(message.split(": line ", maxsplit=1)[0], offset)


def _load_exactly(data: bytes) -> Any:
    import json

    try:
        text = data.decode("utf-8")
        return json.loads(text, parse_int=_exact, parse_float=_exact_decimal)
    except UnicodeDecodeError:
        raise _explained(data, "", 0) from None
    except json.JSONDecodeError as problem:
        raise JsonProblem(problem.msg.lower(), problem.pos) from None
    except RecursionError:
        raise JsonProblem("the document is nested too deeply", 0) from None
    except OverflowError:
        too_long = _TOO_LONG.search(text)
        offset = too_long.start() if too_long else 0
        raise JsonProblem(f"a number of more than {MAX_DIGITS} digits", offset) from None


def _exact(text: str) -> int | float | Fraction:
    return plain_number(number_from_decimal(text))


def _exact_decimal(text: str) -> int | float | Fraction:
    # A float wherever orjson gives that float, too.
    return float(text) if _is_float(text) else _exact(text)


def plain_mapping(value: Any) -> Any:
    """A mapping of another class as a dict. Raises TypeError for what is not plain data."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"not plain data: {type(value).__name__}")


def dumps(
    value: Any, *, indent: bool = False, sort: bool = False, default: Callable[[Any], Any] = plain_mapping
) -> bytes:
    """Plain data as JSON text, UTF-8, without a closing newline.

    `default` turns what is not plain data into it, or raises TypeError.
    """
    return _Writer(default, indent=indent, sort=sort).text(value)


def in_order(members: Mapping[str, Any]) -> Any:
    """An object that `dumps_document` writes with its members in this order."""
    return _ordered_class(tuple(members))(*members.values())


@cache
def _ordered_class(names: tuple[str, ...]) -> Callable[..., Any]:
    # The writer sorts the members of a dict, but keeps the fields of a dataclass in their order.
    return make_dataclass("Ordered", names, slots=True)


def dumps_document(document: Any) -> bytes:
    """A dataclass instance as an indented document with a closing newline.

    The fields of dataclasses stand in their own order, the members of dicts are sorted.
    """
    return _Writer(plain_mapping, indent=True, sort=True).text(document) + b"\n"


class _Open(Struct):
    """An object or a list that is being written."""

    parts: Iterator[tuple[bytes, Any]]  # a member's name with its colon, and what stands behind it
    closing: bytes
    begun: bool = False


class _Writer:
    """Plain data as text, by orjson where it can. The rest is laid out here as orjson would, on a stack of
    its own, so that depth costs no calls.

    orjson's fragments are not used: below a hundred levels orjson 3.13 closes lists behind one without
    making room for the brackets, and writes over what lies behind its buffer.
    """

    def __init__(self, default: Callable[[Any], Any], *, indent: bool, sort: bool) -> None:
        import orjson

        self._default = default
        self._sort = sort
        self._indent = b"  " if indent else b""
        self._colon = b": " if indent else b":"
        self._option = (orjson.OPT_INDENT_2 if indent else 0) | (orjson.OPT_SORT_KEYS if sort else 0)

    def text(self, value: Any) -> bytes:
        """The whole text. Raises TypeError for what is not plain data."""
        pieces: list[bytes] = []
        stack = [_Open(iter([(b"", value)]), b"")]
        while stack:
            inside = stack[-1]
            depth = len(stack) - 1
            part = next(inside.parts, None)
            if part is None:
                stack.pop()
                pieces += (self._line(depth - 1), inside.closing) if depth else ()
                continue
            if depth:
                pieces += (b"," if inside.begun else b"", self._line(depth))
            inside.begun = True
            pieces.append(part[0])
            written = self._at_once(part[1], depth)
            if written is None:
                opened, bracket = self._opened(part[1])
                stack.append(opened)
                written = bracket
            pieces.append(written)
        return b"".join(pieces)

    def _line(self, depth: int) -> bytes:
        return b"\n" + depth * self._indent if self._indent else b""

    def _at_once(self, value: Any, depth: int) -> bytes | None:
        """The text of a scalar, and of what orjson can write; None for what is to be laid out."""
        import orjson

        plain = self._plain(value)
        holds_parts = isinstance(plain, (Mapping, list, tuple)) or is_dataclass(plain)
        if holds_parts and plain and depth > _TRIED:
            return None
        try:
            text = orjson.dumps(plain, default=self._refusing_fractions, option=self._option)
        except TypeError:
            return None if holds_parts else _odd_scalar(plain)
        return text.replace(b"\n", self._line(depth)) if depth and self._indent else text

    def _opened(self, value: Any) -> tuple[_Open, bytes]:
        plain = self._plain(value)
        if isinstance(plain, (list, tuple)):
            return _Open(iter([(b"", part) for part in plain]), b"]"), b"["
        if is_dataclass(plain):
            members = [(each.name, getattr(plain, each.name)) for each in fields(plain)]
        else:
            names = sorted(plain) if self._sort else list(plain)
            members = [(name, plain[name]) for name in names]
        if not all(isinstance(name, str) for name, _ in members):
            raise TypeError("a member without a name")
        return _Open(iter([(_odd_scalar(name) + self._colon, part) for name, part in members]), b"}"), b"{"

    def _plain(self, value: Any) -> Any:
        scalar = value is None or isinstance(value, (str, int, float, list, tuple, dict))
        return value if scalar or is_dataclass(value) or is_fraction(value) else self._default(value)

    def _refusing_fractions(self, value: Any) -> Any:
        if is_fraction(value):
            raise TypeError("a fraction")
        return self._default(value)


_TRIED: Final = 4  # levels on which orjson is asked first


def _odd_scalar(value: Any) -> bytes:
    """A number of any size, or a text of any characters."""
    import json

    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=bool(_SURROGATE.search(value))).encode()
    if isinstance(value, int) or is_fraction(value):
        return number_text(value).encode()
    raise TypeError(f"not plain data: {type(value).__name__}")


# --- where in the text -------------------------------------------------------------------------

_PathTree: TypeAlias = dict[Any, Any]


def locate(text: str, paths: Iterable[Path]) -> dict[Path, int]:
    """The character offsets at which the values at these paths begin.

    `text` must be valid JSON. A path that leads to an absent member gives where the innermost
    object or list on the way begins. Only what lies on the way is walked, the rest is skipped
    at the speed of the parser.
    """
    paths = list(paths)
    tree: _PathTree = {}
    for path in paths:
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    walk = _Walk(text)
    try:
        walk.value(_skip_blanks(text, 0), (), tree)
    except (ValueError, StopIteration, IndexError, RecursionError):
        return dict.fromkeys(paths, 0)
    return {path: _nearest(path, walk.offsets) for path in paths}


def _nearest(path: Path, offsets: Mapping[Path, int]) -> int:
    while path not in offsets and path:
        path = path[:-1]
    return offsets.get(path, 0)


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


class _Walk:
    """A walk through one text along the wanted paths."""

    def __init__(self, text: str) -> None:
        import json

        self._text = text
        self._skip: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().raw_decode
        self.offsets: dict[Path, int] = {}

    def value(self, at: int, path: Path, tree: _PathTree) -> int:
        """Note where the value at `at` and the wanted ones inside it begin; give its end."""
        text = self._text
        self.offsets[path] = at
        if not tree or text[at] not in "{[":
            return self._skip(text, at)[1]
        closing = "}" if text[at] == "{" else "]"
        index = 0
        at = _skip_blanks(text, at + 1)
        while text[at] != closing:
            step: str | int = index
            if closing == "}":
                key, at = self._skip(text, at)
                step, at = str(key), _skip_blanks(text, _skip_blanks(text, at) + 1)
            at = self.value(at, (*path, step), tree[step]) if step in tree else self._skip(text, at)[1]
            at = _skip_blanks(text, at)
            if text[at] == ",":
                at = _skip_blanks(text, at + 1)
            index += 1
        return at + 1
