"""What an expression can be worth: types, values, unknowns and marks.

Two forms:
- `Value`: typed, with marks; what the evaluator computes with (the type system is HCL's).
- plain data: None, bool, int, float, str, list, dict and `UNKNOWN` at unknown leaves; what
  planning, state and providers work with. Sets are sorted lists without duplicates. A schema's
  type turns plain data back into a Value (`from_plain`).

Converting one type to another is the language's business: language/conversion.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from nexusform.exact_numbers import number_from_decimal, round_number

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction


class Unknown:
    """The one value `UNKNOWN`: known only after apply."""

    _instance: Self | None = None

    def __new__(cls) -> Self:
        """Give the one instance."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: Any) -> Unknown:
        return self


UNKNOWN: Final = Unknown()

Plain: TypeAlias = "bool | int | float | str | Unknown | list[Any] | dict[str, Any] | None"
PathStep: TypeAlias = str | int
Path: TypeAlias = tuple[PathStep, ...]


# --- types -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """string, number, bool, and `any` (dynamic: a type not known yet)."""

    name: str


STRING: Final = PrimitiveType("string")
NUMBER: Final = PrimitiveType("number")
BOOL: Final = PrimitiveType("bool")
DYNAMIC: Final = PrimitiveType("dynamic")


@dataclass(frozen=True, slots=True)
class ListType:
    """list(element)."""

    element: Type


@dataclass(frozen=True, slots=True)
class SetType:
    """set(element)."""

    element: Type


@dataclass(frozen=True, slots=True)
class MapType:
    """map(element)."""

    element: Type


@dataclass(frozen=True, slots=True)
class TupleType:
    """tuple([...])."""

    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ObjectType:
    """object({...}); attributes sorted by name.

    `optional` names may be absent on conversion and become null or their default (`defaults`, as
    (name, Value) pairs).
    """

    attributes: tuple[tuple[str, Type], ...]
    optional: frozenset[str] = frozenset()
    defaults: tuple[tuple[str, Value], ...] = ()

    @staticmethod
    def of(
        attributes: Mapping[str, Type],
        optional: Iterable[str] = (),
        defaults: Mapping[str, Value] | None = None,
    ) -> ObjectType:
        """An object type from mappings in any order."""
        pairs = tuple(sorted(attributes.items(), key=lambda pair: pair[0]))
        defaulted = tuple(sorted((defaults or {}).items(), key=lambda pair: pair[0]))
        return ObjectType(pairs, frozenset(optional), defaulted)

    def attribute(self, name: str) -> Type | None:
        """The type of an attribute, or None when there is no such attribute."""
        return next((t for n, t in self.attributes if n == name), None)


Type: TypeAlias = PrimitiveType | ListType | SetType | MapType | TupleType | ObjectType


_COLLECTIONS: Final = {ListType: "list", SetType: "set", MapType: "map"}


def friendly_name(given: Type, *, constraint: bool = False) -> str:
    """The type as messages name it: `list of string`, `object`.

    As a constraint (what a place accepts) the open type is `any type`, and `any single type`
    inside a collection.
    """
    if isinstance(given, PrimitiveType):
        return "any type" if constraint and given is DYNAMIC else given.name
    if isinstance(given, TupleType):
        return "tuple"
    if isinstance(given, ObjectType):
        return "object"
    inner = friendly_name(given.element, constraint=constraint)
    if constraint and given.element is DYNAMIC:
        inner = "any single type"
    return f"{_COLLECTIONS[type(given)]} of {inner}"


def has_dynamic(given: Type) -> bool:
    """Whether the open type stands anywhere in it."""
    if isinstance(given, PrimitiveType):
        return given is DYNAMIC
    if isinstance(given, ObjectType):
        return any(has_dynamic(t) for _, t in given.attributes)
    if isinstance(given, TupleType):
        return any(has_dynamic(t) for t in given.elements)
    return has_dynamic(given.element)


def type_to_json(given: Type) -> Any:
    """The type as JSON data: `"string"`, `["list", T]`, `["object", {name: T}]`.

    An object with optional attributes has their names as a third item. Defaults are not kept.
    """
    if isinstance(given, PrimitiveType):
        return given.name
    if isinstance(given, TupleType):
        return ["tuple", [type_to_json(t) for t in given.elements]]
    if isinstance(given, ObjectType):
        attributes = {name: type_to_json(t) for name, t in given.attributes}
        return ["object", attributes, sorted(given.optional)] if given.optional else ["object", attributes]
    return [_COLLECTIONS[type(given)], type_to_json(given.element)]


