"""Types of values: the type system of HCL.

language/type_conversion.py converts values between types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self, TypeAlias

from msgspec import Struct


class PrimitiveType(Struct, frozen=True):
    """string, number, bool, and `any` (dynamic: a type that is not known yet)."""

    name: str
    parts: ClassVar[tuple[Type, ...]] = ()

    def replace_parts(self, _parts: Iterable[Type]) -> Self:
        """Return the type itself: it has no parts."""
        return self


STRING: Final = PrimitiveType("string")
NUMBER: Final = PrimitiveType("number")
BOOL: Final = PrimitiveType("bool")
DYNAMIC: Final = PrimitiveType("dynamic")


class _CollectionType(Struct, frozen=True):
    element: Type

    @property
    def parts(self) -> tuple[Type, ...]:
        """Type of its elements."""
        return (self.element,)

    def replace_parts(self, parts: Iterable[Type]) -> Self:
        """Return the same kind of collection with another element type."""
        return type(self)(*parts)


class ListType(_CollectionType, frozen=True):
    """list(element)."""


class SetType(_CollectionType, frozen=True):
    """set(element)."""


class MapType(_CollectionType, frozen=True):
    """map(element)."""


class TupleType(Struct, frozen=True):
    """tuple([...])."""

    elements: tuple[Type, ...]

    @property
    def parts(self) -> tuple[Type, ...]:
        """Types of its elements."""
        return self.elements

    def replace_parts(self, parts: Iterable[Type]) -> TupleType:
        """Return a tuple type with other element types."""
        return TupleType(tuple(parts))


_NO_DEFAULTS: Final[Mapping[str, object]] = {}


class ObjectType(Struct, frozen=True):
    """object({...}); attributes sorted by name.

    `optional` names may be absent on conversion and become null or their default (`defaults`, as
    (name, Value) pairs, untyped here because values/typed_value.py depends on this module).
    """

    attributes: tuple[tuple[str, Type], ...]
    optional: frozenset[str] = frozenset()
    defaults: tuple[tuple[str, object], ...] = ()

    @staticmethod
    def create(
        attributes: Mapping[str, Type],
        optional: Iterable[str] = (),
        defaults: Mapping[str, object] = _NO_DEFAULTS,
    ) -> ObjectType:
        """Create an object type from mappings in any order."""
        pairs = tuple(sorted(attributes.items(), key=lambda pair: pair[0]))
        default_pairs = tuple(sorted(defaults.items(), key=lambda pair: pair[0]))
        return ObjectType(pairs, frozenset(optional), default_pairs)

    @property
    def parts(self) -> tuple[Type, ...]:
        """Types of its attributes."""
        return tuple([part for _, part in self.attributes])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its attributes, in order."""
        return tuple([name for name, _ in self.attributes])

    def replace_parts(self, parts: Iterable[Type]) -> ObjectType:
        """Return a type with other types of the same attributes, all required."""
        return ObjectType(tuple(zip(self.names, parts, strict=True)))

    def get_attribute(self, name: str) -> Type | None:
        """Return the type of an attribute, or None."""
        return next(
            (
                attribute_type
                for known_name, attribute_type in self.attributes
                if known_name == name
            ),
            None,
        )


Type: TypeAlias = PrimitiveType | ListType | SetType | MapType | TupleType | ObjectType

_COLLECTIONS: Final = {ListType: "list", SetType: "set", MapType: "map"}
_COLLECTIONS_BY_NAME: Final[Mapping[str, type[ListType | SetType | MapType]]] = {
    "list": ListType,
    "set": SetType,
    "map": MapType,
}
_PRIMITIVES: Final = {"string": STRING, "number": NUMBER, "bool": BOOL, "dynamic": DYNAMIC}


def describe_type(value_type: Type, *, constraint: bool = False) -> str:
    """Describe the type for messages.

    Examples are `list of string`, `object`, `any type`, and `any single type` (in a collection).
    """
    if isinstance(value_type, PrimitiveType):
        return "any type" if constraint and value_type is DYNAMIC else value_type.name
    if isinstance(value_type, TupleType):
        return "tuple"
    if isinstance(value_type, ObjectType):
        return "object"
    element_name = describe_type(value_type.element, constraint=constraint)
    if constraint and value_type.element is DYNAMIC:
        element_name = "any single type"
    return f"{_COLLECTIONS[type(value_type)]} of {element_name}"


def is_same_type(left: Type, right: Type) -> bool:
    """Return `left == right` for types of any depth.

    Python 3.12 compares at most 500 levels of object types.
    """
    pending = [(left, right)]
    while pending:
        left, right = pending.pop()
        if isinstance(left, ObjectType) and isinstance(right, ObjectType):
            is_same = (left.names, left.optional, left.defaults) == (
                right.names,
                right.optional,
                right.defaults,
            )
        elif isinstance(left, PrimitiveType):
            is_same = left == right
        else:
            is_same = type(left) is type(right) and len(left.parts) == len(right.parts)
        if not is_same:
            return False
        pending += zip(left.parts, right.parts, strict=True)
    return True


def has_dynamic(value_type: Type) -> bool:
    """Check whether the type contains the open type."""
    return value_type is DYNAMIC or any(map(has_dynamic, value_type.parts))


def build_type_json(value_type: Type) -> Any:
    """Build the JSON data of a type: `"string"`, `["list", T]`, `["object", {name: T}]`.

    An object with optional attributes has their names as a third item. Defaults are not included.
    """
    if isinstance(value_type, PrimitiveType):
        return value_type.name
    if isinstance(value_type, TupleType):
        return ["tuple", list(map(build_type_json, value_type.elements))]
    if isinstance(value_type, ObjectType):
        attributes = {
            name: build_type_json(attribute_type) for name, attribute_type in value_type.attributes
        }
        return (
            ["object", attributes, sorted(value_type.optional)]
            if value_type.optional
            else ["object", attributes]
        )
    return [_COLLECTIONS[type(value_type)], build_type_json(value_type.element)]


def parse_type_json(data: Any) -> Type:
    """Parse the JSON data of `build_type_json`.

    Raises ValueError for anything else.
    """
    match data:
        case "string" | "number" | "bool" | "dynamic":
            return _PRIMITIVES[data]
        case ["list" | "set" | "map" as name, element]:
            return _COLLECTIONS_BY_NAME[name](parse_type_json(element))
        case ["tuple", [*elements]]:
            return TupleType(tuple(map(parse_type_json, elements)))
        case ["object", {**attributes}, *optional] if len(optional) <= 1:
            return ObjectType.create(
                {str(name): parse_type_json(item) for name, item in attributes.items()}, *optional
            )
    raise ValueError(f"not a type: {data!r}")
