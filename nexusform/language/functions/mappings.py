"""Functions on maps and objects."""

from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    build_any_parameter,
    find_shared_type,
)
from nexusform.language.type_conversion import convert_value
from nexusform.schemas.value_types import (
    DYNAMIC,
    STRING,
    ListType,
    MapType,
    ObjectType,
    TupleType,
    Type,
    describe_type,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    NO_MARKS,
    UNKNOWN,
    Value,
    build_object,
    collect_marks,
)

_STRINGS: Final = ListType(STRING)


def _find_keys_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of `keys`: a list for a map, a tuple for an object."""
    mapping_type = arguments[0].type
    if isinstance(mapping_type, MapType):
        return _STRINGS  # a list
    if isinstance(mapping_type, ObjectType):
        return TupleType((STRING,) * len(mapping_type.attributes))
    if mapping_type is DYNAMIC:
        return DYNAMIC
    raise FixedProblem("must have map or object type", argument=0)


def _compute_keys(mapping: Value) -> Value:
    """Return the sorted keys.

    The keys of an unknown object are known from its type.
    """
    result_type = _find_keys_result_type([mapping])
    keys = mapping.type.names if isinstance(mapping.type, ObjectType) else mapping.raw
    if keys is UNKNOWN:
        return Value(result_type, UNKNOWN)
    return Value(result_type, tuple([Value(STRING, key) for key in keys]))


def _find_values_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of `values`: a list for a map, a tuple for an object.

    Raises FunctionProblem.
    """
    mapping_type = arguments[0].type
    if isinstance(mapping_type, MapType):
        return ListType(mapping_type.element)
    if isinstance(mapping_type, ObjectType):
        return TupleType(mapping_type.parts)
    raise FixedProblem("values() requires a map as the first argument")


