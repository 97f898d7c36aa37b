"""Values as plain data: None, bool, numbers, str, list, dict, and `UNKNOWN` for unknown parts.

A number is an int, a float if it is exact (it parses to the same number), else a Fraction. Used by
planning, state and providers. Sets are sorted lists without duplicates. `convert_to_value` converts
plain data to a Value of a schema's type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.schemas.value_types import (
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
    describe_type,
)
from nexusform.values.typed_value import (
    MAX_DIGITS,
    NO_REFINEMENT,
    SENSITIVE,
    UNKNOWN,
    Refinement,
    Unknown,
    Value,
    add_refinement,
    build_boolean,
    build_number,
    build_object,
    build_set,
    build_tuple,
    convert_decimal,
)

if TYPE_CHECKING:
    from fractions import Fraction
    from json import JSONDecodeError

Plain: TypeAlias = (
    "bool | int | float | Fraction | str | Unknown | list[Any] | dict[str, Any] | None"
)
PathStep: TypeAlias = str | int
Path: TypeAlias = tuple[PathStep, ...]
Refinements: TypeAlias = tuple[tuple[Path, Refinement], ...]


class ConversionProblem(Exception):
    """Value that does not fit a type.

    `path` leads to the part at fault, and `place` is its text, such as `[0].ports["http"]`.
    `message` is a clause without a full stop, such as `string required`.
    """

    def __init__(self, path: Path, message: str, place: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.place = place

    def prepend_step(self, step: PathStep, *, is_map_key: bool = False) -> ConversionProblem:
        """Return the same problem with this step before its path."""
        if isinstance(step, str) and step.isidentifier() and not is_map_key:
            step_text = f".{step}"
        else:
            step_text = f"[{step}]" if isinstance(step, int) else f'["{step}"]'
        return ConversionProblem((step, *self.path), self.message, step_text + self.place)


# Classes of raw values that are plain data, too.
_SHARED_CLASSES: Final = frozenset({str, int, bool, type(None), Unknown})


def convert_to_plain(value: Value) -> tuple[Plain, tuple[Path, ...]]:
    """Convert the value to plain data.

    Return it, and the paths of its sensitive and ephemeral parts (whole: `()`). Parts below a
    sensitive part are not listed again.
    """
    sensitive: list[Path] = []
    _collect_sensitive_paths(value, path=(), paths=sensitive)
    return _convert_raw_value(value), tuple(sensitive)


def _convert_raw_value(value: Value) -> Any:
    """Convert a value to plain data, without its marks."""
    raw = value.raw
    raw_class = raw.__class__
    if raw_class in _SHARED_CLASSES:
        # Plain data already, as is UNKNOWN.
        return raw
    if raw_class is tuple:
        return list(map(_convert_raw_value, raw))
    if raw_class is dict:
        return {k: _convert_raw_value(v) for k, v in raw.items()}
    return convert_number(raw)  # a Fraction


def list_refinements(value: Value) -> Refinements:
    """List the paths and refinements of unknown parts, except parts of sets, which have no path."""
    parts: list[tuple[Path, Refinement]] = []
    _collect_refinements_of_unknowns(value, path=(), refinements=parts)
    return tuple(parts)


def _collect_refinements_of_unknowns(
    value: Value, path: Path, refinements: list[tuple[Path, Refinement]]
) -> None:
    """Add to `refinements` the known limits of the unknown parts of a value, with their paths.

    Limits are, for example, bounds. `path` is that of the value itself. Parts without any known
    limit are omitted.
    """
    if value.raw is UNKNOWN:
        refinement = value.refinement or NO_REFINEMENT
        if refinement != NO_REFINEMENT:
            refinements.append((path, _convert_bounds(refinement, convert_number)))
    elif not value.is_wholly_known and not isinstance(value.type, SetType):
        # Elements of a set have no path.
        for step, part in _iterate_parts(value):
            _collect_refinements_of_unknowns(part, (*path, step), refinements)


def _iterate_parts(value: Value) -> Iterable[tuple[PathStep, Value]]:
    """Return the parts of a collection or structure, each with its step: a key or an index."""
    return value.raw.items() if isinstance(value.raw, dict) else enumerate(value.raw)


def _convert_bounds(refinement: Refinement, convert: Callable[[Any], Any]) -> Refinement:
    """Return the refinement with converted bounds of numbers."""
    lowest = refinement.lowest
    highest = refinement.highest
    return replace(
        refinement,
        lowest=None if lowest is None else convert(lowest),
        highest=None if highest is None else convert(highest),
    )


def convert_number(raw: int | Fraction) -> int | float | Fraction:
    """Convert a number of a Value to plain data.

    A fraction becomes a float if this is exact, else it stays a fraction.
    """
    if raw.__class__ is int:
        return raw
    try:
        nearest = float(raw)
    except OverflowError:
        # Too large for a float.
        return raw
    return nearest if convert_decimal(nearest) == raw else raw


def _collect_sensitive_paths(value: Value, path: Path, paths: list[Path]) -> None:
    """Add to `paths` those of the outermost marked (sensitive or ephemeral) parts."""
    if value.marks:
        paths.append(path)
    elif value.has_marks:
        for step, part in _iterate_parts(value):
            _collect_sensitive_paths(part, (*path, step), paths)


def convert_to_value(
    plain: Plain, target: Type, sensitive: Iterable[Path] = (), refinements: Refinements = ()
) -> Value:
    """Convert plain data to a Value of the type; the open type accepts objects and tuples.

    `refinements` are known limits of unknown parts. Absent attributes of an object become null;
    unknown properties and paths are ignored. Raises ConversionProblem if the data does not fit.
    """
    value = _build_value(plain, target)
    for path, plain_refinement in refinements:
        refinement = _convert_bounds(plain_refinement, lambda bound: build_number(bound).raw)
        value = _change_value_at_path(value, path, partial(add_refinement, refinement=refinement))
    for path in sensitive:
        value = _change_value_at_path(value, path, lambda part: part.add_marks(SENSITIVE))
    return value


_PRIMITIVE_CLASSES: Final[Mapping[str, type]] = {"string": str, "bool": bool}


def _build_value(plain: Any, target: Type) -> Value:
    """Build a value of a type from plain data; null and unknown fit every type.

    Raises ConversionProblem.
    """
    if plain is None or plain is UNKNOWN:
        return Value(target, plain)
    try:
        return _VALUE_BUILDERS[target.__class__](plain, target)
    except RecursionError:
        raise ConversionProblem(path=(), message="the value is nested too deeply") from None


def _build_part(step: PathStep, plain: Any, target: Type) -> Value:
    """Build the part of a value at `step`.

    The path of a ConversionProblem starts with this step.
    """
    try:
        return _build_value(plain, target)
    except ConversionProblem as problem:
        raise problem.prepend_step(step) from None


def _build_primitive_value(plain: Any, target: PrimitiveType) -> Value:
    """Build a primitive, or a value of an inferred type for the open type.

    Raises ConversionProblem. The open type (DYNAMIC) is a primitive type, too; a mapping becomes an
    object for it, and a list a tuple.
    """
    if target is DYNAMIC:
        return _build_value_of_inferred_type(plain)
    if target is NUMBER:
        return _build_number(plain)
    if plain.__class__ is _PRIMITIVE_CLASSES.get(target.name):
        return Value(target, plain)
    raise ConversionProblem(path=(), message=f"{target.name} required")


def _build_number(plain: Any) -> Value:
    """Build a number, whole or not.

    Raises ConversionProblem.
    """
    if plain.__class__.__name__ not in _NUMBER_CLASS_NAMES:
        raise ConversionProblem(path=(), message="number required")
    try:
        return build_number(plain)
    except (OverflowError, ValueError):
        raise ConversionProblem(
            path=(), message=f"a number of at most {MAX_DIGITS} digits required"
        ) from None


def is_fraction(plain: Any) -> bool:
    """Check whether a number of plain data is a Fraction (without importing its module)."""
    return bool(plain.__class__.__name__ == "Fraction")


# By name, since the module of fractions need not be imported.
_NUMBER_CLASS_NAMES: Final = frozenset({"int", "float", "Fraction"})


def _build_object(plain: Any, target: ObjectType) -> Value:
    _require_class(plain, dict, target)
    return Value(
        target, {name: _build_part(name, plain.get(name), t) for name, t in target.attributes}
    )


def _build_map(plain: Any, target: MapType) -> Value:
    _require_class(plain, dict, target)
    return Value(
        target, {name: _build_part(name, plain[name], target.element) for name in sorted(plain)}
    )


def _build_elements(plain: Any, target: ListType | SetType) -> list[Value]:
    _require_class(plain, list, target)
    return [_build_part(index, part, target.element) for index, part in enumerate(plain)]


def _build_tuple(plain: Any, target: TupleType) -> Value:
    _require_class(plain, list, target)
    if len(plain) != len(target.elements):
        raise ConversionProblem(path=(), message="tuple required")
    parts = [_build_part(index, part, target.elements[index]) for index, part in enumerate(plain)]
    return Value(target, tuple(parts))


def _require_class(plain: Any, plain_class: type, target: Type) -> None:
    """Raise ConversionProblem unless the data has this class.

    The message names the type `target`.
    """
    if plain.__class__ is not plain_class:
        raise ConversionProblem(
            path=(), message=f"{describe_type(target, constraint=True)} required"
        )


_VALUE_BUILDERS: Final[Mapping[type, Callable[[Any, Any], Value]]] = {
    PrimitiveType: _build_primitive_value,
    ObjectType: _build_object,
    MapType: _build_map,
    ListType: lambda plain, target: Value(target, tuple(_build_elements(plain, target))),
    SetType: lambda plain, target: build_set(_build_elements(plain, target), target.element),
    TupleType: _build_tuple,
}


def _build_value_of_inferred_type(plain: Any) -> Value:
    """Build a value of the type inferred from plain data."""
    kind = plain.__class__
    if kind is str:
        return Value(STRING, plain)
    if kind is bool:
        return build_boolean(plain)
    if kind.__name__ in _NUMBER_CLASS_NAMES:
        return _build_number(plain)
    if kind is list:
        return build_tuple([_build_value(p, DYNAMIC) for p in plain])
    if kind is dict:
        return build_object({k: _build_value(p, DYNAMIC) for k, p in plain.items()})
    raise ConversionProblem(path=(), message=f"not plain data: {kind.__name__}")


def _change_value_at_path(value: Value, path: Path, change: Callable[[Value], Value]) -> Value:
    """Return the value with `change` applied to the part at a path.

    Return the same value if it has no such part. An element of a set has no path, so a path into a
    set changes the whole set.
    """
    raw = value.raw
    if not path or isinstance(value.type, SetType):
        return change(value)
    step = path[0]
    remaining_path = path[1:]
    if isinstance(raw, dict) and step in raw:
        return Value(
            value.type,
            raw | {step: _change_value_at_path(raw[step], remaining_path, change)},
            value.marks,
        )
    if isinstance(raw, tuple) and isinstance(step, int) and step < len(raw):
        changed = (
            *raw[:step],
            _change_value_at_path(raw[step], remaining_path, change),
            *raw[step + 1 :],
        )
        return Value(value.type, changed, value.marks)
    return value


# Nearly all are of the first class, and its check takes a tenth of the time.
_ANY_MAPPING: Final = (dict, Mapping)


def get_part(value: Any, path: Path) -> Any:
    """Return the part of plain data at a path; None if it is absent or null."""
    for step in path:
        if isinstance(value, _ANY_MAPPING):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def replace_part_at_path(value: Any, path: Path, part: Any) -> Any:
    """Return plain data with another part at a path; the data itself if it has no such part.

    The original is not changed, and shares its other parts with the result.
    """
    if not path:
        return part
    step = path[0]
    remaining_path = path[1:]
    if isinstance(value, Mapping) and step in value:
        return {**value, step: replace_part_at_path(value[step], remaining_path, part)}
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        return [
            *value[:step],
            replace_part_at_path(value[step], remaining_path, part),
            *value[step + 1 :],
        ]
    return value


def list_unknown_paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """List the paths of unknown parts of a plain value."""
    if value is UNKNOWN:
        yield path
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from list_unknown_paths(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from list_unknown_paths(part, (*path, index))


def has_unknown_part(value: Any) -> bool:
    """Check whether any part of a plain value is unknown."""
    return next(list_unknown_paths(value), None) is not None


def replace_unknown(value: Any) -> Any:
    """Return a copy of the value with null for unknown parts."""
    if value is UNKNOWN:
        return None
    if isinstance(value, _ANY_MAPPING):
        return {name: replace_unknown(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(map(replace_unknown, value))
    return value


def format_path(path: Path) -> str:
    """Format a path as in configuration: `nodes["a-np1-3"].machine`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


