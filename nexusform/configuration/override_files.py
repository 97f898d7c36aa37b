"""Override files: which block changes which; arguments replace arguments, nested blocks all of their type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nexusform.configuration.body_evaluation import body_face
from nexusform.configuration.declared.configuration import AnyBody
from nexusform.configuration.declared.constants import constant_text
from nexusform.configuration.module_blocks import MODULE_FACE, PROVIDER_FACE
from nexusform.configuration.resource_blocks import META_FACE, Home, Registered, remaining
from nexusform.configuration.value_blocks import OUTPUT_FACE, VARIABLE_FACE
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content, just_attributes
from nexusform.language.syntax.nodes import Attribute, Block, Body, JsonBody, JsonObject, JsonProperty

_Placed = tuple[Block, Home]
_Key = tuple[str, ...]

_DEPENDS_ON = BodySchema(attributes={"depends_on": False})
# Nested blocks whose arguments are merged one by one instead.
_MERGED = "lifecycle"
_LIFECYCLE_FACE = BodySchema(
    attributes=dict.fromkeys(
        ("create_before_destroy", "prevent_destroy", "ignore_changes", "replace_triggered_by", "destroy"),
        False,
    ),
    blocks={"precondition": (), "postcondition": ()},
)
_MISSING = {
    "variable": ("missing-base-variable-declaration-to-override", "variable", "declared"),
    "output": ("missing-base-output-definition-to-override", "output", "defined"),
    "module": ("missing-module-call-to-override", "module call", "defined"),
    "resource": ("missing-resource-to-override", "resource block", "defined"),
    "data": ("missing-data-resource-to-override", "data block", "defined"),
    "provider": ("missing-base-provider-configuration-for-override", "provider configuration", "defined"),
}
_REFUSED = {
    "moved": "Records of moved objects can appear only in normal files, not in override files.",
    "removed": "Records of removed objects can appear only in normal files, not in override files.",
    "import": "Import blocks can appear only in normal files, not in override files.",
    "check": "Check blocks can appear only in normal files, not in override files.",
}


def apply_overrides(
    primary: Sequence[_Placed],
    overriding: Sequence[Block],
    registered: Registered,
    problems: list[Diagnostic],
) -> tuple[list[_Placed], list[Block]]:
    """The ordinary blocks as the override files change them, and the `locals` blocks of those files.

    The latter are merged by name when they are decoded.
    """
    blocks = list(primary)
    names: list[Block] = []
    places: dict[_Key, int] = {}
    for index, (block, _) in enumerate(blocks):
        places.setdefault(_key(block), index)
    for block in overriding:
        if block.type == "locals":
            names.append(block)
        elif block.type in _REFUSED:
            headline = f"Cannot override '{block.type}' blocks"
            problems.append(
                error(
                    "block-cannot-be-overridden",
                    _REFUSED[block.type],
                    block.header_span,
                    headline=headline,
                )
            )
        elif block.type != "nexusform":
            index = places.get(_key(block), -1)
            if index < 0:
                problems.append(_missing(block))
                continue
            base, home = blocks[index]
            face = _face(base, block, registered)
            blocks[index] = (merge_block(base, block, face, problems), home)
    return blocks, names


def _key(block: Block) -> _Key:
    labels = tuple(label.value for label in block.labels)
    if block.type != "provider":
        return (block.type, *labels)
    parts, _ = content(block.body, PROVIDER_FACE, partial=True)
    return (block.type, *labels, constant_text(parts.attributes.get("alias"), []) or "")


def _missing(block: Block) -> Diagnostic:
    kind, noun, done = _MISSING[block.type]
    named = " ".join(f'"{label.value}"' for label in block.labels)
    detail = (
        f"There is no {noun} {named}. An override file can only override a {noun} that was already {done} in "
        "a primary configuration file."
    )
    return error(kind, detail, block.header_span)


def _face(base: Block, override: Block, registered: Registered) -> BodySchema:
    """What the merged block may hold, needed when one of the two is written in JSON."""
    if base.type == "variable":
        return VARIABLE_FACE
    if base.type == "output":
        return OUTPUT_FACE
    if base.type in {"resource", "data"}:
        known = registered.of("managed" if base.type == "resource" else "data") or {}
        schema = known.get(base.labels[0].value)
        if schema is not None:
            face = body_face(schema)
            return BodySchema(
                attributes={**META_FACE.attributes, **face.attributes},
                blocks={**META_FACE.blocks, **face.blocks},
            )
    taken = META_FACE if base.type in {"resource", "data"} else MODULE_FACE
    written = [*just_attributes(base.body)[0], *just_attributes(override.body)[0]]
    names = [*taken.attributes, *(name for name in written if name not in taken.blocks)]
    return BodySchema(attributes=dict.fromkeys(names, False), blocks=taken.blocks)


# --- merging one block -----------------------------------------------------------------------


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
    """A body with what an override file says in place of its own: arguments one by one, blocks of one type
    together; lifecycle is merged.
    """
    attributes: dict[str, Attribute] = {a.name: a for a in base.attributes}
    attributes.update((a.name, a) for a in override.attributes)
    replaced = {_generated(b) for b in override.blocks}
    merged = [b for b in override.blocks if b.type == _MERGED]
    blocks: list[Block] = []
    for block in base.blocks:
        if block.type == _MERGED and merged:
            body = _merge(block.body, merged[0].body, _LIFECYCLE_FACE, problems)
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
    """The same in JSON."""
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
