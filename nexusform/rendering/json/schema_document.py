"""The schemas of all types in the form of `terraform providers schema -json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.ports import Registries, ResourceType
from nexusform.schema import Attribute, BlockSchema, NestedBlock
from nexusform.value_types import type_to_json

FORMAT_VERSION: Final = "1.0"


def providers_schema(registries: Registries) -> dict[str, Any]:
    """The document: the one provider's resource types and data sources, by name."""
    schemas = {
        "provider": {"version": 0, "block": {}},
        "resource_schemas": _schemas(registries.resource_types),
        "data_source_schemas": _schemas(registries.data_sources),
    }
    return {"format_version": FORMAT_VERSION, "provider_schemas": {"nexusform": schemas}}


def _schemas(types: Mapping[str, ResourceType]) -> dict[str, Any]:
    return {name: {"version": 0, "block": _block(types[name].schema)} for name in sorted(types)}


def _block(schema: BlockSchema) -> dict[str, Any]:
    block: dict[str, Any] = {"attributes": {n: _attribute(a) for n, a in sorted(schema.attributes.items())}}
    if schema.blocks:
        block["block_types"] = {name: _nested(nested) for name, nested in sorted(schema.blocks.items())}
    if schema.description:
        block |= {"description": schema.description, "description_kind": "plain"}
    return block


def _attribute(attribute: Attribute) -> dict[str, Any]:
    flags = ("required", "optional", "computed", "sensitive")
    return {
        "type": type_to_json(attribute.type),
        "description": attribute.description,
        "description_kind": "plain",
        **{flag: True for flag in flags if getattr(attribute, flag)},
    }


def _nested(nested: NestedBlock) -> dict[str, Any]:
    limits = {"min_items": nested.min_items, "max_items": nested.max_items}
    return {
        "nesting_mode": nested.nesting.value,
        "block": _block(nested.schema),
        **{name: limit for name, limit in limits.items() if limit},
    }