_BLANKS: Final = " \t\n\r"
# Before Python 3.13 a comma before the end has these errors, at the end instead of the comma.
_TRAILING_COMMAS: Final = {
    ("Expecting property name enclosed in double quotes", "}"): "object",
    ("Expecting value", "]"): "array",
}


def unify_json_error(error: JSONDecodeError) -> JSONDecodeError:
    """Return the error as Python 3.13 reports it.

    Older versions differ for a comma before the end.
    """
    text = error.doc
    position = error.pos
    # None for any other error.
    container = _TRAILING_COMMAS.get((error.msg, text[position : position + 1]))
    before = text[:position].rstrip(_BLANKS)
    if container is None or not before.endswith(","):
        # Equal in all versions.
        return error
    return type(error)(f"Illegal trailing comma before end of {container}", text, len(before) - 1)


_MAPPINGS: Final[Any] = (*_ANY_MAPPING, Unknown)


def get_value_at_path(data: Any, *path: PathStep) -> Any:
    """Return the value at a path, or None."""
    return get_part(data, path)


def get_mapping(data: Any, *path: PathStep) -> Mapping[str, Any]:
    """Return the mapping at a path, or `UNKNOWN` for an unknown one.

    Anything else gives {}.
    """
    value = get_part(data, path)
    return value if isinstance(value, _MAPPINGS) else {}


def get_list(data: Any, *path: PathStep) -> Sequence[Any]:
    """Return the list or tuple at a path, or [] for anything else."""
    value = get_part(data, path)
    return value if isinstance(value, (list, tuple)) else []


def list_mappings(data: Any, *path: PathStep) -> list[Mapping[str, Any]]:
    """Return the mappings in the list at a path, without its other items."""
    return _list_items_of_class(data, path, Mapping)


def list_objects(data: Any, *path: PathStep) -> list[dict[str, Any]]:
    """Return the dictionaries in the list at a path, to be changed in place."""
    return _list_items_of_class(data, path, dict)


def get_text(data: Any, *path: PathStep) -> str:
    """Return the text at a path, or "" for anything else."""
    value = get_part(data, path)
    return value if isinstance(value, str) else ""


def list_texts(data: Any, *path: PathStep) -> list[str]:
    """Return the texts in the list at a path, without its other items."""
    return _list_items_of_class(data, path, str)


def _list_items_of_class(data: Any, path: Path, item_class: type) -> list[Any]:
    return [item for item in get_list(data, *path) if isinstance(item, item_class)]


def escape_html(text: str) -> str:
    """Return JSON with the characters of HTML escaped, as Go writes it."""
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
