"""Frozen records as JSON: the form of a class defines the document of its records.

Example: `RecordForm(RolloutStep, "kind stage? clusters begins_seconds=begins")`. Without words a
form contains every field under its own name. With words it contains these, in that order: `stage`
is the attribute `stage`; `begins_seconds=begins` is `begins` under another name, and dots follow
attributes, as far as they are not None; `vms=.` is the record itself, converted by a part;
`stage?` is null if it is empty; `[rack]` is omitted if it is empty; `*bounds` adds the members
created by its part.

`parts` define the conversion of values, by key: a form, the words of one, or a function. They are
called for each element of a list and of a mapping, never for None, which stays null. Values without
a part are converted by their class: an enum to its value, an address to its text, a record to all
of its fields.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from nexusform.resources.address import Address

Record = TypeVar("Record")
Part: TypeAlias = Callable[[Any], Any]
Parts: TypeAlias = Mapping[str, Part | str]

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_NO_PARTS: Final[Parts] = MappingProxyType({})


class _FormMember(Struct, frozen=True):
    """Member of a form's documents: its source, its conversion, and its treatment if empty."""

    key: str
    path: str
    get_value: Callable[[Any], Any]
    convert: Part
    is_null_when_empty: bool = False
    is_omitted_when_empty: bool = False
    is_spread: bool = False


class RecordForm(Generic[Record]):
    """JSON form of the records of a class (the words are explained above)."""

    __slots__ = ("members", "record_class")

    def __init__(
        self,
        record_class: type[Record],
        member_spec: str = "",
        parts: Parts = _NO_PARTS,
        /,
        **further_parts: Part | str,
    ) -> None:
        """Create the form from the words of `member_spec`.

        Words are, for example, `key`, `key=source`, `key?`, `[key]` and `*key`. `?` makes an empty
        value null, brackets omit it, and `*` adds the members created by the part of this key.
        `parts` and `further_parts` convert the values, by key.
        """
        self.record_class = record_class
        members = []
        # Without words: all fields.
        for word in member_spec.split() or getattr(record_class, "__struct_fields__", []):
            is_omitted = word.startswith("[")
            is_spread = word.startswith("*")
            is_null = word.endswith("?")
            # Of "[key=source]", "*key=source" or "key=source?".
            key, _, source = word.strip("[*?]").partition("=")
            path = source or key
            part = {**parts, **further_parts}.get(key, _convert_value_by_class)
            # A text is another `member_spec`.
            convert = RecordForm(Struct, part) if isinstance(part, str) else part
            members.append(
                _FormMember(key, path, _build_getter(path), convert, is_null, is_omitted, is_spread)
            )
        self.members = tuple(members)

    def __call__(self, record: Record) -> dict[str, Any]:
        """Convert a record to a document."""
        document: dict[str, Any] = {}
        for member in self.members:
            value = member.get_value(record)
            # Empty, also 0 and False.
            if not value:
                if member.is_omitted_when_empty:
                    continue
                if member.is_null_when_empty:
                    value = None
            # The default conversion leaves plain values as they are.
            if value.__class__ not in _PLAIN or member.convert is not _convert_value_by_class:
                value = _convert_value(value, member.convert)
            # The entries of its value become members.
            if member.is_spread:
                document |= value
            else:
                document[member.key] = value
        return document


def _build_getter(path: str) -> Callable[[Any], Any]:
    """Build the function to read a path such as "a.b" of a record, None if its "a" is None.

    "." is the record.
    """
    if path == ".":
        return lambda record: record
    return (
        attrgetter(path)
        if "." not in path
        else partial(_read_value_at_path, tuple(path.split(".")))
    )


def _read_value_at_path(steps: tuple[str, ...], value: Any) -> Any:
    for step in steps:
        value = None if value is None else getattr(value, step)
    return value


def _convert_value(value: Any, convert: Part) -> Any:
    """Convert a value, or each element of a list or mapping; None stays None."""
    if value is None:
        return None
    if isinstance(value, tuple | list):
        return list(map(convert, value))
    if isinstance(value, Mapping):
        return {name: convert(element) for name, element in value.items()}
    return convert(value)


def _convert_value_by_class(value: Any) -> Any:
    """Convert a value by its class.

    This is the default; a part of a form has a conversion of its own.
    """
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, tuple | list | Mapping):
        return _convert_value(value, _convert_value_by_class)
    if isinstance(value, Struct):
        return _build_full_form(value.__class__)(value)
    raise TypeError(f"no JSON form for {value.__class__.__name__}")


# With all fields, one per class of records.
_build_full_form: Final = cache(RecordForm)


def build_row_form(names: str) -> Part:
    """Return a function that converts a tuple to an object with the keys `names`.

    The names are separated by spaces. Example: `build_row_form("site count")(("a", 2))` is
    `{"site": "a", "count": 2}`.
    """
    keys = names.split()

    def convert_row(row: tuple[Any, ...]) -> dict[str, Any]:
        return {key: _convert_value_by_class(value) for key, value in zip(keys, row, strict=True)}

    return convert_row


def round_to_six_places(figure: float) -> float:
    """Round a computed figure to six decimal places."""
    return round(figure, 6)
