"""Which block of an override file changes which block of the ordinary files."""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.configuration.constants import constant_text
from nexusform.configuration.evaluation import body_face
from nexusform.configuration.module_blocks import MODULE_FACE, PROVIDER_FACE
from nexusform.configuration.overrides import merge_block
from nexusform.configuration.resource_blocks import META_FACE, Home, Registered
from nexusform.configuration.value_blocks import OUTPUT_FACE, VARIABLE_FACE
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content, just_attributes
from nexusform.language.syntax import Block

_Placed = tuple[Block, Home]
_Key = tuple[str, ...]

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
    if overriding:
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
    names = [n for b in (base, override) for n in just_attributes(b.body)[0] if n not in taken.blocks]
    return BodySchema(attributes=dict.fromkeys((*taken.attributes, *names), False), blocks=taken.blocks)
