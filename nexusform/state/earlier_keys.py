"""Names in states of earlier versions, with the present names of the same things.

A state or journal that was written before a key changed is read as if it had the present one
(docs/decisions/0029-names-and-size.md). Nothing writes an earlier name.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.schemas.block_schema import BlockSchema
from nexusform.state.objects import ObjectState


def rename_earlier_keys(schema: BlockSchema, current: ObjectState) -> ObjectState:
    """Return an object with the present names of the keys in its attributes."""
    attributes: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = current.attributes.get(name)
        if attribute.earlier_keys and isinstance(value, Mapping):
            attributes[name] = {
                label: _rename_keys(element, attribute.earlier_keys)
                for label, element in value.items()
            }
    if not attributes:
        return current
    return replace(current, attributes={**current.attributes, **attributes})


def _rename_keys(element: Any, names: Mapping[str, str]) -> Any:
    """Return the element of a map with the present names of its keys."""
    if not isinstance(element, Mapping):
        return element
    return {names.get(key, key): value for key, value in element.items()}
