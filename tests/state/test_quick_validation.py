"""Tests of quick validation: attributes accepted by it have no errors in the full validation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from nexusform.json_data.plain_data import Path
from nexusform.resource_types.registry import build_registries
from nexusform.schemas.block_schema import BlockSchema, compute_implied_type
from nexusform.schemas.value_types import ListType, MapType, ObjectType, PrimitiveType, SetType, Type
from nexusform.state.attribute_validation import is_certainly_valid, validate_attributes
from tests.state.test_attribute_validation import CLUSTER, SOUND

SCHEMAS = build_registries().schemas["managed"]
ODD: tuple[Any, ...] = (None, True, 1, -1, 0.5, 2.0, 10**30, "odd", [], [None], {}, {"odd": None})


def build_sample(of: Type) -> Any:
    """Return a value of a type, each list and map with one element."""
    if isinstance(of, ObjectType):
        return {name: build_sample(part) for name, part in of.attributes}
    if isinstance(of, MapType):
        return {"key": build_sample(of.element)}
    if isinstance(of, ListType | SetType):
        return [build_sample(of.element)]
    if isinstance(of, PrimitiveType):
        return {"string": "text", "bool": True}.get(of.name, 1)
    return ["anything"]


def build_valid_attributes(schema: BlockSchema) -> dict[str, Any]:
    """Return valid attributes: samples, replaced if the schema restricts values."""
    attributes: dict[str, Any] = build_sample(compute_implied_type(schema))
    for name, attribute in schema.attributes.items():
        if attribute.choices and isinstance(attribute.type, PrimitiveType):
            attributes[name] = attribute.choices[0]
        elif attribute.minimum is not None and isinstance(attribute.type, PrimitiveType):
            attributes[name] = attribute.minimum
    for name, block in schema.blocks.items():
        inner, shape = build_valid_attributes(block.schema), attributes[name]
        attributes[name] = [inner] if isinstance(shape, list) else inner
        if block.nesting == "map":
            attributes[name] = {"key": inner}
    return attributes


def list_paths(value: Any, here: Path = ()) -> Iterator[Path]:
    yield here
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in steps:
        yield from list_paths(part, (*here, step))


def mutate_attributes(attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the attributes with another value in one place, and with one value left out."""
    for path in list_paths(attributes):
        for odd in ODD if path else ():
            changed = copy.deepcopy(attributes)
            holder: Any = changed
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = odd
            yield changed
            if odd is None and isinstance(holder, dict):
                del holder[path[-1]]
                yield changed


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_quickly_accepted_attributes_have_no_errors(name: str) -> None:
    schema = SCHEMAS[name]
    good = build_valid_attributes(schema)
    assert validate_attributes(schema, good) == []
    passed = 0
    for attributes in mutate_attributes(good):
        if is_certainly_valid(schema, attributes):
            assert validate_attributes(schema, attributes) == [], attributes
            passed += 1
    text = orjson.dumps(good)
    assert passed or b'"machine":"text"' in text  # objects on machines need the full validation


def test_pools_and_objects_on_machines() -> None:
    schema = CLUSTER
    assert not is_certainly_valid(schema, SOUND)
    off = SOUND | {"nodes": {"a": SOUND["nodes"]["a-w-0"] | {"machine": None}}}
    assert is_certainly_valid(schema, off)
    for attributes in mutate_attributes(off):
        assert not is_certainly_valid(schema, attributes) or validate_attributes(schema, attributes) == []
