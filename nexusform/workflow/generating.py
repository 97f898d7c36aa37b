"""Configuration written for objects that have none yet, with the hcl2 package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from nexusform.address import Address
from nexusform.language.formatter import format_text
from nexusform.language.numbers import number_text
from nexusform.rendering.notation.hcl_text import quoted
from nexusform.schema import Attribute, BlockSchema, Nesting, order_attribute
from nexusform.source import SourceFile

HEADING = """\
# Written by nexusform for objects to be imported. Look it through, then keep it as your own.

"""


def generated_block(address: Address, schema: BlockSchema, attributes: Mapping[str, Any]) -> str:
    """A resource block that describes the object as it stands.

    Arguments that are null or at their default are left out.
    """
    import hcl2
    from hcl2.const import IS_BLOCK

    body = _body(schema, attributes, IS_BLOCK)
    block = {quoted(address.type): {quoted(address.name): body}}
    text = re.sub("\n{3,}", "\n\n", hcl2.dumps({IS_BLOCK: True, "resource": [block]}))
    styled, _ = format_text(SourceFile("generated", text))
    return styled


def _body(schema: BlockSchema, attributes: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """A body as the hcl2 package has it: arguments, then nested blocks under their labels.

    `mark` is the key that tells a block from a map.
    """
    found: dict[str, Any] = {mark: True, **_arguments(schema, attributes)}
    for name, block in schema.blocks.items():
        given = attributes.get(name)
        if not given:
            continue
        parts = _parts(block.nesting, name, given, attributes)
        bodies = [(labels, _body(block.schema, part, mark)) for labels, part in parts]
        found[name] = [{labels[0]: body} if labels else body for labels, body in bodies]
    return found


def _parts(
    nesting: Nesting, name: str, given: Any, attributes: Mapping[str, Any]
) -> list[tuple[list[str], Mapping[str, Any]]]:
    if nesting is Nesting.SINGLE:
        return [([], given)]
    if nesting is Nesting.LIST:
        return [([], part) for part in given]
    order = attributes.get(order_attribute(name)) or list(given)
    return [([quoted(label)], given[label]) for label in order if label in given]


def _arguments(schema: BlockSchema, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _expression(attributes[name])
        for name, attribute in schema.attributes.items()
        if _is_worth_writing(attribute, attributes.get(name))
    }


def _is_worth_writing(attribute: Attribute, value: Any) -> bool:
    if not attribute.configurable or value is None:
        return False
    return attribute.required or value != attribute.default


def _expression(value: Any) -> Any:
    """Plain data as the hcl2 package wants it: texts in quotes, escaped."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return {quoted(str(name)): _expression(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_expression(part) for part in value]
    if isinstance(value, Fraction):
        return float(number_text(value))
    return value
