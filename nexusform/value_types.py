"""The types that values have: the type system is HCL's.

Converting one type to another is the language's business: language/conversion.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct


class PrimitiveType(Struct, frozen=True):
    """string, number, bool, and `any` (dynamic: a type not known yet)."""

    name: str


STRING: Final = PrimitiveType("string")
NUMBER: Final = PrimitiveType("number")
BOOL: Final = PrimitiveType("bool")
DYNAMIC: Final = PrimitiveType("dynamic")


class ListType(Struct, frozen=True):
    """list(element)."""

    element: Type


class SetType(Struct, frozen=True):
    """set(element)."""

    element: Type


class MapType(Struct, frozen=True):
    """map(element)."""

    element: Type


class TupleType(Struct, frozen=True):
    """tuple([...])."""

    elements: tuple[Type, ...]


class ObjectType(Struct, frozen=True):
    """object({...}); attributes sorted by name.

    `optional` names may be absent on conversion and become null or their default (`defaults`, as
    (name, Value) pairs, which are objects to this module, since values stand above it).
    """

    attributes: tuple[tuple[str, Type], ...]
    optional: frozenset[str] = frozenset()
    defaults: tuple[tuple[str, object], ...] = ()

    @staticmethod
    def of(
        attributes: Mapping[str, Type],
        optional: Iterable[str] = (),
        defaults: Mapping[str, object] | None = None,
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


def friendly_name(of: Type, *, constraint: bool = False) -> str:
    """The type as messages name it: `list of string`, `object`.

    As a constraint (what a place accepts) the open type is `any type`, and `any single type`
    inside a collection.
    """
    if isinstance(of, PrimitiveType):
        return "any type" if constraint and of is DYNAMIC else of.name
    if isinstance(of, TupleType):
        return "tuple"
    if isinstance(of, ObjectType):
        return "object"
    inner = friendly_name(of.element, constraint=constraint)
    if constraint and of.element is DYNAMIC:
        inner = "any single type"
    return f"{_COLLECTIONS[type(of)]} of {inner}"


def has_dynamic(of: Type) -> bool:
    """Whether the open type stands anywhere in it."""
    if isinstance(of, PrimitiveType):
        return of is DYNAMIC
    if isinstance(of, ObjectType):
        return any(has_dynamic(t) for _, t in of.attributes)
    if isinstance(of, TupleType):
        return any(has_dynamic(t) for t in of.elements)
    return has_dynamic(of.element)


def type_to_json(of: Type) -> Any:
    """The type as JSON data: `"string"`, `["list", T]`, `["object", {name: T}]`.

    An object with optional attributes has their names as a third item. Defaults are not kept.
    """
    if isinstance(of, PrimitiveType):
        return of.name
    if isinstance(of, TupleType):
        return ["tuple", [type_to_json(t) for t in of.elements]]
    if isinstance(of, ObjectType):
        attributes = {name: type_to_json(t) for name, t in of.attributes}
        return ["object", attributes, sorted(of.optional)] if of.optional else ["object", attributes]
    return [_COLLECTIONS[type(of)], type_to_json(of.element)]


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
