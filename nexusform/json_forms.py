"""Frozen records as JSON: the form of a class says what its records look like as a document.

    Form(RolloutStep, "kind stage? clusters begins_seconds=begins")

Without words a form shows every field under its own name. With them it shows what they name, in that order:

    stage              the attribute `stage`
    begins_seconds=begins   `begins` under another name; dots lead further in, as far as there is something
    vms=.              the record itself, of which a part makes the value
    stage?             null where it is empty
    [rack]             left out where it is empty
    *bounds            what its part makes, member by member

`parts` say, by key, how a value looks: a form, the words of one, or a function. They are given each element
of a list and of a mapping, never None, which stays null. What has no part looks as its class says: an enum
as its value, an address as its text, a record with all of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from nexusform.address import Address

Record = TypeVar("Record")
Part: TypeAlias = Callable[[Any], Any]
Parts: TypeAlias = Mapping[str, Part | str]

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_NO_PARTS: Final[Parts] = MappingProxyType({})


class _Member(Struct, frozen=True):
    """A member of a form's documents: what it is of, how that looks, and what becomes of it when empty."""

    key: str
    path: str
    get: Callable[[Any], Any]
    part: Part | None
    is_null_when_empty: bool = False
    is_left_out_when_empty: bool = False
    is_spread: bool = False


class Form(Generic[Record]):
    """What records of a class look like as JSON (the words are explained above)."""

    __slots__ = ("members", "of")

    def __init__(
        self, of: type[Record], words: str = "", parts: Parts = _NO_PARTS, /, **more: Part | str
    ) -> None:
        self.of = of
        self.members = tuple(_member(word, {**parts, **more}) for word in words.split() or _fields(of))

    def __call__(self, record: Record) -> dict[str, Any]:
        """A record as a document."""
        document: dict[str, Any] = {}
        for member in self.members:
            value = member.get(record)
            if member.is_left_out_when_empty and not value:
                continue
            if member.is_null_when_empty and not value:
                value = None
            made = value if value.__class__ in _PLAIN and member.part is None else _shown(value, member.part)
            if member.is_spread:
                document |= made
            else:
                document[member.key] = made
        return document


def _fields(of: type) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(of, "__struct_fields__", ())
    return names


def _member(word: str, parts: Parts) -> _Member:
    """What a word of a form says."""
    left_out, spread, null = word.startswith("["), word.startswith("*"), word.endswith("?")
    key, _, path = word.strip("[*?]").partition("=")
    part = parts.get(key)
    made = Form(Struct, part) if isinstance(part, str) else part
    return _Member(key, path or key, _getter(path or key), made, null, left_out, spread)


def _getter(path: str) -> Callable[[Any], Any]:
    """What reads the value that a path leads to; None where there is nothing on the way."""
    if path == ".":
        return _itself
    return attrgetter(path) if "." not in path else partial(_led, tuple(path.split(".")))


def _itself(record: Any) -> Any:
    return record


def _led(steps: tuple[str, ...], value: Any) -> Any:
    for step in steps:
        value = None if value is None else getattr(value, step)
    return value


def _shown(value: Any, part: Part | None) -> Any:
    """A value as JSON."""
    if value is None:
        return None
    make = part or _by_class
    if isinstance(value, tuple | list):
        return [make(each) for each in value]
    if isinstance(value, Mapping):
        return {name: make(each) for name, each in value.items()}
    return make(value)


def _by_class(value: Any) -> Any:
    """What has no part, as its class says."""
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, tuple | list | Mapping):
        return _shown(value, None)
    if isinstance(value, Struct):
        return _whole(value.__class__)(value)
    raise TypeError(f"no form says how {value.__class__.__name__} looks as JSON")


@cache
def _whole(of: type) -> Form[Any]:
    """The form of a class that shows all of its fields."""
    return Form(of)


def columns(names: str) -> Part:
    """Pairs and longer rows as objects: the names of what stands in them (`?`: null where it is empty)."""
    heads = [(name.rstrip("?"), name.endswith("?")) for name in names.split()]

    def row(values: tuple[Any, ...]) -> dict[str, Any]:
        return {
            name: _by_class(value) if value or not is_null else None
            for (name, is_null), value in zip(heads, values, strict=True)
        }

    return row


def six_places(figure: float) -> float:
    """A figure that was calculated, as far as it means something."""
    return round(figure, 6)