def type_from_json(data: Any) -> Type:
    """The inverse of `type_to_json`. Raises ValueError for anything else."""
    match data:
        case "string":
            return STRING
        case "number":
            return NUMBER
        case "bool":
            return BOOL
        case "dynamic":
            return DYNAMIC
        case ["list", element]:
            return ListType(type_from_json(element))
        case ["set", element]:
            return SetType(type_from_json(element))
        case ["map", element]:
            return MapType(type_from_json(element))
        case ["tuple", [*elements]]:
            return TupleType(tuple(type_from_json(e) for e in elements))
        case ["object", {**attributes}, *rest] if len(rest) <= 1:
            return ObjectType.of({str(n): type_from_json(t) for n, t in attributes.items()}, *rest)
    raise ValueError(f"not a type: {data!r}")


# --- values ------------------------------------------------------------------------------------

NO_MARKS: Final[frozenset[str]] = frozenset()
SENSITIVE: Final[frozenset[str]] = frozenset({"sensitive"})

_UNSEEN: Final = -1
_HAS_UNKNOWN: Final = 1
_HAS_MARKS: Final = 2
_TRAITS: Final = 3
_SIZE_SHIFT: Final = 2
_CHARACTERS_SHIFT: Final = 5  # 32 characters count as much as a value


class Value:
    """A value of a type, immutable.

    `raw` is None (null), UNKNOWN, str, bool, int or Fraction, a tuple of Values (list, tuple; a
    set sorted and without duplicates), or a dict of Values in key order (map, object). `marks`
    are those of the value itself; elements carry their own, except in a set, which takes them over.
    """

    __slots__ = ("_inner", "marks", "raw", "type")

    def __init__(self, type: Type, raw: Any, marks: frozenset[str] = NO_MARKS) -> None:  # noqa: A002 - the word for it
        self.type: Final = type
        self.raw: Final = raw
        self.marks: Final = marks
        self._inner = _UNSEEN

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value):
            return NotImplemented
        return self.type == other.type and self.raw == other.raw and self.marks == other.marks

    def __hash__(self) -> int:
        return hash((order_key(self), self.marks))

    def __repr__(self) -> str:
        marks = f", {sorted(self.marks)}" if self.marks else ""
        return f"Value({friendly_name(self.type)}, {self.raw!r}{marks})"

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return self.raw is None

    @property
    def is_known(self) -> bool:
        """Whether the value itself is known; parts of it may be unknown all the same."""
        return self.raw is not UNKNOWN

    @property
    def is_sensitive(self) -> bool:
        """Whether the value as a whole is sensitive."""
        return "sensitive" in self.marks

    @property
    def is_wholly_known(self) -> bool:
        """Whether it and every part of it is known."""
        return not self._traits() & _HAS_UNKNOWN

    @property
    def has_marks(self) -> bool:
        """Whether it or any part of it is marked."""
        return bool(self.marks) or bool(self._traits() & _HAS_MARKS)

    def with_marks(self, marks: frozenset[str]) -> Value:
        """The same value with these marks added."""
        if marks <= self.marks:
            return self
        return self._remarked(self.marks | marks)

    def without_marks(self) -> Value:
        """The same value without its own marks; those of its parts stay."""
        return self._remarked(NO_MARKS) if self.marks else self

    def _remarked(self, marks: frozenset[str]) -> Value:
        other = Value(self.type, self.raw, marks)
        other._inner = self._inner
        return other

    @property
    def size(self) -> int:
        """How many values it holds, itself included. What is shared counts as often as it is held,
        and long text by its length.
        """
        return self._traits() >> _SIZE_SHIFT

    def _traits(self) -> int:
        # What the parts hold, found once: bits for "an unknown inside" and "a mark inside", then
        # the size.
        if self._inner != _UNSEEN:
            return self._inner
        raw = self.raw
        traits, size = 0, 1
        if raw is UNKNOWN:
            traits = _HAS_UNKNOWN
        elif raw.__class__ is str:
            size += len(raw) >> _CHARACTERS_SHIFT
        elif raw.__class__ is tuple or raw.__class__ is dict:
            for part in raw.values() if raw.__class__ is dict else raw:
                inner = part._traits()  # noqa: SLF001 - the same class
                traits |= inner & _TRAITS
                size += inner >> _SIZE_SHIFT
                if part.marks:
                    traits |= _HAS_MARKS
        self._inner = traits | size << _SIZE_SHIFT
        return self._inner


