"""Functions on maps and objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics import did_you_mean
from nexusform.language.conversion import convert
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    anything,
)
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import (
    DYNAMIC,
    STRING,
    ListType,
    MapType,
    ObjectType,
    TupleType,
    Type,
    friendly_name,
)
from nexusform.values import DYNAMIC_UNKNOWN, NO_MARKS, UNKNOWN, Value, all_marks, object_value

_STRINGS: Final = ListType(STRING)


def _keys_type(arguments: Sequence[Value]) -> Type:
    of = arguments[0].type
    if isinstance(of, MapType):
        return _STRINGS
    if isinstance(of, ObjectType):
        return TupleType((STRING,) * len(of.attributes))
    if of is DYNAMIC:
        return DYNAMIC
    raise FixedProblem("must have map or object type", 0)


def _keys(mapping: Value) -> Value:
    kind = _keys_type([mapping])
    if isinstance(mapping.type, ObjectType):
        return Value(kind, tuple([Value(STRING, n) for n, _ in mapping.type.attributes]))
    if mapping.raw is UNKNOWN:
        return Value(kind, UNKNOWN)
    return Value(kind, tuple([Value(STRING, k) for k in mapping.raw]))


def _values_type(arguments: Sequence[Value]) -> Type:
    of = arguments[0].type
    if isinstance(of, MapType):
        return ListType(of.element)
    if isinstance(of, ObjectType):
        return TupleType(tuple([t for _, t in of.attributes]))
    raise FixedProblem("values() requires a map as the first argument")


def _values(mapping: Value) -> Value:
    return Value(_values_type([mapping]), tuple(mapping.raw.values()))


def _lookup_type(arguments: Sequence[Value]) -> Type:
    of, key = arguments[0].type, arguments[1].raw
    if isinstance(of, MapType):
        return of.element
    if not isinstance(of, ObjectType):
        raise FixedProblem("lookup() requires a map as the first argument", 0)
    attribute_type = None if key is UNKNOWN else of.attribute(key)
    return attribute_type or DYNAMIC


def _lookup(mapping: Value, key: Value, *default: Value) -> Value:
    if len(default) > 1:
        raise FixedProblem("lookup() takes two or three arguments")
    of = mapping.type
    if mapping.type is DYNAMIC:
        return DYNAMIC_UNKNOWN
    kind = _lookup_type([mapping, key])
    fallback = default[0] if default else None
    if fallback is not None and isinstance(of, MapType):
        try:
            fallback = convert(fallback, kind)
        except ConversionProblem:
            raise FixedProblem("the default value must have the same type as the map elements", 2) from None
    if mapping.raw is UNKNOWN or key.raw is UNKNOWN:
        return Value(kind, UNKNOWN, all_marks(fallback) if fallback is not None else NO_MARKS)
    element: Value | None = mapping.raw.get(key.raw)
    if element is not None:
        return element
    if fallback is not None:
        return fallback
    hint = did_you_mean(key.raw, mapping.raw)
    if isinstance(of, ObjectType):
        raise FunctionProblem(f'the given object has no attribute "{key.raw}"{hint.rstrip("?")}', 0)
    raise FunctionProblem(f'lookup failed to find key "{key.raw}"{hint.rstrip("?")}')


def _merge(*maps: Value) -> Value:
    for position, mapping in enumerate(maps):
        if mapping.type is not DYNAMIC and not isinstance(mapping.type, (MapType, ObjectType)):
            raise FunctionProblem(
                f'arguments must be maps or objects, got "{friendly_name(mapping.type)}"', position
            )
    marks = NO_MARKS.union(*[m.marks for m in maps])
    kind = maps[0].type if maps else None
    same_map = isinstance(kind, MapType) and all(m.type == kind for m in maps)
    if any(m.raw is UNKNOWN for m in maps):
        if same_map:
            assert kind is not None
            return Value(kind, UNKNOWN, marks)
        return _merged_unknown(maps).with_marks(marks)
    items: dict[str, Value] = {}
    for mapping in maps:
        items.update(mapping.raw or {})
    if same_map:
        assert kind is not None
        return Value(kind, {k: items[k] for k in sorted(items)}, marks)
    return object_value(items).with_marks(marks)


def _merged_unknown(maps: Sequence[Value]) -> Value:
    # Objects have known attributes even when they are unknown themselves.
    attributes: dict[str, Type] = {}
    for mapping in maps:
        if mapping.raw is None:
            continue
        if isinstance(mapping.type, ObjectType):
            attributes.update(dict(mapping.type.attributes))
        elif mapping.raw is UNKNOWN:
            return DYNAMIC_UNKNOWN
        else:
            attributes.update({k: v.type for k, v in mapping.raw.items()})
    return Value(ObjectType.of(attributes), UNKNOWN)


def _transpose(mapping: Value) -> Value:
    kind = MapType(_STRINGS)
    if not mapping.is_wholly_known:
        return Value(kind, UNKNOWN)
    keys_by_value: dict[str, list[str]] = {}
    for key, values in mapping.raw.items():
        if values.raw is None:
            raise FixedProblem("input must not contain null list", 0)
        for value in values.raw:
            if value.raw is None:
                raise FixedProblem("input must not contain null string", 0)
            keys_by_value.setdefault(value.raw, []).append(key)
    return Value(kind, {value: _string_list(keys_by_value[value]) for value in sorted(keys_by_value)})


def _string_list(texts: Sequence[str]) -> Value:
    return Value(_STRINGS, tuple([Value(STRING, text) for text in texts]))


def _zip_map_type(arguments: Sequence[Value]) -> Type:
    keys, values = arguments
    if isinstance(values.type, ListType):
        return MapType(values.type.element)
    if not isinstance(values.type, TupleType):
        raise FixedProblem("values argument must be a list or tuple value", 1)
    if not keys.is_wholly_known or len(keys.raw) != len(values.type.elements):
        return DYNAMIC
    pairs = zip(keys.raw, values.type.elements, strict=True)
    return ObjectType.of({str(k.raw): t for k, t in pairs})


def _zip_map(keys: Value, values: Value) -> Value:
    kind = _zip_map_type([keys, values])
    if not keys.is_wholly_known:
        return Value(kind, UNKNOWN)
    if len(keys.raw) != len(values.raw):
        raise FunctionProblem(
            f"number of keys ({len(keys.raw)}) does not match number of values ({len(values.raw)})"
        )
    if any(k.raw is None for k in keys.raw):
        raise FixedProblem("keys must not be null", 0)
    items = {k.raw: v for k, v in zip(keys.raw, values.raw, strict=True)}
    return Value(kind, {k: items[k] for k in sorted(items)})


def _mapping(name: str, description: str, **more: bool) -> Parameter:
    return Parameter(name, DYNAMIC, description, inner_marks=True, **more)


FUNCTIONS: Final = (
    Function(
        "keys",
        "The sorted keys of a map.",
        (_mapping("inputMap", "a map or object", allow_unknown=True),),
        _keys_type,
        _keys,
        (Example("keys({ c = 2, a = 1 })", '["a", "c"]'),),
    ),
    Function(
        "lookup",
        "The value of a key, or a default.",
        (
            _mapping("inputMap", "a map or object", allow_unknown=True),
            Parameter("key", STRING, "the key", allow_unknown=True),
        ),
        DYNAMIC,
        _lookup,
        (
            Example('lookup({ a = "ay" }, "a", "what?")', '"ay"'),
            Example('lookup({}, "c", "what?")', '"what?"'),
        ),
        anything("default", "what to give when the key is absent", marked=True),
        may_be_null=True,
    ),
    Function(
        "merge",
        "One map or object with all elements. Later arguments override earlier ones.",
        (),
        DYNAMIC,
        _merge,
        (Example("merge({ a = 1, b = 2 }, { b = 3 })", "{ a = 1, b = 3 }"),),
        anything("maps", "maps and objects", inner_marks=True),
    ),
    Function(
        "transpose",
        "A map of lists with keys and values swapped.",
        (Parameter("values", MapType(_STRINGS), "a map of lists of strings"),),
        MapType(_STRINGS),
        _transpose,
        (Example('transpose({ a = ["1", "2"], b = ["2"] })["2"]', 'tolist(["a", "b"])'),),
    ),
    Function(
        "values",
        "The values of a map, in the order of their keys.",
        (_mapping("mapping", "a map or object"),),
        _values_type,
        _values,
        (Example("values({ c = 2, a = 1 })", "[1, 2]"),),
    ),
    Function(
        "zipmap",
        "A map from a list of keys and a list of values.",
        (Parameter("keys", _STRINGS, "the keys"), _mapping("values", "the values, as many")),
        _zip_map_type,
        _zip_map,
        (Example('zipmap(["a", "b"], [1, 2])', "{ a = 1, b = 2 }"),),
    ),
)
