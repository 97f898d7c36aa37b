"""One type to another: what `tolist(x)`, an argument or a variable's type does to a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from nexusform.exact_numbers import number_text, parse_number
from nexusform.language.unification import part_types, unify
from nexusform.plain_data import ConversionProblem, PathStep
from nexusform.value_types import (
    DYNAMIC,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
    friendly_name,
    has_dynamic,
)
from nexusform.values import NOT_NULL, UNKNOWN, Refinement, Value, refined, refinement_of, set_value


def convert(value: Value, of: Type) -> Value:
    """The value as one of type `of`, marks kept; defaults of optional attributes filled in.

    Where `of` leaves a type open the value's own is kept (elements of a collection are brought to
    one type). Raises ConversionProblem.
    """
    from_type = value.type
    if of is DYNAMIC or from_type is of:
        return value
    raw = value.raw
    if of.__class__ is PrimitiveType:
        return _to_primitive(value, of)
    if raw is None or raw is UNKNOWN:
        if from_type is not DYNAMIC:
            _require_convertible(from_type, of)
        kind = _filled(settled(of), from_type)
        return refined(Value(kind, raw, value.marks), _kept(value, of))
    if from_type == of and not _fills_in(of):
        return value
    return _CONVERTERS[of.__class__](value, of)


def _kept(value: Value, of: Type) -> Refinement:
    # What is still known of an unknown value after it is converted to a collection or structure.
    known = refinement_of(value)
    if isinstance(of, (ObjectType, TupleType)):
        return Refinement(known.not_null)  # how many parts it has, its type says
    shortest, longest = known.shortest, known.longest
    if isinstance(value.type, (ObjectType, TupleType)):
        shortest = longest = len(part_types(value.type))
    if isinstance(of, SetType) and not isinstance(value.type, SetType):
        shortest = min(shortest, 1)
    return Refinement(known.not_null, shortest=shortest, longest=longest)


def describe(problem: ConversionProblem) -> str:
    """The problem as a clause with the place inside the value: `attribute "a": string required`."""
    steps = [f"element {s}" if isinstance(s, int) else f'attribute "{s}"' for s in problem.path]
    return ": ".join([*steps, problem.message])


# --- towards primitives ------------------------------------------------------------------------


def _to_primitive(value: Value, of: PrimitiveType) -> Value:
    raw = value.raw
    if value.type == of:
        return value
    if raw is None or raw is UNKNOWN:
        if value.type is not DYNAMIC:
            _require_convertible(value.type, of)
        return Value(of, raw, value.marks, NOT_NULL if refinement_of(value).not_null else None)
    if not isinstance(value.type, PrimitiveType):
        raise ConversionProblem((), f"{of.name} required")
    return Value(of, _PRIMITIVE[value.type.name, of.name](raw), value.marks)


def _bool_to_string(raw: bool) -> str:
    return "true" if raw else "false"


def _string_to_number(raw: str) -> Any:
    try:
        number = parse_number(raw)
    except OverflowError:
        raise ConversionProblem((), "a number with fewer digits is required") from None
    if number is None:
        raise ConversionProblem((), "a number is required")
    return number


def _string_to_bool(raw: str) -> bool:
    if raw in {"true", "1"}:
        return True
    if raw in {"false", "0"}:
        return False
    near = raw.lower()
    if near in {"true", "false"}:
        raise ConversionProblem((), f'a bool is required; to convert from string, use lowercase "{near}"')
    raise ConversionProblem((), "a bool is required")


def _no_number(_: Any) -> Any:
    raise ConversionProblem((), "number required")


def _no_bool(_: Any) -> Any:
    raise ConversionProblem((), "bool required")


_PRIMITIVE: Final[dict[tuple[str, str], Callable[[Any], Any]]] = {
    ("string", "number"): _string_to_number,
    ("string", "bool"): _string_to_bool,
    ("number", "string"): number_text,
    ("number", "bool"): _no_bool,
    ("bool", "string"): _bool_to_string,
    ("bool", "number"): _no_number,
}


# --- towards collections and structures --------------------------------------------------------


def _elements(value: Value, of: Type) -> tuple[tuple[PathStep, Value], ...]:
    if isinstance(value.type, (ListType, SetType, TupleType)):
        return tuple(enumerate(value.raw))
    raise ConversionProblem((), f"{friendly_name(of, constraint=True)} required")


def _converted(
    parts: Iterable[tuple[PathStep, Value]], of: ListType | SetType | MapType, from_type: Type, kind: str
) -> tuple[Type, list[Value]]:
    # Every part as `element`; when that leaves types open, all brought to one type.
    element = of.element
    if not isinstance(from_type, TupleType | ObjectType):
        _require_convertible(from_type, of)  # of a collection without elements, too
    items = []
    for step, part in parts:
        try:
            items.append(convert(part, element))
        except ConversionProblem as problem:
            raise problem.within(step) from None
    if not has_dynamic(element):
        return settled(element), items
    if not items:
        filled = _filled(of, from_type)
        assert isinstance(filled, (ListType, SetType, MapType))
        return settled(filled.element), items
    common = unify([v.type for v in items])
    if common is None:
        raise ConversionProblem((), f"all {kind} elements must have the same type")
    return common, [convert(v, common) for v in items]


def _to_list(value: Value, of: ListType) -> Value:
    element, items = _converted(_elements(value, of), of, value.type, "list")
    if isinstance(value.type, SetType) and not value.is_wholly_known:
        # Neither its order nor its length is known, only how many there are at least and at most.
        return refined(Value(ListType(element), UNKNOWN, value.marks), refinement_of(value))
    return Value(ListType(element), tuple(items), value.marks)


def _to_set(value: Value, of: SetType) -> Value:
    element, items = _converted(_elements(value, of), of, value.type, "set")
    return set_value(items, element).with_marks(value.marks)


def _to_map(value: Value, of: MapType) -> Value:
    if not isinstance(value.type, (MapType, ObjectType)):
        raise ConversionProblem((), f"{friendly_name(of, constraint=True)} required")
    element, items = _converted(value.raw.items(), of, value.type, "map")
    return Value(MapType(element), dict(zip(value.raw, items, strict=True)), value.marks)


def _to_tuple(value: Value, of: TupleType) -> Value:
    if not isinstance(value.type, TupleType):
        raise ConversionProblem((), "tuple required")
    length, required = len(value.raw), len(of.elements)
    if length != required:
        raise ConversionProblem((), f"tuple of {required} elements required, not {length}")
    items = []
    for index, (part, element) in enumerate(zip(value.raw, of.elements, strict=True)):
        try:
            items.append(convert(part, element))
        except ConversionProblem as problem:
            raise problem.within(index) from None
    return Value(TupleType(tuple([v.type for v in items])), tuple(items), value.marks)


def _to_object(value: Value, of: ObjectType) -> Value:
    if not isinstance(value.type, (MapType, ObjectType)):
        raise ConversionProblem((), "object required")
    raw = value.raw
    missing = [name for name, _ in of.attributes if name not in raw and name not in of.optional]
    if missing:
        raise ConversionProblem((), _missing_attributes(missing))
    defaults = dict(of.defaults)
    items: dict[str, Value] = {}
    for name, attribute_type in of.attributes:
        part = raw.get(name)
        default = defaults.get(name)
        if (part is None or part.raw is None) and isinstance(default, Value):
            part = default.with_marks(part.marks if part else frozenset())
        try:
            if part is None:
                items[name] = Value(settled(attribute_type), None)
            else:
                items[name] = convert(part, attribute_type)
        except ConversionProblem as problem:
            raise problem.within(name) from None
    return Value(ObjectType(tuple([(n, v.type) for n, v in items.items()])), items, value.marks)


def _missing_attributes(names: Sequence[str]) -> str:
    quoted = [f'"{n}"' for n in names]
    if len(quoted) == 1:
        return f"attribute {quoted[0]} is required"
    return f"attributes {', '.join(quoted[:-1])} and {quoted[-1]} are required"


_CONVERTERS: Final[dict[type, Callable[[Value, Any], Value]]] = {
    ListType: _to_list,
    SetType: _to_set,
    MapType: _to_map,
    TupleType: _to_tuple,
    ObjectType: _to_object,
}


# --- types alone -------------------------------------------------------------------------------


def _fills_in(of: Type) -> bool:
    if isinstance(of, ObjectType):
        return bool(of.optional) or any(_fills_in(t) for _, t in of.attributes)
    if isinstance(of, TupleType):
        return any(_fills_in(t) for t in of.elements)
    return not isinstance(of, PrimitiveType) and _fills_in(of.element)


def settled(of: Type) -> Type:
    """The type of a value that fulfils `of`: no optional attributes any more."""
    if not _fills_in(of):
        return of
    if isinstance(of, ObjectType):
        return ObjectType(tuple([(n, settled(t)) for n, t in of.attributes]))
    if isinstance(of, TupleType):
        return TupleType(tuple([settled(t) for t in of.elements]))
    assert not isinstance(of, PrimitiveType)
    return type(of)(settled(of.element))


def _filled(of: Type, from_type: Type) -> Type:
    # `of` with its open parts taken from the type of the value at hand, as far as they are there.
    if of is DYNAMIC or from_type is DYNAMIC or not has_dynamic(of):
        return from_type if of is DYNAMIC else of
    if isinstance(of, ObjectType):
        if not isinstance(from_type, ObjectType):
            return of
        return ObjectType(tuple([(n, _filled(t, from_type.attribute(n) or t)) for n, t in of.attributes]))
    if isinstance(of, TupleType):
        if not isinstance(from_type, TupleType):
            return of
        pairs = zip(of.elements, from_type.elements, strict=True)
        return TupleType(tuple([_filled(element, own) for element, own in pairs]))
    assert not isinstance(of, PrimitiveType)
    inner = unify(part_types(from_type)) if not isinstance(from_type, PrimitiveType) else None
    return of if inner is None else type(of)(_filled(of.element, inner))


def _require_convertible(from_type: Type, of: Type) -> None:
    # Raises ConversionProblem when no value of the one type could become one of the other.
    if of is DYNAMIC or from_type is DYNAMIC or from_type == of:
        return
    if isinstance(of, PrimitiveType):
        if not isinstance(from_type, PrimitiveType) or {from_type.name, of.name} == {"number", "bool"}:
            raise ConversionProblem((), f"{of.name} required")
    elif isinstance(of, ObjectType):
        _require_object(from_type, of)
    elif isinstance(of, TupleType):
        if not isinstance(from_type, TupleType) or len(from_type.elements) != len(of.elements):
            raise ConversionProblem((), "tuple required")
        _require_parts(enumerate(from_type.elements), of.elements)
    else:
        _require_collection(from_type, of)


def _require_object(from_type: Type, of: ObjectType) -> None:
    if isinstance(from_type, MapType):
        return
    if not isinstance(from_type, ObjectType):
        raise ConversionProblem((), "object required")
    has = dict(from_type.attributes)
    missing = [n for n, _ in of.attributes if n not in has and n not in of.optional]
    if missing:
        raise ConversionProblem((), _missing_attributes(missing))
    parts: list[tuple[PathStep, Type]] = []
    types: list[Type] = []
    for name, attribute_type in of.attributes:
        if name in has:
            parts.append((name, has[name]))
            types.append(attribute_type)
    _require_parts(parts, types)


def _require_collection(from_type: Type, of: ListType | SetType | MapType) -> None:
    from_sequence = isinstance(from_type, (ListType, SetType, TupleType))
    from_mapping = isinstance(from_type, (MapType, ObjectType))
    if from_mapping if not isinstance(of, MapType) else from_sequence:
        raise ConversionProblem((), f"{friendly_name(of, constraint=True)} required")
    if isinstance(from_type, PrimitiveType):
        raise ConversionProblem((), f"{friendly_name(of, constraint=True)} required")
    if isinstance(from_type, TupleType):
        _require_parts(enumerate(from_type.elements), [of.element] * len(from_type.elements))
    elif isinstance(from_type, ObjectType):
        _require_parts(from_type.attributes, [of.element] * len(from_type.attributes))
    else:
        _require_convertible(from_type.element, of.element)


def _require_parts(parts: Iterable[tuple[PathStep, Type]], types: Sequence[Type]) -> None:
    for (step, part), of in zip(parts, types, strict=True):
        try:
            _require_convertible(part, of)
        except ConversionProblem as problem:
            raise problem.within(step) from None