def order_key(value: Value) -> Any:
    """A key that sorts and tells apart values of one type; marks do not count.

    Known ones by content (text by code point, numbers by size), then null, then unknown.
    """
    raw = value.raw
    if raw is None:
        return (1,)
    if raw is UNKNOWN:
        return (2,)
    if raw.__class__ is tuple:
        return (0, *[order_key(v) for v in raw])
    if raw.__class__ is dict:
        return (0, *[(k, order_key(v)) for k, v in raw.items()])
    return (0, raw)


def all_marks(value: Value) -> frozenset[str]:
    """The marks of a value and of everything in it."""
    if not value.has_marks:
        return NO_MARKS
    raw = value.raw
    parts = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, tuple) else ()
    return value.marks.union(*[all_marks(p) for p in parts])


def unmark_deep(value: Value) -> tuple[Value, frozenset[str]]:
    """The value with no mark anywhere, and the marks taken off."""
    if not value.has_marks:
        return value, NO_MARKS
    marks = all_marks(value)
    raw = value.raw
    if raw.__class__ is tuple:
        raw = tuple(unmark_deep(v)[0] for v in raw)
    elif raw.__class__ is dict:
        raw = {k: unmark_deep(v)[0] for k, v in raw.items()}
    return Value(value.type, raw), marks


TRUE: Final = Value(BOOL, True)
FALSE: Final = Value(BOOL, False)
NULL: Final = Value(DYNAMIC, None)
DYNAMIC_UNKNOWN: Final = Value(DYNAMIC, UNKNOWN)
EMPTY_TUPLE: Final = Value(TupleType(()), ())


def string(text: str) -> Value:
    """A string, taken as it is; text read from outside is to be NFC-normalised first."""
    return Value(STRING, text)


def number(given: float | Fraction | Decimal) -> Value:
    """A number. Raises ValueError for infinities and NaN, OverflowError for absurd sizes."""
    if given.__class__ is int:
        return Value(NUMBER, given)
    if given.__class__.__name__ == "Fraction":
        return Value(NUMBER, round_number(given.numerator, given.denominator))  # type: ignore[union-attr]  # it is one
    return Value(NUMBER, number_from_decimal(given))  # type: ignore[arg-type]  # what is left


def boolean(given: bool) -> Value:
    """TRUE or FALSE."""
    return TRUE if given else FALSE


def null(of: Type = DYNAMIC) -> Value:
    """The null of a type."""
    return Value(of, None)


def unknown(of: Type = DYNAMIC) -> Value:
    """An unknown of a type."""
    return Value(of, UNKNOWN)


def list_value(elements: Iterable[Value], element: Type | None = None) -> Value:
    """A list. The elements must be of one type; `element` is needed when there are none."""
    items = tuple(elements)
    return Value(ListType(element or (items[0].type if items else DYNAMIC)), items)


def set_value(elements: Iterable[Value], element: Type | None = None) -> Value:
    """A set: sorted, without duplicates, holding the marks of its elements.

    Elements that are not wholly known are kept apart, for each may turn out to be anything.
    """
    items = list(elements)
    marks = NO_MARKS.union(*[all_marks(v) for v in items])
    if marks:
        items = [unmark_deep(v)[0] for v in items]
    kind = SetType(element or (items[0].type if items else DYNAMIC))
    known = {order_key(v): v for v in items if v.is_wholly_known}
    unsure = [v for v in items if not v.is_wholly_known]
    return Value(kind, (*[known[k] for k in sorted(known)], *unsure), marks)


def map_value(elements: Mapping[str, Value], element: Type | None = None) -> Value:
    """A map. The elements must be of one type; `element` is needed when there are none."""
    items = {k: elements[k] for k in sorted(elements)}
    first = next(iter(items.values()), NULL)
    return Value(MapType(element or first.type), items)


def tuple_value(elements: Iterable[Value]) -> Value:
    """A tuple."""
    items = tuple(elements)
    return Value(TupleType(tuple([v.type for v in items])), items)


def object_value(attributes: Mapping[str, Value]) -> Value:
    """An object, attributes in any order."""
    items = {k: attributes[k] for k in sorted(attributes)}
    return Value(ObjectType(tuple([(k, v.type) for k, v in items.items()])), items)


# --- plain data --------------------------------------------------------------------------------


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

    A fraction becomes the nearest float. Parts below a sensitive part are not listed again.
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
    return float(raw)


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


_PRIMITIVE_CLASSES: Final[Mapping[str, type]] = {"string": str, "number": int, "bool": bool}


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
    if plain.__class__ is _PRIMITIVE_CLASSES[of.name]:
        return Value(of, plain)
    if plain.__class__ is float and of is NUMBER:
        return number(plain)
    raise ConversionProblem((), f"{of.name} required")


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
    if kind is int or kind is float:
        return number(plain)
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
