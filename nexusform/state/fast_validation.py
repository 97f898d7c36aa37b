"""Fast check of attributes against their resource type, by msgspec's own checks.

A positive result implies that `validate_attributes` (attribute_validation.py) finds no error in attributes
read from JSON. After a negative result, `validate_attributes` decides and reports the errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Required, TypeAlias, TypedDict

from msgspec import Meta, ValidationError, convert

from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, Nesting, get_order_attribute
from nexusform.schemas.value_types import DYNAMIC, ListType, MapType, ObjectType, PrimitiveType, SetType, Type
from nexusform.state.attribute_validation import COUNT_NAMES, has_machine_fields

_Annotation: TypeAlias = Any  # an annotation that msgspec understands
_PRIMITIVES: Final[Mapping[str, _Annotation]] = {"string": str, "bool": bool, "number": int | float}
_COUNT: Final[_Annotation] = Annotated[int, Meta(ge=0)]


_ANY_BUT_NULL: Final = bool | int | float | str | list[Any] | dict[str, Any]


def is_certainly_valid(schema: BlockSchema, attributes: Mapping[str, Any]) -> bool:
    """Check whether the attributes certainly match the schema; False if a full validation is needed."""
    try:
        convert(attributes, _build_body_annotation(schema))
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=1024)
def _build_body_annotation(schema: BlockSchema) -> _Annotation:
    annotations: dict[str, _Annotation] = {}
    for name, attribute in schema.attributes.items():
        annotation = _build_attribute_annotation(attribute)
        is_required = attribute.required or (name == "name" and attribute.computed)
        annotations[name] = Required[annotation] if is_required else annotation | None
    for name, block in schema.blocks.items():
        body = _build_body_annotation(block.schema)
        if block.nesting is Nesting.SINGLE:
            annotation = body
        else:
            annotation = list[body] if block.nesting is Nesting.LIST else dict[str, body]  # type: ignore[valid-type]
        annotations[name] = Required[annotation] if block.min_items else annotation | None
        if block.nesting is Nesting.MAP:
            annotations[get_order_attribute(name)] = list[str] | None
    return _build_typed_dict(annotations)


def _build_attribute_annotation(attribute: AttributeSchema) -> _Annotation:
    if attribute.type.__class__ is PrimitiveType:
        if attribute.choices:
            return Literal[attribute.choices]
        if attribute.minimum is not None:
            bounds = Meta(ge=attribute.minimum, le=attribute.maximum)
            return Annotated[float if attribute.allows_fractions else int, bounds]
    if attribute.required and attribute.type is DYNAMIC:
        return _ANY_BUT_NULL
    return _build_type_annotation(attribute.type)


@lru_cache(maxsize=1024)
def _build_type_annotation(value_type: Type) -> _Annotation:
    if value_type is DYNAMIC:
        return Any
    if isinstance(value_type, PrimitiveType):
        return _PRIMITIVES[value_type.name]
    if isinstance(value_type, ObjectType):
        annotations = {name: _build_member_annotation(name, part) | None for name, part in value_type.attributes}
        # Attributes required with a machine need the full validation.
        return _build_typed_dict({**annotations, "machine": None} if has_machine_fields(value_type) else annotations)
    if isinstance(value_type, MapType):
        element = _build_type_annotation(value_type.element)
        return dict[str, element if isinstance(value_type.element, ObjectType) else element | None]  # type: ignore[misc]
    if isinstance(value_type, ListType | SetType):
        return list[_build_type_annotation(value_type.element)]  # type: ignore[misc]
    parts = [_build_type_annotation(part) | None for part in value_type.elements]
    return tuple.__class_getitem__(tuple(parts))


def _build_member_annotation(name: str, member_type: Type) -> _Annotation:
    if name not in COUNT_NAMES:
        return _build_type_annotation(member_type)
    return list[_COUNT] if isinstance(member_type, ListType) else _COUNT


def _build_typed_dict(annotations: Mapping[str, _Annotation]) -> _Annotation:
    return TypedDict("Attributes", dict(annotations), total=False)  # type: ignore[operator]
