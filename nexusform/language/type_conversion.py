"""Conversion of values between types, as by `tolist(x)`, an argument or a variable's type."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from nexusform.json_data.plain_data import ConversionProblem, PathStep
from nexusform.schemas.value_types import (
    BOOL,
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
    has_dynamic,
)
from nexusform.values.typed_value import (
    NOT_NULL,
    NULL,
    UNKNOWN,
    Refinement,
    Value,
    add_refinement,
    build_set,
    format_number,
    get_refinement,
    parse_number,
)


def convert_value(value: Value, target: Type) -> Value:
    """Convert the value to type `target`.

    Keep its marks, and fill in the defaults of optional attributes. Open parts (DYNAMIC) of
    `target` keep the type of the value's part; open elements of a collection are converted to their
    common type. Raises ConversionProblem.
    """
    from_type = value.type
    if target is DYNAMIC or from_type is target:
        return value
    raw = value.raw
    if target.__class__ is PrimitiveType:
        if from_type == target:
            return value
        _require_convertible(from_type, target)
        if raw is None or raw is UNKNOWN:
            # Of its refinement, only "not null" is independent of the type.
            return Value(
                target, raw, value.marks, NOT_NULL if get_refinement(value).not_null else None
            )
        return Value(target, _PRIMITIVE_CONVERTERS[from_type, target](raw), value.marks)
    if raw is None or raw is UNKNOWN:
        _require_convertible(from_type, target)
        result_type = _fill_dynamic_types(remove_optional_attributes(target), from_type)
        return add_refinement(
            Value(result_type, raw, value.marks), _convert_refinement(value, target)
        )
    if from_type == target and not _has_optional_attributes(target):
        return value
    return _CONVERTERS[target.__class__](value, target)


def _convert_refinement(value: Value, target: Type) -> Refinement:
    """Return what is known of an unknown value after conversion to a collection or structure.

    The result says whether the value is not null, and bounds the length of a collection.
    """
    refinement = get_refinement(value)
    if isinstance(target, (ObjectType, TupleType)):
        # Its type gives the number of parts.
        return Refinement(refinement.not_null)
    shortest = refinement.shortest
    longest = refinement.longest
    if isinstance(value.type, (ObjectType, TupleType)):
        shortest = longest = len(value.type.parts)
    if isinstance(target, SetType) and not isinstance(value.type, SetType):
        # Equal elements become one.
        shortest = min(shortest, 1)
    return Refinement(refinement.not_null, shortest=shortest, longest=longest)


def describe_problem(problem: ConversionProblem) -> str:
    """Return the problem as a clause with the path inside the value.

    An example is `[0].ports["http"]: a number is required`.
    """
    return f"{problem.place}: {problem.message}" if problem.place else problem.message


def _convert_string_to_number(raw: str) -> Any:
    """Convert text to a number.

    Raises ConversionProblem.
    """
    try:
        number = parse_number(raw)
    except OverflowError:
        raise ConversionProblem(path=(), message="a number with fewer digits is required") from None
    if number is None:
        raise ConversionProblem(path=(), message="a number is required")
    return number


def _convert_string_to_bool(raw: str) -> bool:
    """Convert "true", "1", "false" or "0".

    Raises ConversionProblem.
    """
    if raw in {"true", "1"}:
        return True
    if raw in {"false", "0"}:
        return False
    lowercase = raw.lower()
    if lowercase in {"true", "false"}:
        message = f'a bool is required; to convert from string, use lowercase "{lowercase}"'
        raise ConversionProblem(path=(), message=message)
    raise ConversionProblem(path=(), message="a bool is required")


_PRIMITIVE_CONVERTERS: Final[dict[tuple[Type, Type], Callable[[Any], Any]]] = {
    (STRING, NUMBER): _convert_string_to_number,
    (STRING, BOOL): _convert_string_to_bool,
    (NUMBER, STRING): format_number,
    (BOOL, STRING): lambda raw: "true" if raw else "false",
}


def _convert_part(step: PathStep, part: Value, target: Type, *, is_map_key: bool = False) -> Value:
    """Convert a part of a value.

    Raises ConversionProblem with the step to it.
    """
    try:
        return convert_value(part, target)
    except ConversionProblem as problem:
        raise problem.prepend_step(step, is_map_key=is_map_key) from None


def _list_elements_with_paths(value: Value, target: Type) -> tuple[tuple[PathStep, Value], ...]:
    """List the elements of a sequence or set with their positions.

    Raises ConversionProblem for other values.
    """
    if isinstance(value.type, (ListType, SetType, TupleType)):
        return tuple(enumerate(value.raw))
    raise ConversionProblem(path=(), message=f"{describe_type(target, constraint=True)} required")


def _convert_and_unify_elements(
    parts: Iterable[tuple[PathStep, Value]],
    target: ListType | SetType | MapType,
    from_type: Type,
    collection_word: str,
) -> tuple[Type, list[Value]]:
    """Convert all elements, `parts`, to the element type, or a common one if it is open.

    Return type and elements.
    """
    element_type = target.element
    if not isinstance(from_type, TupleType | ObjectType):
        # Also without elements; parts of a tuple or object are checked below.
        _require_convertible(from_type, target)
    has_keys = isinstance(target, MapType)
    elements = [
        _convert_part(step, part, element_type, is_map_key=has_keys) for step, part in parts
    ]
    if not has_dynamic(element_type):
        return remove_optional_attributes(element_type), elements
    # None to unify: the element type comes from the type of the value.
    if not elements:
        filled = _fill_dynamic_types(target, from_type)
        assert isinstance(filled, (ListType, SetType, MapType))
        return remove_optional_attributes(filled.element), []
    # Loaded on first use.
    from nexusform.language.type_unification import unify_types

    common = unify_types([element.type for element in elements])
    if common is None:
        raise ConversionProblem(
            path=(), message=f"all {collection_word} elements must have the same type"
        )
    return common, [convert_value(element, common) for element in elements]


def _convert_to_list(value: Value, target: ListType) -> Value:
    """Convert a sequence or set.

    If a set has unknown elements, only bounds of its length are known.
    """
    element, items = _convert_and_unify_elements(
        _list_elements_with_paths(value, target), target, value.type, "list"
    )
    if isinstance(value.type, SetType) and not value.is_wholly_known:
        return add_refinement(Value(ListType(element), UNKNOWN, value.marks), get_refinement(value))
    return Value(ListType(element), tuple(items), value.marks)


def _convert_to_set(value: Value, target: SetType) -> Value:
    """Convert a collection to a set."""
    element, items = _convert_and_unify_elements(
        _list_elements_with_paths(value, target), target, value.type, "set"
    )
    return build_set(items, element).add_marks(value.marks)


def _convert_to_map(value: Value, target: MapType) -> Value:
    """Convert an object or a map to a map."""
    if not isinstance(value.type, (MapType, ObjectType)):
        raise ConversionProblem(
            path=(), message=f"{describe_type(target, constraint=True)} required"
        )
    element, items = _convert_and_unify_elements(value.raw.items(), target, value.type, "map")
    return Value(MapType(element), dict(zip(value.raw, items, strict=True)), value.marks)


def _convert_to_tuple(value: Value, target: TupleType) -> Value:
    """Convert a tuple of the same length.

    Raises ConversionProblem.
    """
    if not isinstance(value.type, TupleType):
        raise ConversionProblem(path=(), message="tuple required")
    length = len(value.raw)
    required = len(target.elements)
    if length != required:
        raise ConversionProblem(
            path=(), message=f"tuple of {required} elements required, not {length}"
        )
    items = [
        _convert_part(index, part, target.elements[index]) for index, part in enumerate(value.raw)
    ]
    return Value(TupleType(tuple([v.type for v in items])), tuple(items), value.marks)


def _convert_to_object(value: Value, target: ObjectType) -> Value:
    """Convert a map or object to an object.

    Attributes outside `target` are dropped. An absent one counts as null, and null is replaced by
    the default of the attribute, if it has one.
    """
    if not isinstance(value.type, (MapType, ObjectType)):
        raise ConversionProblem(path=(), message="object required")
    raw = value.raw
    _require_attributes(raw, target)
    defaults = dict(target.defaults)
    items: dict[str, Value] = {}
    for name, attribute_type in target.attributes:
        part = raw.get(name, NULL)
        default = defaults.get(name)
        # None: no default.
        if part.raw is None and isinstance(default, Value):
            part = default.add_marks(part.marks)
        items[name] = _convert_part(name, part, attribute_type)
    return Value(ObjectType(tuple([(n, v.type) for n, v in items.items()])), items, value.marks)


def _require_attributes(names: Collection[str], target: ObjectType) -> None:
    """Require all attributes except optional ones.

    Raises ConversionProblem with the missing ones.
    """
    missing = [
        f'"{name}"'
        for name, _ in target.attributes
        if name not in names and name not in target.optional
    ]
    if len(missing) == 1:
        raise ConversionProblem(path=(), message=f"attribute {missing[0]} is required")
    if missing:
        message = f"attributes {', '.join(missing[:-1])} and {missing[-1]} are required"
        raise ConversionProblem(path=(), message=message)


_CONVERTERS: Final[dict[type, Callable[[Value, Any], Value]]] = {
    ListType: _convert_to_list,
    SetType: _convert_to_set,
    MapType: _convert_to_map,
    TupleType: _convert_to_tuple,
    ObjectType: _convert_to_object,
}


def _has_optional_attributes(target: Type) -> bool:
    has_own = isinstance(target, ObjectType) and bool(target.optional)
    return has_own or any(map(_has_optional_attributes, target.parts))


def remove_optional_attributes(target: Type) -> Type:
    """Return the type of a value converted to this type: without optional attributes."""
    if not _has_optional_attributes(target):
        return target
    return target.replace_parts(map(remove_optional_attributes, target.parts))


def _fill_dynamic_types(target: Type, from_type: Type) -> Type:
    """Return the type `target` with its open parts replaced by those of `from_type`.

    Open parts are DYNAMIC; each is replaced by the part at the same place. A list of DYNAMIC and a
    tuple of strings give a list of strings. A part that `from_type` lacks stays open.
    """
    if target is DYNAMIC:
        return from_type
    if from_type is DYNAMIC or not has_dynamic(target):
        # Nothing to take or to fill.
        return target
    # One for each part of `target`.
    sources: Iterable[Type] = from_type.parts
    if isinstance(target, ObjectType) and isinstance(from_type, ObjectType):
        # Filled from itself, the type of an absent attribute stays.
        sources = [from_type.get_attribute(name) or part for name, part in target.attributes]
    elif isinstance(target, ListType | SetType | MapType):
        # Loaded on first use.
        from nexusform.language.type_unification import unify_types

        # Without a common type, the element stays open.
        sources = [unify_types(from_type.parts) or DYNAMIC]
    elif target.__class__ is not from_type.__class__:
        # A structure takes nothing from another kind of value.
        return target
    return target.replace_parts(map(_fill_dynamic_types, target.parts, sources))


def _require_convertible(from_type: Type, target: Type) -> None:
    """Raise ConversionProblem if no value of the one type can be converted to the other."""
    if target is DYNAMIC or from_type is DYNAMIC or from_type == target:
        # A type is open, or there is nothing to convert.
        return
    if isinstance(target, PrimitiveType):
        # Strings convert to and from numbers and bools.
        if not isinstance(from_type, PrimitiveType) or {from_type.name, target.name} == {
            "number",
            "bool",
        }:
            raise ConversionProblem(path=(), message=f"{target.name} required")
    elif isinstance(target, ObjectType):
        _require_convertible_to_object(from_type, target)
    elif isinstance(target, TupleType):
        if not isinstance(from_type, TupleType) or len(from_type.elements) != len(target.elements):
            raise ConversionProblem(path=(), message="tuple required")
        _require_convertible_parts(enumerate(from_type.elements), target.elements)
    else:
        _require_convertible_to_collection(from_type, target)


def _require_convertible_to_object(from_type: Type, target: ObjectType) -> None:
    """Require a map, or an object with the required attributes.

    Raises ConversionProblem.
    """
    if isinstance(from_type, MapType):
        # Only a value shows whether it has the keys.
        return
    if not isinstance(from_type, ObjectType):
        raise ConversionProblem(path=(), message="object required")
    _require_attributes(from_type.names, target)
    required_types = dict(target.attributes)
    present = [(name, part) for name, part in from_type.attributes if name in required_types]
    _require_convertible_parts(present, [required_types[name] for name, _ in present])


def _require_convertible_to_collection(
    from_type: Type, target: ListType | SetType | MapType
) -> None:
    """Require a type of the same shape (sequence or mapping) with convertible parts.

    Raises ConversionProblem. A tuple or object has several part types: each must be convertible to
    the element type of the collection.
    """
    from_sequence = isinstance(from_type, (ListType, SetType, TupleType))
    from_mapping = isinstance(from_type, (MapType, ObjectType))
    has_other_shape = from_sequence if isinstance(target, MapType) else from_mapping
    if has_other_shape or isinstance(from_type, PrimitiveType):
        raise ConversionProblem(
            path=(), message=f"{describe_type(target, constraint=True)} required"
        )
    if isinstance(from_type, TupleType | ObjectType):
        parts = (
            enumerate(from_type.elements)
            if isinstance(from_type, TupleType)
            else from_type.attributes
        )
        _require_convertible_parts(
            parts, [target.element] * len(from_type.parts), has_keys=isinstance(target, MapType)
        )
    else:
        _require_convertible(from_type.element, target.element)


def _require_convertible_parts(
    parts: Iterable[tuple[PathStep, Type]], types: Sequence[Type], *, has_keys: bool = False
) -> None:
    """Require each part to be convertible to its type in `types`.

    A ConversionProblem has the step to the part.
    """
    for (step, part), target in zip(parts, types, strict=True):
        try:
            _require_convertible(part, target)
        except ConversionProblem as problem:
            raise problem.prepend_step(step, is_map_key=has_keys) from None
