"""Values as plain data: None, bool, numbers, str, list, dict, and `UNKNOWN` at unknown leaves.

A number is an int, a float where the nearest one is exact (it reads back as the same number), else a
Fraction.

What planning, state and providers work with. Sets are sorted lists without duplicates. A schema's
type turns plain data back into a Value (`from_plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

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
    NOTHING_KNOWN,
    SENSITIVE,
    TRUE,
    UNKNOWN,
    Refinement,
    Unknown,
    Value,
    number,
    object_value,
    refined,
    set_value,
    tuple_value,
)

if TYPE_CHECKING:
    from fractions import Fraction

Plain: TypeAlias = "bool | int | float | Fraction | str | Unknown | list[Any] | dict[str, Any] | None"
PathStep: TypeAlias = str | int
Path: TypeAlias = tuple[PathStep, ...]
Refined: TypeAlias = tuple[tuple[Path, Refinement], ...]


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
    """The plain data of a value."""
    raw = value.raw
    kind = raw.__class__
    if kind is tuple:
        return [_strip(v) for v in raw]
    if kind is dict:
        return {k: _strip(v) for k, v in raw.items()}
    if kind is str or kind is int or kind is bool or raw is None or raw is UNKNOWN:
        return raw
    return plain_number(raw)


def refined_parts(value: Value) -> Refined:
    """The paths of unknown parts of which something is known all the same, and what. Parts of sets are left
    out: they have no place.
    """
    if value.is_wholly_known:
        return ()
    parts: list[tuple[Path, Refinement]] = []
    _find_refined(value, (), parts)
    return tuple(parts)


def _find_refined(value: Value, path: Path, refined: list[tuple[Path, Refinement]]) -> None:
    """Note what is known of the unknown parts of a value."""
    if value.raw is UNKNOWN:
        known = value.refinement
        if known is not None and known != NOTHING_KNOWN:
            bounds = [None if b is None else plain_number(b) for b in (known.lowest, known.highest)]
            refined.append((path, replace(known, lowest=bounds[0], highest=bounds[1])))
    elif not value.is_wholly_known and not isinstance(value.type, SetType):
        parts = value.raw.items() if isinstance(value.raw, dict) else enumerate(value.raw)
        for step, part in parts:
            _find_refined(part, (*path, step), refined)


def plain_number(raw: int | Fraction) -> int | float | Fraction:
    """A number of a Value as plain data."""
    if raw.__class__ is int:
        return raw
    try:
        nearest = float(raw)
    except OverflowError:
        return raw
    return nearest if number_from_decimal(nearest) == raw else raw


def _find_sensitive(value: Value, path: Path, paths: list[Path]) -> None:
    if value.is_sensitive:
        paths.append(path)
    elif value.has_marks:
        parts = value.raw.items() if isinstance(value.raw, dict) else enumerate(value.raw)
        for step, part in parts:
            _find_sensitive(part, (*path, step), paths)


def from_plain(plain: Plain, of: Type, sensitive: Iterable[Path] = (), refined_at: Refined = ()) -> Value:
    """Plain data as a Value of the type; the open type takes objects and tuples as they come.

    `refined_at` says what is known of unknown parts. Attributes of an object that are absent become null;
    properties that the type does not have are left out; a path that leads nowhere is passed over.
    Raises ConversionProblem where the data does not fit.
    """
    value = _build(plain, of)
    for path, refinement in refined_at:
        value = _changed_at(value, path, partial(_with_refinement, refinement=refinement))
    for path in sensitive:
        value = _changed_at(value, path, _sensitive)
    return value


_PRIMITIVE_CLASSES: Final[Mapping[str, type]] = {"string": str, "bool": bool}


def _build(plain: Any, of: Type) -> Value:
    """A value of a type from plain data. Raises ConversionProblem."""
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
    """A number, whole or not. Raises ConversionProblem."""
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
    """A value of the type that plain data have by themselves."""
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


def _sensitive(value: Value) -> Value:
    return value.with_marks(SENSITIVE)


def _with_refinement(value: Value, refinement: Refinement) -> Value:
    if value.raw is not UNKNOWN:
        return value
    bounds = [None if b is None else number(b).raw for b in (refinement.lowest, refinement.highest)]
    return refined(value, replace(refinement, lowest=bounds[0], highest=bounds[1]))


def _changed_at(value: Value, path: Path, change: Callable[[Value], Value]) -> Value:
    """The value with a change to the part at a path, or to the set that holds it."""
    raw = value.raw
    if not path or isinstance(value.type, SetType):
        return change(value)
    step, rest = path[0], path[1:]
    if isinstance(raw, dict) and isinstance(step, str) and step in raw:
        return Value(value.type, raw | {step: _changed_at(raw[step], rest, change)}, value.marks)
    if isinstance(raw, tuple) and isinstance(step, int) and step < len(raw):
        changed = (*raw[:step], _changed_at(raw[step], rest, change), *raw[step + 1 :])
        return Value(value.type, changed, value.marks)
    return value


def part_at(value: Any, path: Path) -> Any:
    """The part of plain data that a path leads to, None when there is nothing."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def with_part(value: Any, path: Path, part: Any) -> Any:
    """Plain data with another part at a path, where it has one there; the parts beside it are shared."""
    if not path:
        return part
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping) and step in value:
        return {**value, step: with_part(value[step], rest, part)}
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        return [*value[:step], with_part(value[step], rest, part), *value[step + 1 :]]
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


def known_parts(value: Any) -> Any:
    """The value with null where it is unknown; containers without unknown parts are shared."""
    if value is UNKNOWN:
        return None
    if isinstance(value, Mapping):
        return {name: known_parts(part) for name, part in value.items()}
    if isinstance(value, list):
        return [known_parts(part) for part in value]
    return value


def path_text(path: Path) -> str:
    """A path as configuration writes it: `nodes["a-np1-3"].machine`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text