def _find_lookup_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of a map's elements, or of an object's attribute.

    The type is DYNAMIC if it is unknown or missing.
    """
    mapping_type = arguments[0].type
    key = arguments[1].raw
    if isinstance(mapping_type, MapType):
        return mapping_type.element
    if not isinstance(mapping_type, ObjectType):
        raise FixedProblem("lookup() requires a map as the first argument", argument=0)
    attribute_type = None if key is UNKNOWN else mapping_type.get_attribute(key)
    return attribute_type or DYNAMIC


def _lookup_key(mapping: Value, key: Value, *default: Value) -> Value:
    """Return the element of a key, else the default.

    Unknown maps or keys make it unknown. Raises FunctionProblem.
    """
    if len(default) > 1:
        raise FixedProblem("lookup() takes two or three arguments")
    mapping_type = mapping.type
    if mapping_type is DYNAMIC:
        return DYNAMIC_UNKNOWN
    result_type = _find_lookup_result_type([mapping, key])
    fallback = default[0] if default else None
    # For an object it may have any type.
    if fallback is not None and isinstance(mapping_type, MapType):
        try:
            fallback = convert_value(fallback, result_type)
        except ConversionProblem:
            raise FixedProblem(
                "the default value must have the same type as the map elements", argument=2
            ) from None
    # The result may be the default, with its marks.
    if mapping.raw is UNKNOWN or key.raw is UNKNOWN:
        return Value(result_type, UNKNOWN, NO_MARKS.union(*map(collect_marks, default)))
    element: Value | None = mapping.raw.get(key.raw)
    if element is not None:
        return element
    if fallback is not None:
        return fallback
    # The caller adds a full stop.
    hint = suggest_name(key.raw, mapping.raw).rstrip("?")
    if isinstance(mapping_type, ObjectType):
        raise FunctionProblem(f'the given object has no attribute "{key.raw}"{hint}', argument=0)
    raise FunctionProblem(f'lookup failed to find key "{key.raw}"{hint}')


def _merge_maps(*maps: Value) -> Value:
    """Evaluate `merge`: combine maps and objects to one.

    The last of equal keys counts, and null adds nothing. The result is a map if all arguments are
    maps of one type, else an object. An unknown argument makes it unknown; its type keeps known
    attributes, unless a map with unknown keys may replace them.
    """
    for position, mapping in enumerate(maps):
        if mapping.type is not DYNAMIC and not isinstance(mapping.type, (MapType, ObjectType)):
            raise FunctionProblem(
                f'arguments must be maps or objects, got "{describe_type(mapping.type)}"', position
            )
    marks = NO_MARKS.union(*[mapping.marks for mapping in maps])
    shared_type = find_shared_type(maps)
    # All arguments are maps of one type.
    is_map = isinstance(shared_type, MapType)
    if any(mapping.raw is UNKNOWN for mapping in maps):
        if is_map:
            return Value(shared_type, UNKNOWN, marks)
        return _build_unknown_merge(maps).add_marks(marks)
    merged: dict[str, Value] = {}
    for mapping in maps:
        # Null has no entries.
        merged.update(mapping.raw or {})
    # Sorted by key.
    result = build_object(merged)
    if is_map:
        return Value(shared_type, result.raw, marks)
    return result.add_marks(marks)


def _build_unknown_merge(maps: Sequence[Value]) -> Value:
    """Build the unknown result of a merge.

    An object of known attributes, unless the keys of a map are unknown.
    """
    attributes: dict[str, Type] = {}
    for mapping in maps:
        if mapping.raw is None:
            # Null is empty.
            continue
        if isinstance(mapping.type, ObjectType):
            attributes.update(dict(mapping.type.attributes))
        elif mapping.raw is UNKNOWN:
            # Its keys are unknown.
            return DYNAMIC_UNKNOWN
        else:
            # A known map.
            attributes.update({k: v.type for k, v in mapping.raw.items()})
    return Value(ObjectType.create(attributes), UNKNOWN)


def _compute_transpose(mapping: Value) -> Value:
    """Swap the keys and values of a map of lists: each value gets the list of its keys.

    Unknown if any part is.
    """
    result_type = MapType(_STRINGS)
    if not mapping.is_wholly_known:
        return Value(result_type, UNKNOWN)
    keys_by_value: dict[str, list[Value]] = {}
    for key, values in mapping.raw.items():
        if values.raw is None:
            raise FixedProblem("input must not contain null list", argument=0)
        for value in values.raw:
            if value.raw is None:
                raise FixedProblem("input must not contain null string", argument=0)
            keys_by_value.setdefault(value.raw, []).append(Value(STRING, key))
    return Value(
        result_type,
        {value: Value(_STRINGS, tuple(keys_by_value[value])) for value in sorted(keys_by_value)},
    )


def _find_zip_map_result_type(arguments: Sequence[Value]) -> Type:
    """Return a map type for a list of values, an object type for a tuple.

    The type is DYNAMIC if the keys are not known.
    """
    keys, values = arguments
    if isinstance(values.type, ListType):
        return MapType(values.type.element)
    if not isinstance(values.type, TupleType):
        raise FixedProblem("values argument must be a list or tuple value", argument=1)
    if not keys.is_wholly_known or len(keys.raw) != len(values.type.elements):
        # The keys are not known, or their number is wrong, as the call reports.
        return DYNAMIC
    pairs = zip(keys.raw, values.type.elements, strict=True)
    return ObjectType.create({str(k.raw): t for k, t in pairs})


def _build_zip_map(keys: Value, values: Value) -> Value:
    """Combine keys and values: ["b", "a"] and [1, 2] give { a = 2, b = 1 }.

    The last of equal keys counts. The result is unknown if a key is. Raises FunctionProblem for
    different numbers, or a null key.
    """
    result_type = _find_zip_map_result_type([keys, values])
    if not keys.is_wholly_known:
        return Value(result_type, UNKNOWN)
    if len(keys.raw) != len(values.raw):
        raise FunctionProblem(
            f"number of keys ({len(keys.raw)}) does not match number of values ({len(values.raw)})"
        )
    if any(k.raw is None for k in keys.raw):
        raise FixedProblem("keys must not be null", argument=0)
    entries = {k.raw: v for k, v in zip(keys.raw, values.raw, strict=True)}
    return Value(result_type, {key: entries[key] for key in sorted(entries)})


def _build_mapping_parameter(name: str, description: str, **options: bool) -> Parameter:
    return Parameter(name, DYNAMIC, description, inner_marks=True, **options)


FUNCTIONS: Final = (
    Function(
        "keys",
        "The sorted keys of a map.",
        (_build_mapping_parameter("inputMap", "a map or object", allow_unknown=True),),
        _find_keys_result_type,
        _compute_keys,
        (Example("keys({ c = 2, a = 1 })", '["a", "c"]'),),
    ),
    Function(
        "lookup",
        "The value of a key, or a default.",
        (
            _build_mapping_parameter("inputMap", "a map or object", allow_unknown=True),
            Parameter("key", STRING, "the key", allow_unknown=True),
        ),
        DYNAMIC,
        _lookup_key,
        (
            Example('lookup({ a = "ay" }, "a", "what?")', '"ay"'),
            Example('lookup({}, "c", "what?")', '"what?"'),
        ),
        build_any_parameter("default", "the value for a missing key", allow_marked=True),
        may_be_null=True,
    ),
    Function(
        "merge",
        "One map or object with all elements. Later arguments override earlier ones.",
        (),
        DYNAMIC,
        _merge_maps,
        (Example("merge({ a = 1, b = 2 }, { b = 3 })", "{ a = 1, b = 3 }"),),
        build_any_parameter("maps", "maps and objects", inner_marks=True),
    ),
    Function(
        "transpose",
        "A map of lists with keys and values swapped.",
        (Parameter("values", MapType(_STRINGS), "a map of lists of strings"),),
        MapType(_STRINGS),
        _compute_transpose,
        (Example('transpose({ a = ["1", "2"], b = ["2"] })["2"]', 'tolist(["a", "b"])'),),
    ),
    Function(
        "values",
        "The values of a map, in the order of their keys.",
        (_build_mapping_parameter("mapping", "a map or object"),),
        _find_values_result_type,
        lambda mapping: Value(_find_values_result_type([mapping]), tuple(mapping.raw.values())),
        (Example("values({ c = 2, a = 1 })", "[1, 2]"),),
    ),
    Function(
        "zipmap",
        "A map from a list of keys and a list of values.",
        (
            Parameter("keys", _STRINGS, "the keys"),
            _build_mapping_parameter("values", "the values, as many"),
        ),
        _find_zip_map_result_type,
        _build_zip_map,
        (Example('zipmap(["a", "b"], [1, 2])', "{ a = 1, b = 2 }"),),
    ),
)
