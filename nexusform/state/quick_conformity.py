"""A quick look at whether attributes are what their resource type says, by msgspec's own checks.

It says yes only where `misfits` (conformity.py) finds nothing in attributes that were read from JSON. Where
it says no that one is asked, which knows what is wrong, and whether anything is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Required, TypeAlias, TypedDict

from msgspec import Meta, ValidationError, convert

from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, order_attribute
from nexusform.state.conformity import COUNTED, is_of_machine
from nexusform.value_types import DYNAMIC, ListType, MapType, ObjectType, PrimitiveType, SetType, Type

_Shape: TypeAlias = Any  # an annotation that msgspec understands
_PRIMITIVES: Final[Mapping[str, _Shape]] = {"string": str, "bool": bool, "number": int | float}
_COUNT: Final[_Shape] = Annotated[int, Meta(ge=0)]


def conforms_at_once(schema: BlockSchema, attributes: Mapping[str, Any]) -> bool:
    """Whether the attributes are certainly as the schema says; False where that needs a closer look."""
    try:
        convert(attributes, _of_body(schema))
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=1024)
def _of_body(schema: BlockSchema) -> _Shape:
    shapes: dict[str, _Shape] = {}
    for name, attribute in schema.attributes.items():
        shape = _of_attribute(attribute)
        needed = attribute.required or (name == "name" and attribute.computed)
        shapes[name] = Required[shape] if needed else shape | None
    for name, block in schema.blocks.items():
        shape = _of_block(block)
        shapes[name] = Required[shape] if block.min_items else shape | None
        if block.nesting is Nesting.MAP:
            shapes[order_attribute(name)] = list[str] | None
    return _object(shapes)


def _of_block(block: NestedBlock) -> _Shape:
    body = _of_body(block.schema)
    if block.nesting is Nesting.SINGLE:
        return body
    return list[body] if block.nesting is Nesting.LIST else dict[str, body]  # type: ignore[valid-type]


def _of_attribute(attribute: Attribute) -> _Shape:
    if attribute.type.__class__ is PrimitiveType:
        if attribute.choices:
            return Literal[attribute.choices]
        if attribute.minimum is not None:
            bounds = Meta(ge=attribute.minimum, le=attribute.maximum)
            return Annotated[float if attribute.fractions else int, bounds]
    return _of_type(attribute.type)


@lru_cache(maxsize=1024)
def _of_type(of: Type) -> _Shape:
    if of is DYNAMIC:
        return Any
    if isinstance(of, PrimitiveType):
        return _PRIMITIVES[of.name]
    if isinstance(of, ObjectType):
        shapes = {name: _of_member(name, part) | None for name, part in of.attributes}
        # What must be known beside a machine is for a closer look.
        return _object({**shapes, "machine": None} if is_of_machine(of) else shapes)
    if isinstance(of, MapType):
        element = _of_type(of.element)
        return dict[str, element if isinstance(of.element, ObjectType) else element | None]  # type: ignore[misc]
    if isinstance(of, ListType | SetType):
        return list[_of_type(of.element)]  # type: ignore[misc]
    parts = [_of_type(part) | None for part in of.elements]
    return tuple.__class_getitem__(tuple(parts))


def _of_member(name: str, of: Type) -> _Shape:
    if name not in COUNTED:
        return _of_type(of)
    return list[_COUNT] if isinstance(of, ListType) else _COUNT


def _object(shapes: Mapping[str, _Shape]) -> _Shape:
    return TypedDict("Attributes", dict(shapes), total=False)  # type: ignore[operator]
