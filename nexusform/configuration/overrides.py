"""Override files: an argument replaces an argument, nested blocks replace all of their type."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nexusform.configuration.model import AnyBody
from nexusform.configuration.resource_blocks import remaining
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content
from nexusform.language.syntax import Attribute, Block, Body, JsonBody, JsonObject, JsonProperty

_DEPENDS_ON = BodySchema(attributes={"depends_on": False})
# Nested blocks whose arguments are merged one by one instead.
_MERGED = "lifecycle"
LIFECYCLE_FACE = BodySchema(
    attributes=dict.fromkeys(
        ("create_before_destroy", "prevent_destroy", "ignore_changes", "replace_triggered_by", "destroy"),
        False,
    ),
    blocks={"precondition": (), "postcondition": ()},
)


def merge_block(base: Block, override: Block, face: BodySchema, problems: list[Diagnostic]) -> Block:
    """The base block as the override changes it; it keeps its place.

    `face` is what the block may hold: it tells arguments from blocks where one of the two files is
    JSON and the other is not.
    """
    parts, _ = content(override.body, _DEPENDS_ON, partial=True)
    refused = parts.attributes.get("depends_on")
    if refused is not None:
        detail = "The depends_on argument may not be overridden."
        problems.append(error("unsupported-override", detail, refused.name_span))
    changes = remaining(override.body, _DEPENDS_ON)
    return replace(base, body=_merge(base.body, changes, face, problems))


def _merge(base: AnyBody, override: AnyBody, face: BodySchema, problems: list[Diagnostic]) -> AnyBody:
    if isinstance(base, JsonBody) and isinstance(override, JsonBody):
        return _merge_json(base, override)
    return _merge_native(_native(base, face, problems), _native(override, face, problems), problems)


def _native(body: AnyBody, face: BodySchema, problems: list[Diagnostic]) -> Body:
    if isinstance(body, Body):
        return body
    parts, wrong = content(body, BodySchema(dict.fromkeys(face.attributes, False), face.blocks))
    problems.extend(wrong)
    return Body(tuple(parts.attributes.values()), parts.blocks, body.span, parts.end_span)


def _merge_native(base: Body, override: Body, problems: list[Diagnostic]) -> Body:
    attributes: dict[str, Attribute] = {a.name: a for a in base.attributes}
    attributes.update((a.name, a) for a in override.attributes)
    replaced = {_generated(b) for b in override.blocks}
    merged = [b for b in override.blocks if b.type == _MERGED]
    blocks: list[Block] = []
    for block in base.blocks:
        if block.type == _MERGED and merged:
            body = _merge(block.body, merged[0].body, LIFECYCLE_FACE, problems)
            blocks.append(replace(block, body=body))
            merged = []
        elif _generated(block) not in replaced:
            blocks.append(block)
    blocks.extend(b for b in override.blocks if b.type != _MERGED)
    return Body(tuple(attributes.values()), (*blocks, *merged), base.span, base.end_span)


def _generated(block: Block) -> str:
    """The type of the blocks that a block stands for: a dynamic block makes those of its label."""
    return block.labels[0].value if block.type == "dynamic" and block.labels else block.type


def _properties(body: JsonBody) -> Iterable[JsonProperty]:
    return (p for o in body.objects for p in o.properties)


def _merge_json(base: JsonBody, override: JsonBody) -> JsonBody:
    merged: dict[str, JsonProperty] = {p.name: p for p in _properties(base)}
    for each in _properties(override):
        earlier = merged.get(each.name)
        if earlier is not None and each.name in {_MERGED, "dynamic"}:
            value, other = earlier.value, each.value
            if isinstance(value, JsonObject) and isinstance(other, JsonObject):
                both = _merge_json(JsonBody((value,), value.span), JsonBody((other,), other.span))
                merged[each.name] = replace(earlier, value=both.objects[0])
                continue
        if each.name == "dynamic" and isinstance(each.value, JsonObject):
            for made in each.value.properties:
                merged.pop(made.name, None)
        merged[each.name] = each
    return JsonBody((JsonObject(tuple(merged.values()), base.span),), base.span)
