"""Values as plain data: None, bool, numbers, str, list, dict, and `UNKNOWN` at unknown leaves.

A number is an int, a float where the nearest one is exact (it reads back as the same number), else a
Fraction.

What planning, state and providers work with. Sets are sorted lists without duplicates. A schema's
type turns plain data back into a Value (`from_plain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nexusform.exact_numbers import MAX_DIGITS, PRECISION, number_from_decimal
from nexusform.value_types import (
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
    friendly_name,
)
from nexusform.values import (
    FALSE,
    SENSITIVE,
    TRUE,
    UNKNOWN,
    Unknown,
    Value,
    number,
    object_value,
    set_value,
    tuple_value,
)

if TYPE_CHECKING:
    from fractions import Fraction

Plain: TypeAlias = "bool | int | float | Fraction | str | Unknown | list[Any] | dict[str, Any] | None"
PathStep: TypeAlias = str | int
Path: TypeAlias = tuple[PathStep, ...]


class ConversionProblem(Exception):
    """A value does not fit a type.

    `path` leads to the part that does not; `message` is a clause without a full stop, such as
    `string required`.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message

    def within(self, step: PathStep) -> ConversionProblem:
        """The same problem seen from one step further out."""
        return ConversionProblem((step, *self.path), self.message)


def to_plain(value: Value) -> tuple[Plain, tuple[Path, ...]]:
    """The value as plain data, and the paths of the sensitive parts (`()` for the whole).

    Parts below a sensitive part are not listed again.
    """
    if not value.has_marks:
        return _strip(value), ()
    sensitive: list[Path] = []
    _find_sensitive(value, (), sensitive)
    return _strip(value), tuple(sensitive)


def _strip(value: Value) -> Any:
    raw = value.raw
    kind = raw.__class__
    if kind is tuple:
        return [_strip(v) for v in raw]
    if kind is dict:
        return {k: _strip(v) for k, v in raw.items()}
    if kind is str or kind is int or kind is bool or raw is None or raw is UNKNOWN:
        return raw
    return plain_number(raw)


def plain_number(raw: int | Fraction) -> int | float | Fraction:
    """A number of a Value as plain data."""
    if raw.__class__ is int:
        return raw
    try:
        nearest = float(raw)
    except OverflowError:
        return raw
    return nearest if number_from_decimal(nearest) == raw else raw


def _find_sensitive(value: Value, path: Path, found: list[Path]) -> None:
    if value.is_sensitive:
        found.append(path)
    elif value.has_marks:
        parts = value.raw.items() if isinstance(value.raw, dict) else enumerate(value.raw)
        for step, part in parts:
            _find_sensitive(part, (*path, step), found)


def from_plain(plain: Plain, of: Type, sensitive: Iterable[Path] = ()) -> Value:
    """Plain data as a Value of the type; the open type takes objects and tuples as they come.

    Attributes of an object that are absent become null; properties that the type does not have
    are left out; a path in `sensitive` that leads nowhere is passed over.
    Raises ConversionProblem where the data does not fit.
    """
    value = _build(plain, of)
    for path in sensitive:
        value = _mark_at(value, path)
    return value


_PRIMITIVE_CLASSES: Final[Mapping[str, type]] = {"string": str, "bool": bool}


def _build(plain: Any, of: Type) -> Value:
    if plain is None or plain is UNKNOWN:
        return Value(of, plain)
    try:
        if of.__class__ is PrimitiveType:
            return _build_primitive(plain, of)
        if of.__class__ is ObjectType:
            return _build_object(plain, of)
        if plain.__class__ is dict and of.__class__ is MapType:
            return Value(of, {k: _build_part(k, plain[k], of.element) for k in sorted(plain)})
        if plain.__class__ is list and of.__class__ is ListType:
            return Value(of, tuple([_build_part(i, p, of.element) for i, p in enumerate(plain)]))
        if plain.__class__ is list and of.__class__ is SetType:
            return set_value([_build_part(i, p, of.element) for i, p in enumerate(plain)], of.element)
        if plain.__class__ is list and isinstance(of, TupleType) and len(plain) == len(of.elements):
            return Value(of, tuple([_build_part(i, p, of.elements[i]) for i, p in enumerate(plain)]))
    except RecursionError:
        raise ConversionProblem((), "the value is nested too deeply") from None
    raise ConversionProblem((), f"{friendly_name(of, constraint=True)} required")


def _build_part(step: PathStep, plain: Any, of: Type) -> Value:
    try:
        return _build(plain, of)
    except ConversionProblem as problem:
        raise problem.within(step) from None


def _build_primitive(plain: Any, of: PrimitiveType) -> Value:
    if of is DYNAMIC:
        return _infer(plain)
    if of is NUMBER and plain.__class__ is not bool:
        return _build_number(plain)
    if plain.__class__ is _PRIMITIVE_CLASSES.get(of.name):
        return Value(of, plain)
    raise ConversionProblem((), f"{of.name} required")


def _build_number(plain: Any) -> Value:
    if plain.__class__ is int and plain.bit_length() <= PRECISION:
        return Value(NUMBER, plain)
    if plain.__class__ is not int and plain.__class__ is not float and not is_fraction(plain):
        raise ConversionProblem((), "number required")
    try:
        return number(plain)
    except (OverflowError, ValueError):
        raise ConversionProblem((), f"a number of at most {MAX_DIGITS} digits required") from None


def is_fraction(plain: Any) -> bool:
    """Whether a number of plain data is a Fraction (whose module costs time to import)."""
    return bool(plain.__class__.__name__ == "Fraction")


def _build_object(plain: Any, of: ObjectType) -> Value:
    if plain.__class__ is not dict:
        raise ConversionProblem((), "object required")
    return Value(of, {name: _build_part(name, plain.get(name), t) for name, t in of.attributes})


def _infer(plain: Any) -> Value:
    kind = plain.__class__
    if kind is str:
        return Value(STRING, plain)
    if kind is bool:
        return TRUE if plain else FALSE
    if kind is int or kind is float or is_fraction(plain):
        return _build_number(plain)
    if kind is list:
        return tuple_value([_build(p, DYNAMIC) for p in plain])
    if kind is dict:
        return object_value({k: _build(p, DYNAMIC) for k, p in plain.items()})
    raise ConversionProblem((), f"not plain data: {kind.__name__}")


def _mark_at(value: Value, path: Path) -> Value:
    raw = value.raw
    if not path or isinstance(value.type, SetType):
        return value.with_marks(SENSITIVE)
    step, rest = path[0], path[1:]
    if isinstance(raw, dict) and isinstance(step, str) and step in raw:
        return Value(value.type, raw | {step: _mark_at(raw[step], rest)}, value.marks)
    if isinstance(raw, tuple) and isinstance(step, int) and step < len(raw):
        changed = (*raw[:step], _mark_at(raw[step], rest), *raw[step + 1 :])
        return Value(value.type, changed, value.marks)
    return value


def unknown_paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where a plain value is unknown."""
    if value is UNKNOWN:
        yield at
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from unknown_paths(part, (*at, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from unknown_paths(part, (*at, index))


def has_unknown(value: Any) -> bool:
    """Whether any part of a plain value is unknown."""
    return next(iter(unknown_paths(value)), None) is not None
