"""What the quick look at attributes lets pass, the close look finds nothing wrong with."""

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
from nexusform.state.attribute_validation import validate_attributes
from nexusform.state.fast_validation import is_certainly_valid
from tests.state.test_attribute_validation import CLUSTER, SOUND

SCHEMAS = build_registries().schemas["managed"]
ODD: tuple[Any, ...] = (None, True, 1, -1, 0.5, 2.0, 10**30, "odd", [], [None], {}, {"odd": None})


def sample(of: Type) -> Any:
    """A value of a type, each list and map with one element."""
    if isinstance(of, ObjectType):
        return {name: sample(part) for name, part in of.attributes}
    if isinstance(of, MapType):
        return {"key": sample(of.element)}
    if isinstance(of, ListType | SetType):
        return [sample(of.element)]
    if isinstance(of, PrimitiveType):
        return {"string": "text", "bool": True}.get(of.name, 1)
    return ["anything"]


def sound(schema: BlockSchema) -> dict[str, Any]:
    """Attributes in which nothing is wrong: where a schema wants other ones than `sample`, its own."""
    attributes: dict[str, Any] = sample(compute_implied_type(schema))
    for name, attribute in schema.attributes.items():
        if attribute.choices and isinstance(attribute.type, PrimitiveType):
            attributes[name] = attribute.choices[0]
        elif attribute.minimum is not None and isinstance(attribute.type, PrimitiveType):
            attributes[name] = attribute.minimum
    for name, block in schema.blocks.items():
        inner, shape = sound(block.schema), attributes[name]
        attributes[name] = [inner] if isinstance(shape, list) else inner
        if block.nesting == "map":
            attributes[name] = {"key": inner}
    return attributes


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    yield here
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in steps:
        yield from paths(part, (*here, step))


def with_odd(attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The attributes with something else in one place, and with something left out."""
    for path in paths(attributes):
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
def test_what_passes_at_once_has_nothing_wrong_with_it(name: str) -> None:
    schema = SCHEMAS[name]
    good = sound(schema)
    assert validate_attributes(schema, good) == []
    passed = 0
    for attributes in with_odd(good):
        if is_certainly_valid(schema, attributes):
            assert validate_attributes(schema, attributes) == [], attributes
            passed += 1
    text = orjson.dumps(good)
    assert passed or b'"machine":"text"' in text  # what stands on machines is for a closer look


def test_pools_and_objects_on_machines() -> None:
    schema = CLUSTER
    assert not is_certainly_valid(schema, SOUND)
    off = SOUND | {"nodes": {"a": SOUND["nodes"]["a-w-0"] | {"machine": None}}}
    assert is_certainly_valid(schema, off)
    for attributes in with_odd(off):
        assert not is_certainly_valid(schema, attributes) or validate_attributes(schema, attributes) == []
